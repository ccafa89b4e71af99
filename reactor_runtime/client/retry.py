"""What becomes of a connection that was closed: final, or tried again, when, and for how long."""

from __future__ import annotations

from reactor_runtime.client.errors import Busy, ClientError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.wire.protocol import CloseCode

FIRST_S = 0.1
MOST_S = 2.0
GIVE_UP_S = 60.0  # of failures in a row, for who has no session that is kept

_TOKEN_HINT = "give its token, as `token` or as ?token= in the address"


def final(code: int, reason: str, *, welcomed: bool) -> ClientError | None:
    """Say why a close is final, None for a connection that broke: by its code and whether there was a welcome."""
    match code:
        case CloseCode.SESSION_OVER:
            return SessionEnded("closed", reason or "the server closed the connection")
        case CloseCode.SERVER_STOPPING:
            return SessionEnded("server_stopping", reason or "the server is stopping")
        case CloseCode.MODEL_FAILED:
            return SessionEnded("model_error", reason)
        case CloseCode.FULL if not welcomed:
            return Busy(reason or "the server is full; try again later")
        case CloseCode.BAD_TOKEN:
            return Refused(reason or "no or wrong token", status=401, hint=_TOKEN_HINT)
        case CloseCode.ORIGIN_NOT_ALLOWED:
            return Refused(reason or "the origin is not allowed", status=403)
        case CloseCode.TOO_BIG | CloseCode.FULL | CloseCode.RATE_LIMITED:
            return ConnectionLost(f"the server closed the connection: {reason or code}")
    return None


class Retry:
    """Wait twice as long after each failure, until the time is over in which the session is kept."""

    def __init__(self) -> None:
        self._failures = 0
        self._deadline = 0.0

    def begin(self, now: float, grace_s: float | None) -> float:
        """Start over after a break, for `grace_s` at most; returns the seconds to wait."""
        self._failures = 0
        self._deadline = now + (GIVE_UP_S if grace_s is None else grace_s)
        return self._next_s()

    def after_failure(self, now: float) -> float | None:
        """Return the seconds to wait, None when it is to be given up."""
        return self._next_s() if now < self._deadline else None

    def _next_s(self) -> float:
        self._failures += 1
        wait_s: float = min(MOST_S, FIRST_S * 2 ** (self._failures - 1))
        return wait_s
