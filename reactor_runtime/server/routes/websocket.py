"""One client's socket: what it says is decoded and passed on, what its outbox holds is sent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
import weakref
from asyncio.transports import BaseTransport
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.server import ServerState
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN

from reactor_runtime.clock import Clock
from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.socket_sender import SocketSender
from reactor_runtime.server.net.limits import (
    MEDIA_BYTES_A_MESSAGE,
    MESSAGES_AT_ONCE,
    MESSAGES_PER_S,
    OVER_S,
    TEXT_BYTES_A_MESSAGE,
    TokenBucket,
)
from reactor_runtime.server.net.message_reader import Allowance, Violation
from reactor_runtime.server.net.protocols import NOTHING, LimitedSocket
from reactor_runtime.server.net.sliced_socket import VIEWER_SHARE
from reactor_runtime.server.net.transport import keep_little_unsent, write_pieces
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.inbound import Inbound
from reactor_runtime.wire.codec import ClientMessage, decode_ack, decode_text
from reactor_runtime.wire.messages import Ack, Event, Here, Ping, View
from reactor_runtime.wire.protocol import (
    MAX_MEDIA_BYTES,
    MAX_TEXT_BYTES,
    MAX_VIEWER_BYTES,
    CloseCode,
    choose_subprotocol,
)

logger = logging.getLogger(__name__)

PING_S = 5.0
NO_PONG_S = 20.0
GOODBYES = (1000, 1001, 1005)  # done, a page that is left, no code
INVALID_DATA = 1007
CONTROLLER_SHARE = 0.05
MOST_VALUES = 16_384
TEXT = Allowance(MAX_TEXT_BYTES, MAX_TEXT_BYTES, f"a text message may have {MAX_TEXT_BYTES} bytes")
TEXT_OF_WAITING = replace(TEXT, kept_bytes=MAX_VIEWER_BYTES)
MEDIA = Allowance(MAX_MEDIA_BYTES, MAX_MEDIA_BYTES, f"a binary message may have {MAX_MEDIA_BYTES} bytes")
MEDIA_OF_WAITING = replace(MEDIA, kept_bytes=0)
OF_VIEWER = Allowance(MAX_VIEWER_BYTES, MAX_VIEWER_BYTES, f"a viewer's text message may have {MAX_VIEWER_BYTES} bytes")
NO_MEDIA = Allowance(MAX_VIEWER_BYTES, 0, "a viewer sends no pictures and no sound")
EXTENSION = "reactor.socket"  # in the scope, where the application finds the protocol that serves it


class SocketProtocol(LimitedSocket):
    """Uvicorn's WebSocket with little room for what is not sent yet, and a close code of ours when pongs stay away."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._on_writable: Callable[[], object] | None = None
        self._client: MessageReceiver | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        keep_little_unsent(self.transport)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope["extensions"][EXTENSION] = {"protocol": weakref.ref(self)}

    @property
    def ready(self) -> bool:
        """Tell whether what is posted goes to the kernel at once."""
        return self.writable.is_set()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the socket becomes ready again; None ends that."""
        self._on_writable = on_writable

    @property
    def said_goodbye(self) -> bool:
        """Tell whether the client has closed the connection, and not as one that means to come back."""
        received = self.conn.close_rcvd
        return received is not None and received.code in GOODBYES

    def post(self, item: str | bytes) -> None:
        """Send a message without waiting; nothing happens when the connection is over."""
        if self.conn.state is not OPEN or self.transport.is_closing():
            return
        if isinstance(item, str):
            self.conn.send_text(item.encode())
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:  # the library would copy a frame three times on its way
            write_pieces(self.transport, _binary_header(len(item)), item)

    def serve(self, client: MessageReceiver) -> None:
        """Pass on what comes from here on, and what has come already."""
        if not self.disconnected:
            self._client = client
            self.start_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._client = None

    def allowance(self, *, is_text: bool) -> Allowance:
        return NOTHING if self._client is None else self._client.allowance(is_text=is_text)

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:
        if self._client is None or self.close_sent:
            return
        self.share.per_s = self._client.share
        self.rest(self._client.receive(message, size, is_text=is_text))

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._on_writable is not None:
            self._on_writable()

    def keepalive_timeout(self) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.conn.send_close(CloseCode.NO_PONG, f"no pong for {NO_PONG_S:.0f} s")
        super().keepalive_timeout()
        self.abort_soon()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self.abort_soon()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # refused, but answered: uvicorn would log that it wasn't


def _values(text: bytes) -> int:
    """Count the values of a JSON text, at least: reading one takes the loop as long as 20 or more letters do.

    Commas and brackets in strings count as well, which makes it a hundred times as fast as reading.
    """
    return sum(map(text.count, (b",", b"[", b"{")))


def _binary_header(size: int) -> bytes:
    """Give what precedes the payload of an unfragmented binary message from a server (RFC 6455, 5.2)."""
    first = 0x80 | Opcode.BINARY
    if size < 126:
        return struct.pack(">BB", first, size)
    return struct.pack(">BBH", first, 126, size) if size < 1 << 16 else struct.pack(">BBQ", first, 127, size)


@dataclass(frozen=True, slots=True)
class Services:
    """What a client's socket has to do with: where it is let in, where what it sends goes, and who else is here."""

    admission: Admission
    inbound: Inbound
    clock: Clock
    clients: set[Client]


