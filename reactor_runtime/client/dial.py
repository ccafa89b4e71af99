"""Open a WebSocket to a server, and say in one line why that fails."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
from http import HTTPStatus

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from reactor_runtime.client.address import Address
from reactor_runtime.client.errors import ConnectError, Refused
from reactor_runtime.version import version
from reactor_runtime.wire.protocol import SUBPROTOCOL

OPENING_S = 10.0
CLOSING_S = 2.0
MOST_BYTES = 64 * 1024 * 1024
UNSENT_BYTES = 16 * 1024
_NOTSENT_LOWAT = {"linux": 25, "darwin": 0x201}  # where Python's socket module lacks the name

_HINTS = {
    400: "is it a Reactor server of another version?",
    401: "give its token, as `token` or as ?token= in the address",
    403: "the server allows no clients from here",
    421: "the server doesn't know itself by this name; --allow-host adds one",
    426: "a proxy on the way has to pass on the upgrade to a WebSocket",
    429: "too many connections from this address; try again later",
    503: "try again later",
}


async def dial(address: Address, *, tls: ssl.SSLContext | None = None, resume: str | None = None) -> ClientConnection:
    """Connect. Raises `Refused` when the server doesn't want this client, `ConnectError` when there is none."""
    try:
        connection = await connect(
            address.socket(resume=resume),
            ssl=(tls or True) if address.secure else None,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            additional_headers=address.headers,
            user_agent_header=f"reactor-client/{version()}",
            compression=None,
            open_timeout=OPENING_S,
            close_timeout=CLOSING_S,
            ping_interval=None,  # ours also tell round trip and clock
            max_size=MOST_BYTES,
            write_limit=UNSENT_BYTES,
        )
    except InvalidStatus as error:
        raise _refusal(address, error.response.status_code, bytes(error.response.body or b"")) from error
    except (OSError, WebSocketException) as error:
        raise _unreachable(address, error) from error
    if connection.subprotocol != SUBPROTOCOL:
        await connection.close()
        raise _stranger(address, f"it doesn't speak {SUBPROTOCOL}")
    _keep_little_unsent(connection)
    return connection


def _refusal(address: Address, status: int, body: bytes) -> ConnectError:
    said = body.decode(errors="replace").strip().partition("\n")[0][:200]
    unsaid = not said or said == HTTPStatus.FORBIDDEN.phrase  # as for a path that is none; an origin is named
    if status == HTTPStatus.NOT_FOUND or (status == HTTPStatus.FORBIDDEN and unsaid):
        return ConnectError(f"{address} has no /ws", hint="is the path before it right, and is it a Reactor server?")
    if status not in _HINTS:
        return _stranger(address, f"it answered {status}")
    return Refused(f"{address} refused: {said or HTTPStatus(status).phrase}", status=status, hint=_HINTS[status])


def _unreachable(address: Address, error: OSError | WebSocketException) -> ConnectError:
    match error:
        case ssl.SSLCertVerificationError():
            return ConnectError(
                f"{address}: the certificate can't be trusted: {error.verify_message}",
                hint="give an SSLContext that trusts it, or set SSL_CERT_FILE",
            )
        case ssl.SSLError():
            return _stranger(address, "there is no TLS; try http://")
        case TimeoutError():
            return ConnectError(f"{address} doesn't answer: nothing came for {OPENING_S:.0f} s")
        case socket.gaierror():
            return ConnectError(f"{address}: there is no host of this name")
        case OSError():
            refused = isinstance(error, ConnectionRefusedError) or "refused" in str(
                error
            )  # by each of several addresses
            why = "nothing listens there" if refused else os.strerror(error.errno) if error.errno else str(error)
            return ConnectError(f"{address} can't be reached: {why}", hint="is the server running, at this address?")
        case InvalidURI():
            return ConnectError(f"{address} redirects to somewhere that is no WebSocket")
        case InvalidMessage() if not address.secure:
            return _stranger(address, "no HTTP came; if it uses TLS, try https://")
        case InvalidHandshake():
            return _stranger(address, str(error).partition("\n")[0])
    return ConnectError(f"{address} can't be reached: {error}")


def _stranger(address: Address, why: str) -> ConnectError:
    return ConnectError(f"{address} is no Reactor server: {why}")


def _keep_little_unsent(connection: ClientConnection) -> None:
    """Have the kernel take little that it can't send: what waits there can't be replaced by a newer picture."""
    tcp = connection.transport.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", _NOTSENT_LOWAT.get(sys.platform))
    if option is not None and tcp is not None:
        with contextlib.suppress(OSError):  # a Unix socket, or a kernel without it
            tcp.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
