"""One client's socket: what it says is decoded and passed on, what its outbox holds is sent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import struct
import time
from asyncio.transports import BaseTransport
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn._types import ASGISendEvent
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN

from reactor_runtime.clock import Clock
from reactor_runtime.errors import WireError
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.edge import LimitedSocket
from reactor_runtime.server.intake import Intake
from reactor_runtime.server.limits import (
    MESSAGES_AT_ONCE,
    MESSAGES_PER_S,
    OVER_S,
    TEXT_BYTES_A_MESSAGE,
    Rate,
)
from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.sender import Sender
from reactor_runtime.server.transport import keep_little_unsent, write_pieces
from reactor_runtime.wire.codec import decode_ack, decode_text
from reactor_runtime.wire.messages import Ack, Event, Here, Ping, View
from reactor_runtime.wire.protocol import MAX_TEXT_BYTES, CloseCode, ErrorCode, choose_subprotocol

logger = logging.getLogger(__name__)

PING_S = 5.0
NO_PONG_S = 20.0
MOST_A_TURN = 50
GOODBYES = (1000, 1001, 1005)  # done, a page that is left, no code
EXTENSION = "reactor.socket"  # in the scope, where the application finds the protocol that serves it


class SocketProtocol(LimitedSocket):
    """Uvicorn's WebSocket with little room for what is not sent yet, and a close code of ours when pongs stay away."""

    resumed: Callable[[], object] = staticmethod(lambda: None)
    on_ack: Callable[[Ack, int], bool] = staticmethod(lambda *_: False)

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        keep_little_unsent(self.transport)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope["extensions"][EXTENSION] = {"protocol": self}

    @property
    def ready(self) -> bool:
        """Tell whether what is posted goes to the kernel at once."""
        return self.writable.is_set()

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

    def handle_text(self, event: Frame) -> None:
        """Pass an acknowledgement on without a turn of the loop, the other messages through the application's queue."""
        ack = decode_ack(bytes(event.data)) if event.fin else None
        if ack is None or self.close_sent or not self.on_ack(ack, len(event.data)):
            super().handle_text(event)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.resumed()

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


def _binary_header(size: int) -> bytes:
    """Give what precedes the payload of an unfragmented binary message from a server (RFC 6455, 5.2)."""
    first = 0x80 | Opcode.BINARY
    if size < 126:
        return struct.pack(">BB", first, size)
    return struct.pack(">BBH", first, 126, size) if size < 1 << 16 else struct.pack(">BBQ", first, 127, size)


@dataclass(frozen=True, slots=True)
class House:
    """What a client's socket has to do with: where it is let in, where what it sends goes, and who else is here."""

    lobby: Lobby
    intake: Intake
    clock: Clock
    connections: set[Connection]


async def serve_socket(websocket: WebSocket, house: House) -> None:
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
    connection = Connection(role, address, house.clock, house.lobby.rules.figures, watches=watches)
    resume = websocket.query_params.get("resume", "") if role is Role.CONTROLLER else ""
    house.lobby.attach(connection, resume, websocket.query_params.get("session", ""))
    rate = Rate(MESSAGES_PER_S, MESSAGES_AT_ONCE)
    _protocol(websocket).on_ack = partial(_acknowledge, connection, rate)
    duties = _receive(websocket, connection, house, rate), _send(websocket, connection, house)
    await attend(connection, house, *duties, is_lost=lambda: _is_lost(websocket, connection))