async def serve_socket(websocket: WebSocket, services: Services) -> None:
    """Serve one client from its handshake to its end."""
    try:
        subprotocol = choose_subprotocol(websocket.scope["subprotocols"])
        role = _role(websocket.query_params.get("role", Role.CONTROLLER.value))
    except WireError as error:
        await websocket.send_denial_response(PlainTextResponse(f"{error.message}\n", status_code=400))
        return
    await websocket.accept(subprotocol)
    address = websocket.client.host if websocket.client is not None else "unknown"
    watches = websocket.query_params.get("watch") == "1"
    client = Client(role, address, services.clock, services.admission.settings.metrics, watches=watches)
    resume = websocket.query_params.get("resume", "") if role is Role.CONTROLLER else ""
    services.admission.attach(client, resume, websocket.query_params.get("session", ""))
    protocol = _protocol(websocket)
    protocol.serve(MessageReceiver(client, services))
    duties = _departure(websocket), _send(websocket, client, services)
    await serve_client(client, services, *duties, is_lost=lambda: _is_lost(protocol, client))


async def serve_client(
    client: Client,
    services: Services,
    *duties: Coroutine[Any, Any, None],
    is_lost: Callable[[], bool] = lambda: False,
) -> None:
    """Serve a client that is attached until the first of the duties towards it ends, and let it go.

    One that `is_lost` then may come back.
    """
    services.clients.add(client)
    tasks = [asyncio.create_task(duty) for duty in (*duties, _given_up(client))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        services.admission.detach(client, lost=is_lost())
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                logger.error("a client's socket failed id=%s", client.id, exc_info=result, extra=client.ids)
        services.clients.discard(client)
        client.gone.set()
        logger.info("client gone id=%s", client.id, extra=client.ids)


def _is_lost(protocol: SocketProtocol, client: Client) -> bool:
    """Tell a connection that broke, or was given up, from one that either side has closed as it should be."""
    if client.closing is not None and not client.given_up.is_set():
        return False
    return not protocol.said_goodbye


def _protocol(websocket: WebSocket) -> SocketProtocol:
    protocol: SocketProtocol | None = websocket.scope["extensions"][EXTENSION]["protocol"]()
    assert protocol is not None, "it lives as long as the application that it calls"
    return protocol


async def _given_up(client: Client) -> None:
    await client.given_up.wait()


def _role(value: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown role {value[:40]!r}: controller or viewer") from None


async def _departure(websocket: WebSocket) -> None:
    """Wait until the client has gone."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


class MessageReceiver:
    """Receives the messages of one client: limits them by its role, decodes them, and passes them on."""

    def __init__(self, client: Client, services: Services) -> None:
        self._client = client
        self._services = services
        self._rate = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)

    @property
    def share(self) -> float:
        """How many seconds of each the client may take for what it sends."""
        return CONTROLLER_SHARE if self._services.inbound.controls(self._client) else VIEWER_SHARE

    def allowance(self, *, is_text: bool) -> Allowance:
        """Limit a message by role and kind; a controller without a session may send, but nothing large is kept."""
        if self._client.role is Role.VIEWER:
            return OF_VIEWER if is_text else NO_MEDIA
        if self._services.inbound.controls(self._client):
            return TEXT if is_text else MEDIA
        return TEXT_OF_WAITING if is_text else MEDIA_OF_WAITING

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:
        """Pass a message on; returns how long to read nothing of the client, which is 0 within its rate."""
        client = self._client
        client.metrics.received(size, is_text=is_text)
        most = TEXT_BYTES_A_MESSAGE if is_text else MEDIA_BYTES_A_MESSAGE
        if not self._rate.take(client.clock.now(), 1 + size // most):
            self._refuse_hurry(message if is_text else None)
            return 1 / MESSAGES_PER_S
        if message is None:
            self._services.inbound.refuse_dropped(client)
        elif is_text:
            self._receive_text(message)
        else:
            self._services.inbound.route_media(client, message)
        return 0.0

    def _receive_text(self, text: bytes) -> None:
        client = self._client
        ack = decode_ack(text)
        if ack is not None:
            client.metrics.traffic.received_messages.add("ack")
            client.outbox.acknowledge(ack.track, ack.seq)
            return
        if len(text) > TEXT_BYTES_A_MESSAGE and _values(text) > MOST_VALUES:
            client.metrics.traffic.received_messages.add("invalid")
            client.send_error(ErrorCode.INVALID_JSON, f"a message may hold {MOST_VALUES} values, 64 deep")
            return
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            raise Violation(INVALID_DATA, "a text message is UTF-8") from None
        try:
            message = decode_text(decoded)
        except WireError as error:
            client.metrics.traffic.received_messages.add("invalid")
            client.send_error(error.code, error.message, message_id=error.id)
            return
        client.metrics.traffic.received_messages.add(type(message).__name__.lower())
        self._pass_on(message)

    def _pass_on(self, message: ClientMessage) -> None:
        client, services = self._client, self._services
        match message:
            case Event():
                services.inbound.route_event(client, message)
            case Ack():
                client.outbox.acknowledge(message.track, message.seq)
            case Here():
                services.inbound.record_activity(client)
            case Ping():
                client.send_message("reactor.pong", {"t": message.t, "server_us": time.time_ns() // 1000})
            case View():
                services.admission.assignment.set_view(client, message.among(services.admission.slots.tracks))

    def _refuse_hurry(self, text: bytes | None) -> None:
        """Answer a message above the rate, under its id where that is cheap to read."""
        message_id = None
        if text is not None and len(text) <= TEXT_BYTES_A_MESSAGE:
            with contextlib.suppress(WireError, UnicodeDecodeError):
                message = decode_text(text.decode())
                message_id = message.id if isinstance(message, Event) else None
        why = f"more than {MESSAGES_PER_S:.0f} messages a second"
        self._client.send_error(ErrorCode.RATE_LIMITED, f"{why}: this one changed nothing", message_id=message_id)
        if self._rate.over_s >= OVER_S:
            self._client.close(CloseCode.RATE_LIMITED, f"{why} for {OVER_S:.0f} s")


async def _send(websocket: WebSocket, client: Client, services: Services) -> None:
    try:
        await SocketSender(client.outbox, _protocol(websocket), services.clock, client.on_item_sent).run()
        closing = client.closing
        assert closing is not None, "an outbox is finished by closing its connection"
        await websocket.close(closing.code, closing.reason)
    except WebSocketDisconnect:
        return
