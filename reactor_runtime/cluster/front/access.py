"""How clients get to a worker: with a ticket of their own, or relayed with one."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from urllib.parse import quote, urlencode, urlsplit

from reactor_runtime.cluster.front.relay import Relay, RelayEnd
from reactor_runtime.cluster.front.worker_request import request_worker
from reactor_runtime.cluster.placement.placement import WorkerPlaced
from reactor_runtime.cluster.tickets import IssuedTicket, TicketIssuer
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.encoding.encoded import Snapshot
from reactor_runtime.server.net.listening import is_global, is_private
from reactor_runtime.server.security.certificate import pinned_context
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

SNAPSHOT_S = 5.0
OK = 200
CONTINUE = "continue at the worker"


class WorkerAccess:
    """Send clients to a worker at its `url`, or relay them from its `address`; both are "" until it is placed.

    `tls` accepts only the certificate that the worker has read: files of other machines may have been renewed since.
    """

    def __init__(self, worker: str, tickets: TicketIssuer, *, relays_all: bool) -> None:
        self.url = ""
        self.address = ""
        self.node = ""
        self.tls: ssl.SSLContext | None = None
        self._worker = worker
        self._tickets = tickets
        self._relays_all = relays_all
        self._is_private = False

    def set_place(self, placed: WorkerPlaced) -> None:
        """Use a worker at its place, with its own certificate."""
        self.url, self.address, self.node = placed.url, placed.address, placed.node
        self.tls = pinned_context(placed.certificate) if placed.certificate else None
        self._is_private = is_private(urlsplit(placed.url).hostname or "")

    def redirects(self, client: Client) -> bool:
        """Return whether a client is sent to the worker rather than relayed."""
        # A client on the internet can't reach a private address, and its browser would ask the visitor before it tries.
        out_of_reach = self._is_private and is_global(client.address)
        return client.follows_redirects and not (self._relays_all or out_of_reach)

    @property
    def shown_url(self) -> str:
        """Return the URL for clients; "" when the front relays all of them."""
        return "" if self._relays_all else self.url

    def issue(
        self, client: Client, role: Role, *, slot: int = 1, session: str = "", room: str = "", resume: str = ""
    ) -> IssuedTicket:
        """Return a ticket for a client that controls, resumes, or watches a session, in its seat."""
        return self._tickets.issue(
            self._worker,
            role=role,
            slot=slot,
            session=session,
            room=room,
            seat=client.seat,
            client=client.id,
            now=time.time(),
            resume=resume,
            used_s=client.used_s,
            waits=role is Role.VIEWER and client.role is Role.CONTROLLER,
        )

    def redirect(self, client: Client, ticket: IssuedTicket) -> None:
        """Send a client to the worker, and close its connection to the front."""
        logger.info(
            "client redirected id=%s worker=%s from=%s",
            client.id,
            self._worker,
            client.address,
            extra=client.log_fields,
        )
        returns = {"returning": ticket.returns} if client.role is Role.CONTROLLER else {}
        client.send_message("reactor.redirect", {"url": self.url, "ticket": ticket.text, **returns})
        client.close(CloseCode.SESSION_OVER, CONTINUE)

    async def snapshot(self, track: str, session: str, seat: int) -> Snapshot | None:
        """Return the latest frame of a track in a session, or in the last one if `session` is "", as a seat sees it.

        None if the worker has none or can't be reached.
        """
        query = urlencode({"seat": seat, **({"session": session} if session else {})})
        url = f"{self.address}/snapshot/{quote(track, safe='')}.jpg?{query}"
        bearer = [(b"Authorization", f"Bearer {self._tickets.secret}".encode())]
        try:
            response = await request_worker("GET", url, headers=bearer, tls=self.tls, stalled_s=SNAPSHOT_S)
        except OSError as error:
            logger.warning("no snapshot worker=%s: %s", self._worker, error)
            return None
        if response.status_code != OK:
            return None
        return Snapshot(response.headers["content-type"], bytes(response.body))

    def relay(self, client: Client, ticket: IssuedTicket, on_end: Callable[[RelayEnd], None]) -> Relay:
        """Connect to the worker for a client."""
        logger.info(
            "client relayed id=%s worker=%s from=%s", client.id, self._worker, client.address, extra=client.log_fields
        )
        url = f"{self.address.replace('http', 'ws', 1)}/ws?ticket={ticket.text}"
        return Relay(client, url, on_end, tls=self.tls)
