"""One connection attempt and its outcome: open a WebSocket, name the error, decide after a close, and when to retry.

`connection.py` calls these in its loop.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import socket
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from reactor_runtime.client.address import Address, Role
from reactor_runtime.client.errors import Busy, ClientError, ConnectError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.version import version
from reactor_runtime.wire.protocol import SUBPROTOCOL, CloseCode

OPENING_S = 10.0
CLOSING_S = 2.0
MAX_RECEIVED_BYTES = 64 * 1024 * 1024
UNSENT_BYTES = 16 * 1024
# For Python versions whose socket module lacks the name.
_NOTSENT_LOWAT = {"linux": 25, "darwin": 0x201}

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 2.0
# A connection that lasted this long resets the waits.
STABLE_S = 2.0
# Other statuses come from a server that is starting, or from a proxy in front of it.
FINAL_STATUSES = (401, 403, 421)

EFFECT_UNKNOWN = "unanswered events may or may not have taken effect"
_TOKEN_HINT = "give its token, as `token` or as ?token= in the address"
_PROTOCOL_ERROR, _NOT_UTF8 = 1002, 1007
# After these codes another attempt would fail in the same way.
_CLIENT_FAULTS = (_PROTOCOL_ERROR, _NOT_UTF8, CloseCode.TOO_BIG, CloseCode.RATE_LIMITED)

_HINTS = {
    400: "is it a Reactor server of another version?",
    401: _TOKEN_HINT,
    403: "the server allows no clients from here",
    421: "the server does not know this host name; --allow-host adds one",
    426: "a proxy in between has to pass on the upgrade to a WebSocket",
    429: "too many connections from this address; try again later",
    503: "try again later",
}


async def dial(
    address: Address,
    query: Mapping[str, str | None],
    *,
    tls: ssl.SSLContext | None = None,
    opening_s: float = OPENING_S,
    subprotocols: Sequence[str] = (SUBPROTOCOL,),
) -> ClientConnection:
    """Connect, with more query parameters and within `opening_s`.

    Raises `Refused` if the server rejects this client, `ConnectError` if there is no Reactor server.
    """
    try:
        connection = await connect(
            address.socket(**query),
            ssl=(tls or True) if address.secure else None,
            subprotocols=[Subprotocol(name) for name in subprotocols],
            additional_headers=address.headers,
            user_agent_header=f"reactor-client/{version()}",
            compression=None,
            open_timeout=opening_s,
            close_timeout=CLOSING_S,
            # The pings of `Connection` also measure round trip and clock offset.
            ping_interval=None,
            max_size=MAX_RECEIVED_BYTES,
            write_limit=UNSENT_BYTES,
        )
    except InvalidStatus as error:
        raise _status_error(address, error.response.status_code, bytes(error.response.body or b"")) from error
    except (OSError, WebSocketException) as error:
        raise connect_error(address, error, opening_s) from error
    if connection.subprotocol != SUBPROTOCOL:
        await connection.close()
        raise not_a_server(address, f"it does not speak {SUBPROTOCOL}")
    _limit_unsent_bytes(connection)
    return connection


def is_final(error: ConnectError) -> bool:
    """Return whether another attempt would fail in the same way."""
    return isinstance(error, Refused) and error.status in FINAL_STATUSES


def http_connection(address: Address, *, timeout_s: float, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """Return a connection for a request, which connects when it is used."""
    if address.secure:
        return http.client.HTTPSConnection(address.place, timeout=timeout_s, context=tls)
    return http.client.HTTPConnection(address.place, timeout=timeout_s)


def _status_error(address: Address, status: int, body: bytes) -> ConnectError:
    reason = body.decode(errors="replace").strip().partition("\n")[0][:200]
    # The server answers a WebSocket on an unknown path with a bare 403; a refused origin comes with a reason.
    no_reason = not reason or reason == HTTPStatus.FORBIDDEN.phrase
    if status == HTTPStatus.NOT_FOUND or (status == HTTPStatus.FORBIDDEN and no_reason):
        return ConnectError(f"{address} has no /ws", hint="is the path before it right, and is it a Reactor server?")
    if status not in _HINTS:
        return not_a_server(address, f"it answered {status}")
    return Refused(f"{address} refused: {reason or HTTPStatus(status).phrase}", status=status, hint=_HINTS[status])


def connect_error(address: Address, error: Exception, opening_s: float) -> ConnectError:
    """Return the error for a connection that could not be made within `opening_s`."""
    match error:
        case ssl.SSLCertVerificationError():
            return ConnectError(
                f"{address}: the certificate is not trusted: {error.verify_message}",
                hint="give an SSLContext that trusts it, or set SSL_CERT_FILE",
            )
        case ssl.SSLError():
            return not_a_server(address, "there is no TLS; try http://")
        case TimeoutError():
            return ConnectError(f"{address} does not answer: nothing came for {opening_s:.0f} s")
        case socket.gaierror():
            return ConnectError(f"{address}: there is no host of this name")
        case OSError():
            # A host with several addresses gives one error whose text lists each refusal.
            refused = isinstance(error, ConnectionRefusedError) or "refused" in str(error)
            why = "nothing listens there" if refused else os.strerror(error.errno) if error.errno else str(error)
            return ConnectError(f"{address} can't be reached: {why}", hint="is the server running, at this address?")
        case InvalidURI():
            return ConnectError(f"{address} redirects to an address that is not a WebSocket")
        case InvalidMessage() | http.client.HTTPException() if not address.secure:
            return not_a_server(address, "the answer is not HTTP; if it uses TLS, try https://")
        case InvalidHandshake():
            return not_a_server(address, str(error).partition("\n")[0])
    return ConnectError(f"{address} can't be reached: {error}")


def not_a_server(address: Address, why: str) -> ConnectError:
    """Return the error for an address where another program answers."""
    return ConnectError(f"{address} is not a Reactor server: {why}")


def _limit_unsent_bytes(connection: ClientConnection) -> None:
    """Limit what the kernel buffers: a newer frame cannot replace one that is in its buffer."""
    tcp = connection.transport.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", _NOTSENT_LOWAT.get(sys.platform))
    if option is not None and tcp is not None:
        # Unix sockets and some kernels do not support the option.
        with contextlib.suppress(OSError):
            tcp.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


@dataclass(frozen=True, slots=True)
class CloseVerdict:
    """The consequence of a close: `error` ends the session, None keeps it; `final` ends the client as well."""

    error: ClientError | None
    final: bool = False


def judge_close(code: int, reason: str, *, role: Role, welcomed: bool, resumable: bool) -> CloseVerdict:
    """Return the consequence of a close code.

    `welcomed` is true for a controller with a session of its own and for a viewer with a welcome; `resumable` if the
    server keeps that session for this client.
    """
    has_session = role == "controller" and welcomed
    match code:
        case CloseCode.SESSION_OVER:
            return CloseVerdict(SessionEnded("closed", reason or "the server closed the connection"), final=True)
        case CloseCode.BAD_REQUEST:
            return CloseVerdict(Refused(reason or "the server can't serve this client", status=400), final=True)
        case CloseCode.BAD_TOKEN:
            return CloseVerdict(Refused(reason or "no or wrong token", status=401, hint=_TOKEN_HINT), final=True)
        case CloseCode.ORIGIN_NOT_ALLOWED:
            return CloseVerdict(Refused(reason or "the origin is not allowed", status=403), final=True)
        case _ if code in _CLIENT_FAULTS:
            return CloseVerdict(ConnectionLost(f"the server closed the connection: {reason or code}"), final=True)
        case CloseCode.FULL if not welcomed:
            return CloseVerdict(Busy(reason or "the server is full; try again later"))
        case CloseCode.SERVER_STOPPING if has_session:
            return CloseVerdict(SessionEnded("server_stopping", reason or "the server is stopping"))
        case CloseCode.MODEL_FAILED if has_session:
            return CloseVerdict(SessionEnded("model_error", reason))
    if has_session and not resumable:
        return CloseVerdict(ConnectionLost(f"the connection was lost, and the session with it; {EFFECT_UNKNOWN}"))
    return CloseVerdict(None)


class Retry:
    """Double the wait after each failure, up to 2 s; half of each wait is random, so that clients spread out."""

    def __init__(self, random: Callable[[], float] = random.random) -> None:
        self._random = random
        self._failures = 0
        self._connected_at: float | None = None

    def on_connected(self, now: float) -> None:
        self._connected_at = now

    def next_wait_s(self, now: float) -> float:
        """Return the seconds to wait after a connection broke or an attempt failed."""
        if self._connected_at is not None and now - self._connected_at > STABLE_S:
            self._failures = 0
        self._connected_at = None
        longest_s: float = min(MAX_WAIT_S, FIRST_WAIT_S * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return longest_s * (1 + self._random()) / 2
