"""Tickets with which the front sends clients to workers. Pure: the time is an argument.

A ticket is a JSON Web Token (RFC 7519) with HMAC-SHA256: its issuer is the cluster, its audience the worker.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

import jwt

from reactor_runtime.errors import ReactorError

TICKET_S = 10.0
# For how long a released ticket is reported.
RELEASED_S = 10.0
# Accepted difference between the clocks of two machines.
LEEWAY_S = 5.0
_ALGORITHM = "HS256"


class TicketRefused(ReactorError):
    """Report a ticket that is expired, used, or for another worker or cluster."""


class TicketExpired(TicketRefused):
    """Report a ticket that is too old, or was signed by a front whose clock is behind."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Hold the permissions of a ticket: one connection in a role, in the slot and the seat of these numbers.

    It is for the `session` of this id, or the one that `resume` resumes; without either a controller starts a session,
    with the code `room` if that is not "". A viewer that `waits` is a controller in the wait queue of the front.
    `front` is the id of the front that issued it, `client` the id of the client at the front and at the worker.
    `resume` is the secret of the session, which its controller has shown. `used_s` is the part of the controller's turn
    that a lost session has used.
    """

    id: str
    worker: str
    front: str
    role: str
    slot: int
    session: str
    room: str
    seat: int
    client: str
    resume: str
    used_s: float
    waits: bool
    expires_at_unix: float


@dataclass(frozen=True, slots=True)
class IssuedTicket:
    """Hold a ticket's id, the text that the client shows to the worker, and the secret for its return.

    `returns`, the secret, goes to the front only, and never in a URL, which proxies log.
    """

    id: str
    text: str
    returns: str


class TicketIssuer:
    """Sign tickets for the workers of a cluster, with the id of the `front`."""

    def __init__(self, secret: str, cluster: str, front: str) -> None:
        self.secret = secret
        self.cluster = cluster
        self.front = front

    def issue(
        self,
        worker: str,
        *,
        role: str,
        session: str,
        client: str,
        now: float,
        slot: int = 1,
        room: str = "",
        seat: int = 0,
        resume: str = "",
        used_s: float = 0.0,
        waits: bool = False,
    ) -> IssuedTicket:
        """Return a ticket that is valid for 10 s from `now`, in seconds since the epoch."""
        id = secrets.token_urlsafe(12)
        claims = {
            "jti": id,
            "iss": self.cluster,
            "aud": worker,
            "exp": now + TICKET_S,
            "front": self.front,
            "role": role,
            "slot": slot,
            "session": session,
            "room": room,
            "seat": seat,
            "client": client,
            "resume": resume,
            "used": used_s,
            "waits": waits,
        }
        return IssuedTicket(id, jwt.encode(claims, self.secret, _ALGORITHM), f"{id}.{self._sign_return(id)}")

    def read_return(self, secret: str) -> str:
        """Return the id of the ticket whose client returns with this secret; "" for a secret of another cluster."""
        id, _, signature = secret.partition(".")
        is_valid = hmac.compare_digest(signature.encode(errors="replace"), self._sign_return(id).encode())
        return id if is_valid else ""

    def _sign_return(self, id: str) -> str:
        # Nothing is stored: a front that was started again accepts the secrets that the earlier front issued.
        text = f"return {self.cluster} {id}".encode(errors="replace")
        return hmac.new(self.secret.encode(), text, hashlib.sha256).hexdigest()


class TicketGate:
    """Admit each ticket for one worker once.

    A released ticket is refused, and so is one of another front than `front`, unless that is "".
    """

    def __init__(self, secret: str, cluster: str, worker: str) -> None:
        self._secret = secret
        self._cluster = cluster
        self._worker = worker
        self.front = ""
        self._released: dict[str, float] = {}
        self._used: set[str] = set()
        self._expiring: list[tuple[float, str]] = []

    def admit(self, text: str, now: float) -> Ticket:
        """Return the ticket and remember it as used. Raises TicketRefused with the reason if it is not valid."""
        ticket = _decode(text, self._secret, self._cluster, self._worker)
        if now > ticket.expires_at_unix + LEEWAY_S:
            age_s = now - ticket.expires_at_unix + TICKET_S
            raise TicketExpired(f"the ticket has expired: it is valid for {TICKET_S:.0f} s, and {age_s:.0f} s old")
        if self.front and ticket.front != self.front:
            raise TicketRefused("the ticket is of a front that another one has replaced")
        if ticket.id in self._used:
            raise TicketRefused("the ticket has been used or released: it is valid for one connection")
        self._void(ticket.id, ticket.expires_at_unix + LEEWAY_S, now)
        return ticket

    def release(self, ticket: str, now: float) -> None:
        """Refuse the ticket of this id from now on; may be called twice."""
        self._released[ticket] = now + RELEASED_S
        if ticket not in self._used:
            # The clock of the front may be ahead of this one.
            self._void(ticket, now + TICKET_S + 2 * LEEWAY_S, now)

    def released(self, now: float) -> tuple[str, ...]:
        """Return the ids of the tickets that were released in the last 10 s."""
        self._released = {ticket: until for ticket, until in self._released.items() if now < until}
        return tuple(self._released)

    def _void(self, ticket: str, until: float, now: float) -> None:
        while self._expiring and self._expiring[0][0] < now:
            self._used.discard(heapq.heappop(self._expiring)[1])
        self._used.add(ticket)
        heapq.heappush(self._expiring, (until, ticket))


def _decode(text: str, secret: str, cluster: str, worker: str) -> Ticket:
    """Return a ticket of this cluster for `worker`. Does not check expiry."""
    options: Any = {"require": ["jti", "iss", "aud", "exp"], "verify_exp": False}
    try:
        claims = jwt.decode(text, secret, [_ALGORITHM], options=options, issuer=cluster, audience=worker)
    except jwt.InvalidAudienceError:
        raise TicketRefused("the ticket is for another worker") from None
    except jwt.InvalidIssuerError:
        raise TicketRefused("the ticket is for another cluster") from None
    except jwt.InvalidSignatureError:
        raise TicketRefused("the ticket is not signed by this cluster") from None
    except jwt.InvalidTokenError:
        raise TicketRefused("this is not a ticket") from None
    return Ticket(
        str(claims["jti"]),
        str(claims["aud"]),
        str(claims.get("front", "")),
        str(claims.get("role", "")),
        int(claims.get("slot", 1)),
        str(claims.get("session", "")),
        str(claims.get("room", "")),
        int(claims.get("seat", 0)),
        str(claims.get("client", "")),
        str(claims.get("resume", "")),
        float(claims.get("used", 0.0)),
        bool(claims.get("waits", False)),
        float(claims["exp"]),
    )
