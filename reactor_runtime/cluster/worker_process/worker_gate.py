"""Admits requests to a worker: clients by ticket, the front by the secret of the cluster."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable
from urllib.parse import urlencode

from starlette.requests import HTTPConnection

from reactor_runtime.cluster.tickets import TicketExpired, TicketGate, TicketRefused
from reactor_runtime.server.delivery.client import Role

logger = logging.getLogger(__name__)

FOR_CLIENTS = ("/ws",)
# The route checks the key of the session.
OPEN = ("/uploads",)
NO_PAGE = "this is a worker: open the page of its front"
CLOCKS = "if the front has sent it just now, the clock of this machine is ahead"
NO_TICKET = "this is a worker: connect to its front, which sends a ticket for it"


class WorkerGate:
    """Admit a client with a ticket or the secret to resume the session, and the front with the cluster's secret.

    Role, session, room, seat and slot are those of the ticket, not of the query; a client that resumes needs no ticket.
    `is_running` returns whether the session of an id runs, and is not ending.
    """

    def __init__(
        self,
        tickets: TicketGate,
        secret: str,
        *,
        is_resumed_by: Callable[[str], bool],
        is_running: Callable[[str], bool],
    ) -> None:
        self._tickets = tickets
        self._secret = secret
        self._is_resumed_by = is_resumed_by
        self._is_running = is_running

    def admits(self, request: HTTPConnection) -> bool:
        path = request.scope["path"]
        if path in OPEN:
            return True
        if path not in FOR_CLIENTS:
            return self._is_front(request)
        query = request.query_params
        if "ticket" not in query:
            return self._is_resumed_by(query.get("resume", ""))
        try:
            ticket = self._tickets.admit(query["ticket"], time.time())
            joins = ticket.session and ticket.role == Role.CONTROLLER
            is_late = joins and not self._is_running(ticket.session)
            if is_late or (ticket.resume and not self._is_resumed_by(ticket.resume)):
                raise TicketRefused("the session of the ticket is over")
        except TicketRefused as refused:
            if isinstance(refused, TicketExpired):
                address = request.client.host if request.client is not None else "unknown"
                fields = {"address": address}
                logger.warning("client refused from=%s: %s; %s", address, refused.message, CLOCKS, extra=fields)
            request.scope["state"]["refused"] = refused.message
            return False
        others = {name: value for name, value in query.items() if name == "watch"}
        permitted = {"role": ticket.role, "session": ticket.session, "resume": ticket.resume}
        permitted |= {"room": ticket.room, "seat": str(ticket.seat)}
        request.scope["query_string"] = urlencode({**others, **permitted}).encode()
        viewed = {"session": ticket.session} if ticket.session else {}
        request.scope["state"]["used_s"] = ticket.used_s
        request.scope["state"]["slot"] = ticket.slot
        request.scope["state"]["waits"] = ticket.waits
        request.scope["state"]["ids"] = {"ticket": ticket.id, "client": ticket.client, **viewed}
        return True

    def why_refused(self, request: HTTPConnection) -> str:
        refused: str | None = request.scope["state"].get("refused")
        return refused or (NO_TICKET if request.scope["path"] in FOR_CLIENTS else NO_PAGE)

    def cookie(self, request: HTTPConnection) -> str | None:  # noqa: ARG002  (what `RequestGate` declares)
        return None

    def _is_front(self, request: HTTPConnection) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(bearer.strip().encode(), self._secret.encode())
