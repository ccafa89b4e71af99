"""The consequence of each close: which error ends the session, whether the client connects again, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from reactor_runtime.client.address import Role
from reactor_runtime.client.errors import Busy, ClientError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.wire.protocol import CloseCode

FIRST_S = 0.2
MOST_S = 2.0
STEADY_S = 2.0  # a connection that lasted this long starts the waits anew
REFUSED_FOR_GOOD = (401, 403, 421)  # other answers come from a server that starts, or a proxy before it

UNKNOWN = "whether what was on its way took effect is unknown"
_TOKEN_HINT = "give its token, as `token` or as ?token= in the address"
_PROTOCOL_ERROR, _NOT_UTF8 = 1002, 1007
_OWN_FAULT = (_PROTOCOL_ERROR, _NOT_UTF8, CloseCode.TOO_BIG, CloseCode.RATE_LIMITED)  # the same would happen again


@dataclass(frozen=True, slots=True)
class Verdict:
    """The error that a close raises in everything that waits, None for none; `final` ends the client as well."""

    error: ClientError | None
    final: bool = False


def judge(code: int, reason: str, *, role: Role, welcomed: bool, kept: bool) -> Verdict:
    """Judge a close by its code.

    `welcomed` is true for a controller with its own session and for a viewer that knows the model; `kept` when the
    server keeps that session for this client.
    """
    own = role == "controller" and welcomed
    match code:
        case CloseCode.SESSION_OVER:
            return Verdict(SessionEnded("closed", reason or "the server closed the connection"), final=True)
        case CloseCode.BAD_TOKEN:
            return Verdict(Refused(reason or "no or wrong token", status=401, hint=_TOKEN_HINT), final=True)
        case CloseCode.ORIGIN_NOT_ALLOWED:
            return Verdict(Refused(reason or "the origin is not allowed", status=403), final=True)
        case _ if code in _OWN_FAULT:
            return Verdict(ConnectionLost(f"the server closed the connection: {reason or code}"), final=True)
        case CloseCode.FULL if not welcomed:
            return Verdict(Busy(reason or "the server is full; try again later"))
        case CloseCode.SERVER_STOPPING if own:
            return Verdict(SessionEnded("server_stopping", reason or "the server is stopping"))
        case CloseCode.MODEL_FAILED if own:
            return Verdict(SessionEnded("model_error", reason))
    if own and not kept:
        return Verdict(ConnectionLost(f"the connection was lost, and the session with it; {UNKNOWN}"))
    return Verdict(None)


class Retry:
    """Double the wait after each failure, up to 2 s; half of each wait is random, so that clients spread out."""

    def __init__(self, random: Callable[[], float] = random.random) -> None:
        self._random = random
        self._failures = 0
        self._opened_at: float | None = None

    def opened(self, now: float) -> None:
        """Note that an attempt succeeded."""
        self._opened_at = now

    def next_s(self, now: float) -> float:
        """Return the seconds to wait after a connection broke or an attempt failed."""
        if self._opened_at is not None and now - self._opened_at > STEADY_S:
            self._failures = 0
        self._opened_at = None
        longest_s: float = min(MOST_S, FIRST_S * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return longest_s * (1 + self._random()) / 2
