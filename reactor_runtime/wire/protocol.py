"""The constants of `reactor.v1`: names, size limits and close codes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

SUBPROTOCOL = "reactor.v1"
# Before the secret of a client that returns: a browser sets no other header, and proxies log the URL.
RETURN_PREFIX = "reactor.return."
RESERVED_PREFIX = "reactor."
# Among the codecs of a view that a front sends to a worker, instead of the video streams that the client can decode.
RELAYED = "relayed"
MAX_TEXT_BYTES = 256 * 1024
MAX_VIEWER_BYTES = 4096
MAX_MEDIA_BYTES = 16 * 1024 * 1024
MAX_UPLOAD_BYTES = 256 * 1024 * 1024
# Of one request.
MAX_STEPS = 10_000
# Characters of a file's name.
LONGEST_NAME = 255


class CloseCode(IntEnum):
    """Name the reasons for which a socket is closed."""

    SESSION_OVER = 1000
    SERVER_STOPPING = 1001
    TOO_BIG = 1009
    MODEL_FAILED = 1011
    FULL = 1013
    BAD_REQUEST = 4400
    BAD_TOKEN = 4401
    ORIGIN_NOT_ALLOWED = 4403
    NO_PONG = 4408
    # The same to clients: the connection is unusable.
    TOO_SLOW = 4408
    RATE_LIMITED = 4429


def choose_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the subprotocol to accept; None if none was offered.

    Raises `WireError` if only unknown ones were offered; the server responds with HTTP 400.
    """
    if not offered:
        return None
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    listed = ", ".join(offered)
    raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown subprotocol {listed}: offer {SUBPROTOCOL} or none")


def return_secret(offered: Sequence[str]) -> str:
    """Return the secret among the subprotocols of a client that has lost its session; "" without one."""
    return next((name.removeprefix(RETURN_PREFIX) for name in offered if name.startswith(RETURN_PREFIX)), "")
