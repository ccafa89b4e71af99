"""The numbers and names of `reactor.v1` that both sides agree on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError

SUBPROTOCOL = "reactor.v1"
RESERVED_PREFIX = "reactor."
MAX_TEXT_BYTES = 256 * 1024
MAX_VIEWER_BYTES = 4096
MAX_MEDIA_BYTES = 16 * 1024 * 1024
MAX_UPLOAD_BYTES = 256 * 1024 * 1024
LONGEST_NAME = 255  # of a file, in characters


class CloseCode(IntEnum):
    """Why a socket was closed."""

    SESSION_OVER = 1000
    SERVER_STOPPING = 1001
    TOO_BIG = 1009
    MODEL_FAILED = 1011
    FULL = 1013
    BAD_TOKEN = 4401
    ORIGIN_NOT_ALLOWED = 4403
    NO_PONG = 4408
    TOO_SLOW = 4408  # the same to a client: its connection is of no use
    RATE_LIMITED = 4429


def choose_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the subprotocol to accept, None when none was offered.

    Raises `WireError` when only unknown ones were, which the server answers with HTTP 400.
    """
    if not offered:
        return None
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    listed = ", ".join(offered)
    raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown subprotocol {listed}: offer {SUBPROTOCOL} or none")
