"""The clients of the front that watch the session of one worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.relay import Failure, Relay, RelayEnd
from reactor_runtime.cluster.front.worker_session import WorkerSession
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.encoding.encoded import Snapshot
from reactor_runtime.server.sessions.slot import SlotSettings
from reactor_runtime.server.sessions.welcome import welcome_message
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


class ViewerLost(Protocol):
    def __call__(self, *, is_reachable: bool) -> None: ...


class WorkerViewers:
    """Relay viewers, or keep them until there is a session to redirect them to; use on the front's loop.

    `contract` returns None if the worker has none or does not serve, and `session` if none runs. `starts` returns
    whether one starts on a worker that may have others, which its viewers are not to see. `on_lost` is called for a
    viewer that has lost its connection to the worker, with whether that is reachable.
    """

    def __init__(
        self,
        access: WorkerAccess,
        *,
        settings: SlotSettings,
        contract: Callable[[], dict[str, Any] | None],
        session: Callable[[], WorkerSession | None],
        starts: Callable[[], bool],
        on_lost: ViewerLost,
    ) -> None:
        self._access = access
        self._settings = settings
        self._contract = contract
        self._session = session
        self._starts = starts
        self._on_lost = on_lost
        self._relays: dict[Client, Relay | None] = {}

    def __contains__(self, client: Client) -> bool:
        return client in self._relays

    @property
    def clients(self) -> list[Client]:
        return list(self._relays)

    @property
    def _is_full(self) -> bool:
        relayed = sum(relay is not None for relay in self._relays.values())
        return relayed >= self._settings.options.max_viewers

    def join(self, client: Client) -> None:
        """Redirect a viewer to the worker, relay it, or keep it until there is a session for it.

        A client that is relayed keeps its connection, over which the worker shows it the next session too. Does nothing
        while the worker does not serve, as the viewer is assigned again when it does.
        """
        if client not in self._relays:
            self._watch(client)

    def leave(self, client: Client) -> None:
        relay = self._relays.pop(client, None)
        if relay is not None:
            relay.close()

    def send_waiting(self) -> None:
        """Send the clients that wait for a session to the one that has started."""
        for client in [client for client, relay in self._relays.items() if relay is None]:
            self._watch(client)

    def set_view(self, client: Client, view: View) -> None:
        # A relay follows the view itself.
        client.outbox.set_view(view)

    async def snapshot(self, track: str, seat: int = 0) -> Snapshot | None:
        """Return the worker's latest frame of a track, as a seat sees it; None if it has none or can't be reached."""
        if self._starts():
            return None
        session = self._session()
        return await self._access.snapshot(track, "" if session is None else session.id, seat)

    def close(self) -> None:
        for client in self.clients:
            self.leave(client)

    def _watch(self, client: Client) -> None:
        """Send a viewer to the worker if it serves.

        A controller that watches while it waits is relayed: it keeps its connection to the front, and its position,
        also when the worker has too many viewers. Above that limit it is not relayed, as many attempts at once would
        use up the connections that the worker accepts from the front.
        """
        self.leave(client)
        contract = self._contract()
        if contract is None or (client.role is Role.CONTROLLER and self._is_full):
            return
        seats = int(contract.get("seats", 1))
        if client.seat >= seats:
            client.seat = 0
        session = self._session()
        session_id = "" if session is None else session.id
        # The worker tells the code of a private room only to clients that have it.
        code = client.room if session is not None and client.room == session.room else ""
        is_relayed = not self._access.redirects(client) or client.role is Role.CONTROLLER
        if is_relayed and not self._starts():
            # Without a session of its own, a viewer stays with the worker when the session of this room is over.
            ticket = self._access.issue(client, Role.VIEWER, room=code or session_id)
            self._relays[client] = self._access.relay(client, ticket, lambda end: self._relay_ended(client, end))
        elif session is not None:
            self._access.redirect(client, self._access.issue(client, Role.VIEWER, session=session_id, room=code))
        else:
            self._relays[client] = None
            options = self._settings.options
            welcome = welcome_message(
                None,
                contract,
                model=self._settings.name_of(contract),
                client=client.id,
                controls=False,
                seat=client.seat,
                seats=seats,
                limits=options.limits,
                encodings=self._settings.encodings,
            )
            client.send_message("reactor.welcome", welcome)

    def _relay_ended(self, client: Client, end: RelayEnd) -> None:
        self._relays.pop(client, None)
        if end.failure is not None:
            self._on_lost(is_reachable=end.failure is not Failure.UNREACHED)
        elif end.code is CloseCode.SERVER_STOPPING and client.closing is None:
            # Only this worker is stopped: the client continues with another one.
            self._on_lost(is_reachable=False)
        elif client.role is Role.CONTROLLER:
            logger.info(
                "client waits without watching id=%s from=%s: %s",
                client.id,
                client.address,
                end.reason,
                extra=client.log_fields,
            )
        else:
            client.close(end.code, end.reason)
