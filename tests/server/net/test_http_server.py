"""The HTTP protocol and the stream of frames, on a transport that keeps what is written."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from websockets.frames import Frame, Opcode

from reactor_runtime.server.net.acceptor import Acceptor
from reactor_runtime.server.net.application import Peer, serving
from reactor_runtime.server.net.http_protocol import KEPT_ALIVE_S, LINGER_S, REQUEST_S, STALLED_S, HttpProtocol
from reactor_runtime.server.net.http_reader import Request
from reactor_runtime.server.net.http_server import HttpServer, ServerConfig
from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.mjpeg import FrameStream, Parts
from reactor_runtime.server.net.shares import MOST_UNREAD_BYTES, UNREAD_RETRY_S
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.fakes import settle
from tests.timeouts import TIMEOUT_S

GET_WS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Timers:
    """The part of an event loop that a protocol uses: calls at a later time, which tests make."""

    def __init__(self) -> None:
        self.waiting: dict[float, Callable[[], object]] = {}

    def time(self) -> float:
        return 0.0

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        self.waiting[delay] = callback
        return Timer(self, delay)


@dataclass(frozen=True, slots=True)
class Timer:
    timers: Timers
    delay: float

    def cancel(self) -> None:
        self.timers.waiting.pop(self.delay, None)


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self, peername: tuple[str, int] | None = None) -> None:
        super().__init__({"peername": peername})
        self.written = b""
        self.high: int | None = None
        self.closing = self.aborted = False
        self.protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low == 0
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def protocol(timers: Timers) -> HttpProtocol:
    application = ServerConfig(Starlette(), LabelledCounter()).application
    protocol = HttpProtocol(application, set(), cast("asyncio.AbstractEventLoop", timers))
    transport = Wire()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return protocol


async def _close_at_once(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001  (as ASGI has it)
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 1001})


async def test_the_server_waits_until_a_client_has_answered_the_close() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        acceptor = Acceptor(sock, ConnectionLimiter(1), LabelledCounter(), most_descriptors=1 << 20)
        server = HttpServer(ServerConfig(_close_at_once, LabelledCounter()), acceptor)
        serving = asyncio.create_task(server.serve(sockets=[]))
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(GET_WS)
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(4) == b"\x88\x02" + (1001).to_bytes(2, "big")
            closed = asyncio.create_task(server.wait_sockets_closed())
            await settle()
            assert not closed.done()
            writer.write(Frame(Opcode.CLOSE, (1001).to_bytes(2, "big")).serialize(mask=True))
            await closed
            assert await reader.read() == b""
            writer.close()
            server.stop()
            await serving


def wire(protocol: HttpProtocol) -> Wire:
    assert isinstance(protocol.transport, Wire)
    return protocol.transport


def stream(protocol: HttpProtocol, version: str = "1.1", *, painted: bool = False) -> FrameStream:
    return FrameStream(protocol, Parts("image/jpeg", painted=painted), chunked=version != "1.0")


def test_the_application_finds_its_protocol(protocol: HttpProtocol) -> None:
    application = ServerConfig(Starlette(), LabelledCounter()).application
    client = Peer("127.0.0.1", 1, secure=False)
    scope = application.scope("http", Request("GET", b"/live"), client, ("127.0.0.1", 2), protocol)
    assert serving(scope, HttpProtocol) is protocol


def test_another_server_s_request_has_no_protocol_of_ours() -> None:
    assert serving({"state": {}}, HttpProtocol) is None
    assert serving({"extensions": {}}, SocketProtocol) is None


def test_the_transport_buffers_nothing(protocol: HttpProtocol) -> None:
    assert wire(protocol).high == 0


def test_a_peer_that_reads_nothing_for_20_s_is_disconnected(protocol: HttpProtocol, timers: Timers) -> None:
    protocol.pause_writing()
    protocol.pause_writing()
    timers.waiting[STALLED_S]()
    assert wire(protocol).aborted


def test_a_peer_that_reads_in_time_stays_connected(protocol: HttpProtocol, timers: Timers) -> None:
    protocol.pause_writing()
    protocol.resume_writing()
    assert STALLED_S not in timers.waiting
    protocol.pause_writing()
    protocol.connection_lost(OSError())
    assert STALLED_S not in timers.waiting


async def test_a_websocket_stays_connected_that_begins_while_writing_is_paused(
    protocol: HttpProtocol, timers: Timers
) -> None:
    protocol.pause_writing()
    protocol.data_received(GET_WS)
    await settle()
    websocket = wire(protocol).get_protocol()
    assert isinstance(websocket, SocketProtocol)
    websocket.resume_writing()
    assert STALLED_S not in timers.waiting
    websocket.connection_lost(None)
    await settle()


async def test_a_connection_without_a_request_is_answered_after_10_s(protocol: HttpProtocol, timers: Timers) -> None:
    protocol.data_received(b"GET / HTTP/1.1\r\nHost:")
    await settle()
    timers.waiting[REQUEST_S]()
    assert wire(protocol).written.startswith(b"HTTP/1.1 408 ")
    timers.waiting[LINGER_S]()
    assert wire(protocol).closing


async def test_a_connection_is_kept_for_5_s_after_a_response_and_closed_in_silence(
    protocol: HttpProtocol, timers: Timers
) -> None:
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await settle()
    response = wire(protocol).written
    assert response.startswith(b"HTTP/1.1 404 ")
    assert REQUEST_S not in timers.waiting
    timers.waiting[KEPT_ALIVE_S]()
    assert (wire(protocol).closing, wire(protocol).written) == (True, response)


async def test_the_next_request_on_a_connection_has_10_s_too(protocol: HttpProtocol, timers: Timers) -> None:
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await settle()
    protocol.data_received(b"GET / HT")
    await settle()
    assert KEPT_ALIVE_S not in timers.waiting
    timers.waiting[REQUEST_S]()
    assert b"HTTP/1.1 408 " in wire(protocol).written


async def test_responses_that_a_client_does_not_read_do_not_pile_up() -> None:
    protocol = HttpProtocol(ServerConfig(Starlette(), LabelledCounter()).application, set())
    transport = Wire()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    protocol.pause_writing()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
    await settle()
    assert transport.written.count(b"HTTP/1.1 404 ") == 1
    protocol.resume_writing()
    for _ in range(3):
        await settle()
    assert transport.written.count(b"HTTP/1.1 404 ") == 3
    protocol.connection_lost(None)


async def test_an_address_that_leaves_much_of_its_responses_unread_is_not_served(
    protocol: HttpProtocol, timers: Timers
) -> None:
    wire(protocol).written = bytes(MOST_UNREAD_BYTES + 1)
    protocol.pause_writing()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await settle()
    assert b"HTTP/1.1 " not in wire(protocol).written
    protocol.resume_writing()
    timers.waiting[UNREAD_RETRY_S]()
    await settle()
    assert b"HTTP/1.1 404 " in wire(protocol).written
    protocol.pause_writing()
    assert protocol.share.unread_bytes > MOST_UNREAD_BYTES
    protocol.connection_lost(None)
    assert protocol.share.unread_bytes == 0


async def test_requests_of_a_proxy_are_charged_to_their_clients(timers: Timers) -> None:
    application = ServerConfig(Starlette(), LabelledCounter(), proxies=("10.0.0.1",)).application
    protocol = HttpProtocol(application, set(), cast("asyncio.AbstractEventLoop", timers))
    transport = Wire(("10.0.0.1", 4711))
    transport.set_protocol(protocol)
    protocol.connection_made(transport)

    def ask(client: str) -> None:
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\n\r\n" % client.encode())

    first, second = (application.accounts.of(f"192.0.2.{number}", time.monotonic()) for number in (1, 2))
    ask("192.0.2.1")
    await settle()
    charged_s = first.spent_s
    assert charged_s > 0
    # Its debt does not delay the next client of the same proxy.
    first.left_s = -1e6
    ask("192.0.2.2")
    await settle()
    assert (first.spent_s, second.spent_s > 0) == (charged_s, True)
    assert wire(protocol).written.count(b"HTTP/1.1 404 ") == 2
    ask("192.0.2.1")
    await settle()
    assert wire(protocol).written.count(b"HTTP/1.1 ") == 2
    protocol.connection_lost(None)


def test_a_stream_is_ready_while_writing_is_not_paused(protocol: HttpProtocol) -> None:
    frames, resumed = stream(protocol), []
    frames.notify_writable(lambda: resumed.append(frames.ready))
    ready = [frames.ready]
    protocol.pause_writing()
    ready.append(frames.ready)
    protocol.resume_writing()
    assert (ready, resumed) == ([True, False], [True])


def test_a_frame_is_one_chunk_with_a_part_in_it(protocol: HttpProtocol) -> None:
    stream(protocol).post(b"jpeg")
    part = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 4\r\n\r\njpeg\r\n"
    assert wire(protocol).written == b"%x\r\n%s\r\n" % (len(part), part)


def test_a_client_with_http_1_0_gets_no_chunks(protocol: HttpProtocol) -> None:
    stream(protocol, "1.0", painted=True).post(b"jpeg")
    assert wire(protocol).written == b"jpeg\r\n--frame\r\nContent-Type: image/jpeg\r\n\r\n"


def test_texts_and_frames_after_the_end_are_dropped(protocol: HttpProtocol) -> None:
    stream(protocol).post("text")
    wire(protocol).closing = True
    stream(protocol).post(b"jpeg")
    assert wire(protocol).written == b""
