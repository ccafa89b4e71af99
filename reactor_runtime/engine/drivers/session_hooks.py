"""The hooks of one session: `@connected` and `@disconnected`, in pairs on each instance of the model."""

from __future__ import annotations

import logging

from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.hooks import call_author
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession, must_pass
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.errors import from_author

logger = logging.getLogger(__name__)


class SessionHooks:
    """Connect a session to the instance that is served, and disconnect it from each that was served before.

    An instance whose `@connected` was called, even if that failed, gets one `@disconnected` before another instance, or
    the same one again, gets `@connected`, and at the end of the session. Belongs to the loop.
    """

    def __init__(self, served: ServedModel, session: ModelSession, state: SessionState, connected: Connected) -> None:
        self._served = served
        self._session = session
        self._state = state
        self._connected = connected
        # The version whose @connected was called last; its @disconnected is still to be called.
        self._begun: Version | None = None
        self._finished = False

    @property
    def has_begun(self) -> bool:
        """Return whether the `@connected` of the instance that is served was called."""
        return self._begun is not None and self._begun.model is self._served.model

    @property
    def is_current(self) -> bool:
        """Return whether the `@connected` of the instance that is served has finished."""
        return self._finished and self.has_begun

    async def open(self) -> None:
        """Call `@connected` of the instance that is served; raise its exception. Do nothing if that has finished."""
        if self.is_current:
            # The same instance may have another class, and so other hooks.
            self._begun = self._served.version
            return
        await self.close()
        version = self._begun = self._served.version
        if (hook := version.contract.on_connected) is not None:
            await call_author(version.model, hook, self._session)
        self._state.send_changes()
        self._finished = True
        # Another instance may be served since.
        if version.model is self._served.model:
            self._connected.set()

    async def close(self) -> None:
        """Call the `@disconnected` that is due, if one is, without cancelling it; log its exception."""
        version, self._begun, self._finished = self._begun, None, False
        if version is None:
            return
        if version.model is self._served.model:
            version = self._served.version
        self._connected.clear_wait()
        if (hook := version.contract.on_disconnected) is None:
            return
        try:
            await call_author(version.model, hook, self._session, stoppable=False)
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as error:
            if must_pass(error):
                raise
            self._session.failed(error)
            logger.error(
                "@disconnected failed; the session continues, or ends, all the same id=%s",
                self._session.id,
                exc_info=from_author(error),
            )
