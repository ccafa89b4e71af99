"""The hooks of one session, in pairs on each instance of the model.

For a model that follows its clients (`Contract.follows_clients`) these are `@session_started`, `@session_ended`, and
for each client `@connected` and `@disconnected`; for any other model they are the latter two, for the controller alone.
Within these each seat has `@joined` and `@left` for its controllers.
"""

from __future__ import annotations

import logging

from reactor_runtime.authoring.events.events import SEAT, HookSpec
from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.dispatch import ClientChange
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.hooks import call_author
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession, SessionStopped, must_pass
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.errors import from_author

logger = logging.getLogger(__name__)


class SessionHooks:
    """Connect a session to the instance that is served, and disconnect it from each that was served before.

    An instance whose `@connected` was called, even if that failed, gets one `@disconnected` before another instance, or
    the same one again, gets `@connected`, and at the end of the session. Of a model that follows its clients, an
    instance gets one `@session_ended` for its `@session_started`, and before that one `@disconnected` for each client
    that has left after its `@connected`. Belongs to the loop.
    """

    def __init__(
        self,
        served: ServedModel,
        session: ModelSession,
        state: SessionState,
        connected: Connected,
        inputs: Inputs,
    ) -> None:
        self._served = served
        self._session = session
        self._state = state
        self._connected = connected
        self._inputs = inputs
        # The version whose hooks were called last; its last one is still to be called.
        self._begun: Version | None = None
        self._finished = False
        # New code in the same instance may have other hooks: those that were begun are ended.
        self._follows = False
        # The clients whose @connected was called on the instance that is served.
        self._greeted: dict[str, ClientInfo] = {}
        # The controllers whose @joined was called on it.
        self._seated: dict[str, ClientInfo] = {}
        if not served.contract.follows_clients:
            connected.set_early()

    @property
    def has_begun(self) -> bool:
        """Return whether the first hook of the instance that is served was called."""
        return self._begun is not None and self._begun.model is self._served.model

    @property
    def is_current(self) -> bool:
        """Return whether the first hooks of the instance that is served have finished."""
        return self._finished and self.has_begun

    async def open(self) -> None:
        """Call the first hooks of the instance that is served; do nothing if they have finished.

        Raises the exception of `@connected`, but not that of a model that follows its clients, which is logged.
        """
        if self.is_current:
            # The same instance may have another class, and so other hooks.
            self._begun = self._served.version
            return
        await self.close()
        version = self._begun = self._served.version
        self._follows = version.contract.follows_clients
        if self._follows:
            await self._open_following(version)
            return
        if (hook := version.contract.on_connected) is not None:
            await call_author(version.model, hook, self._session)
        await self._seat_all()
        self._state.send_changes()
        self._finished = True
        # Another instance may be served since.
        if version.model is self._served.model:
            self._connected.set()

    async def apply(self, change: ClientChange) -> None:
        """Call the hooks for a client that has come or gone: those of its seat, and if they follow clients the others.

        Before the first hooks have finished there is nothing to do: these include all clients that have come by then.
        """
        if not self.is_current:
            return
        client = change.client
        if not change.joined:
            await self._unseat(client)
            if client.id in self._greeted:
                await self._part(client)
            return
        # It may have left without an event.
        if self._session.find_client(client.id) is None:
            return
        if self._follows and client.id not in self._greeted:
            await self._greet(client)
        await self._seat(client)

    async def close(self) -> None:
        """Call the last hooks that are due, if any are, without cancelling them; log their exceptions."""
        version = self._begun
        if version is None:
            return
        for client in list(self._seated.values()):
            await self._unseat(client)
        if self._follows:
            for client in [each for each in self._greeted.values() if each.id not in self._session.clients]:
                await self._part(client)
        self._begun, self._finished = None, False
        if version.model is self._served.model:
            version = self._served.version
        if self._follows:
            self._greeted.clear()
            self._connected.clear()
            await self._call_logged(version, version.contract.on_session_ended, None)
        else:
            self._connected.clear_wait()
            await self._call_logged(version, version.contract.on_disconnected, self._session.client)

    async def _open_following(self, version: Version) -> None:
        await self._call_logged(version, version.contract.on_session_started, None, stoppable=True)
        self._state.send_changes()
        self._finished = True
        for client in self._session.joined:
            if self.is_current:
                await self._greet(client)
        await self._seat_all()
        self._session.desert(not self._greeted)

    async def _seat_all(self) -> None:
        for client in self._session.joined:
            await self._seat(client)

    async def _seat(self, client: ClientInfo) -> None:
        """Seat a controller, and call `@joined`; do nothing for a client without a seat."""
        if client.id in self._seated:
            return
        self._state.take_seat(client)
        if self._state.seat_of(client) is None:
            return
        self._seated[client.id] = client
        version = self._served.version
        await self._call_logged(version, version.contract.on_joined, client, stoppable=True)
        self._state.send_changes()

    async def _unseat(self, client: ClientInfo) -> None:
        """Call `@left`, and free the seat of a controller that has left."""
        if self._seated.pop(client.id, None) is None:
            return
        version = self._served.version if self.has_begun or self._begun is None else self._begun
        await self._call_logged(version, version.contract.on_left, client)
        seat = self._state.seat_of(client)
        if seat is not None and client.id not in self._session.clients:
            self._state.leave_seat(seat)
            self._state.send_changes()

    async def _greet(self, client: ClientInfo) -> None:
        is_first = not self._greeted
        self._greeted[client.id] = client
        if is_first:
            self._connected.set_early()
        version = self._served.version
        await self._call_logged(version, version.contract.on_connected, client, stoppable=True)
        self._state.send_changes()
        if is_first and version.model is self._served.model:
            self._connected.set()
            self._session.desert(False)

    async def _part(self, client: ClientInfo) -> None:
        del self._greeted[client.id]
        is_last = not self._greeted
        if is_last:
            self._connected.clear()
        version = self._served.version if self.has_begun or self._begun is None else self._begun
        await self._call_logged(version, version.contract.on_disconnected, client)
        self._state.send_changes()
        if is_last:
            self._inputs.empty()
            self._session.desert(True)

    async def _call_logged(
        self, version: Version, hook: HookSpec | None, client: ClientInfo | None, *, stoppable: bool = False
    ) -> None:
        """Call a hook whose exception does not end the session; an async one that is `stoppable` ends with it."""
        if hook is None:
            return
        arguments: dict[str, object] = {} if hook.client_parameter is None else {hook.client_parameter: client}
        if hook.takes_seat and client is not None:
            arguments[SEAT] = client.seat
        try:
            await call_author(version.model, hook, self._session, arguments, stoppable=stoppable)
        except SessionStopped:
            raise
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as error:
            if must_pass(error):
                raise
            self._session.failed(error)
            logger.error(
                "@%s failed; the session continues, or ends, all the same id=%s",
                hook.hook,
                self._session.id,
                exc_info=from_author(error),
            )