async def attend(
    connection: Connection,
    house: House,
    *duties: Coroutine[Any, Any, None],
    is_lost: Callable[[], bool] = lambda: False,
) -> None:
    """Serve a client that is attached until the first of the duties towards it ends, and let it go.

    One that `is_lost` then may come back.
    """
    house.connections.add(connection)
    tasks = [asyncio.create_task(duty) for duty in (*duties, _given_up(connection))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        house.lobby.detach(connection, lost=is_lost())
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                logger.error("a client's socket failed id=%s", connection.id, exc_info=result, extra=connection.ids)
        house.connections.discard(connection)
        connection.gone.set()
        logger.info("client gone id=%s", connection.id, extra=connection.ids)


def _is_lost(websocket: WebSocket, connection: Connection) -> bool:
    """Tell a connection that broke, or was given up, from one that either side has closed as it should be."""
    if connection.closing is not None and not connection.given_up.is_set():
        return False
    return not _protocol(websocket).said_goodbye


def _protocol(websocket: WebSocket) -> SocketProtocol:
    protocol: SocketProtocol = websocket.scope["extensions"][EXTENSION]["protocol"]
    return protocol


async def _given_up(connection: Connection) -> None:
    await connection.given_up.wait()


def _role(value: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown role {value[:40]!r}: controller or viewer") from None


async def incoming(receive: Callable[[], Awaitable[Message]]) -> AsyncIterator[Message]:
    """Yield what a client sends until it goes; however fast that comes, everybody else has a turn after 50 messages."""
    for count in itertools.count(1):
        message = await receive()  # doesn't give way while something waits
        if message["type"] == "websocket.disconnect":
            return
        yield message
        if count % MOST_A_TURN == 0:
            await asyncio.sleep(0)


def _acknowledge(connection: Connection, rate: Rate, ack: Ack, size_bytes: int) -> bool:
    """Take an acknowledgement, unless there are too many: those are refused where other messages are."""
    if not rate.take(connection.clock.now()):
        return False
    connection.figures.traffic.received_bytes.add("text", size_bytes)
    connection.figures.traffic.received_messages.add("ack")
    connection.outbox.acknowledge(ack.track, ack.seq)
    return True


async def _receive(websocket: WebSocket, connection: Connection, house: House, rate: Rate) -> None:
    try:
        async for message in incoming(websocket.receive):
            text: str | None = message.get("text")
            connection.figures.received(message["bytes"] if text is None else text)
            if not rate.take(house.clock.now(), 1 + len(text or "") // TEXT_BYTES_A_MESSAGE):
                _refuse_hurry(text, connection, rate)
                await asyncio.sleep(1 / MESSAGES_PER_S)  # meanwhile the client's own buffers fill up
            elif text is None:
                house.intake.media(connection, message["bytes"])
            elif len(text) > MAX_TEXT_BYTES or not (text.isascii() or len(text.encode()) <= MAX_TEXT_BYTES):
                connection.close(CloseCode.TOO_BIG, f"a text message may have {MAX_TEXT_BYTES} bytes")
            else:
                _take(text, connection, house)
    except WebSocketDisconnect:
        return


def _refuse_hurry(text: str | None, connection: Connection, rate: Rate) -> None:
    """Answer a message above the rate, under its id where that is cheap to read."""
    message_id = None
    if text is not None and len(text) <= TEXT_BYTES_A_MESSAGE:
        with contextlib.suppress(WireError):
            message = decode_text(text)
            message_id = message.id if isinstance(message, Event) else None
    why = f"more than {MESSAGES_PER_S:.0f} messages a second"
    connection.error(ErrorCode.RATE_LIMITED, f"{why}: this one changed nothing", message_id=message_id)
    if rate.over_s >= OVER_S:
        connection.close(CloseCode.RATE_LIMITED, f"{why} for {OVER_S:.0f} s")


def _take(text: str, connection: Connection, house: House) -> None:
    try:
        message = decode_text(text)
    except WireError as error:
        connection.figures.traffic.received_messages.add("invalid")
        connection.error(error.code, error.message, message_id=error.id)
        return
    connection.figures.traffic.received_messages.add(type(message).__name__.lower())
    match message:
        case Event():
            house.intake.event(connection, message)
        case Ack():
            connection.outbox.acknowledge(message.track, message.seq)
        case Here():
            house.intake.here(connection)
        case Ping():
            connection.tell("reactor.pong", {"t": message.t, "server_us": time.time_ns() // 1000})
        case View():
            house.lobby.gallery.look(connection, message)


async def _send(websocket: WebSocket, connection: Connection, house: House) -> None:
    try:
        await Sender(connection.outbox, _protocol(websocket), house.clock, connection.sent).run()
        closing = connection.closing
        assert closing is not None, "an outbox is finished by closing its connection"
        await websocket.close(closing.code, closing.reason)
    except WebSocketDisconnect:
        return
