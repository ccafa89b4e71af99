"""The HTTP protocol and the stream of frames, on a transport that keeps what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from uvicorn.server import ServerState

from reactor_runtime.server.net.http_server import STALLED_S, HttpProtocol, ServerConfig
from reactor_runtime.server.net.mjpeg import FrameStream, Parts
from reactor_runtime.server.telemetry.metrics import LabelledCounter


class Timers:
    """The part of an event loop that a protocol uses: calls at a later time, which tests make."""

    def __init__(self) -> None:
        self.waiting: dict[float, Callable[[], object]] = {}

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        self.waiting[delay] = callback
        return Timer(self, delay)


@dataclass(frozen=True, slots=True)
class Timer:
    timers: Timers
    delay: float

    def cancel(self) -> None:
        del self.timers.waiting[self.delay]


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.high: int | None = None
        self.closing = self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low == 0
        self.high = high

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def protocol(timers: Timers) -> HttpProtocol:
    protocol = HttpProtocol(
        ServerConfig(Starlette(), LabelledCounter()),
        ServerState(),
        {},
        cast("asyncio.AbstractEventLoop", timers),
    )
    protocol.connection_made(Wire())
    return protocol


def wire(protocol: HttpProtocol) -> Wire:
    assert isinstance(protocol.transport, Wire)
    return protocol.transport


def stream(protocol: HttpProtocol, version: str = "1.1", *, painted: bool = False) -> FrameStream:
    return FrameStream({"state": protocol.app_state, "http_version": version}, Parts(painted=painted))


def test_the_application_finds_its_protocol(protocol: HttpProtocol) -> None:
    assert HttpProtocol.serving({"state": protocol.app_state}) is protocol


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


def test_a_stream_is_ready_while_writing_is_not_paused(protocol: HttpProtocol) -> None:
    socket, resumed = stream(protocol), []
    socket.notify_writable(lambda: resumed.append(socket.ready))
    ready = [socket.ready]
    protocol.pause_writing()
    ready.append(socket.ready)
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
