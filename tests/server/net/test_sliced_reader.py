"""Messages that are read in slices: by the reader alone, and from sockets of a real server."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from reactor_runtime.server.net.application import serving
from reactor_runtime.server.net.http_server import ServerConfig, UvicornProtocol
from reactor_runtime.server.net.limits import PIECES_AT_ONCE, Budget, TokenBucket
from reactor_runtime.server.net.message_reader import Allowance, Violation
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.shares import VIEWER_PER_S, Share
from reactor_runtime.server.net.sliced_reader import MOST_DROPPED_BYTES, SlicedReader
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import CloseCode
from tests.server.client import connect
from tests.timeouts import TIMEOUT_S

MAX_BYTES = 1000


class Wire(asyncio.Transport):
    """A transport whose reading is paused or not; it receives nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = self.aborted = False
        self.resumed = asyncio.Event()
        self.resumed.set()

    def pause_reading(self) -> None:
        self.paused = True
        self.resumed.clear()

    def resume_reading(self) -> None:
        self.paused = False
        self.resumed.set()

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Received:
    """A reader, and the messages, control frames and violations that it passes on."""

    share = 0.05

    def __init__(self, per_s: float = VIEWER_PER_S) -> None:
        self.messages: list[bytes | None] = []
        self.controls: list[bytes] = []
        self.violations: list[Violation] = []
        self.wire = Wire()
        self.budget = Budget(MAX_BYTES)
        self.reader = SlicedReader(
            self.wire,
            Reading(),
            self.budget,
            Share(per_s, TokenBucket(0, 0), time.monotonic()),
            on_control=self.controls.append,
            on_violation=self.violations.append,
        )

    async def read(self) -> None:
        """Wait until all bytes are read, which takes a later slice where the machine is busy."""
        await asyncio.wait_for(self.wire.resumed.wait(), TIMEOUT_S)

    def allowance(self, *, is_text: bool) -> Allowance:  # noqa: ARG002  (any kind)
        return Allowance(MAX_BYTES, MAX_BYTES, "too long")

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:  # noqa: ARG002  (any kind)
        self.messages.append(message)
        return 0.0


def masked(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


async def test_messages_wait_for_the_receiver_and_the_transport_is_paused_until_they_are_read() -> None:
    received = Received()
    received.reader.feed(masked(Opcode.TEXT, b"one"))
    received.reader.feed(masked(Opcode.TEXT, b"two"))
    assert (received.messages, received.wire.paused) == ([], True)
    received.reader.start(received)
    await received.read()
    assert (received.messages, received.wire.paused) == ([b"one", b"two"], False)
    received.reader.close()


async def test_a_message_that_is_read_at_once_does_not_pause_the_transport() -> None:
    # On a busy machine reading one message may take more than a slice of time.
    assert any(_is_read_without_a_pause() for _ in range(10))


def _is_read_without_a_pause() -> bool:
    received, pauses = Received(), list[bool]()
    received.reader.start(received)
    received.wire.pause_reading = lambda: pauses.append(True)  # type: ignore[method-assign]
    received.reader.feed(masked(Opcode.TEXT, b"one"))
    received.reader.close()
    return received.messages == [b"one"] and not pauses


async def test_the_transport_is_resumed_after_a_burst_that_takes_several_slices() -> None:
    received = Received()
    received.reader.start(received)
    received.reader.feed(masked(Opcode.TEXT, b"many") * 5000)
    await received.read()
    assert received.messages == [b"many"] * 5000
    received.reader.close()


async def test_a_message_directly_behind_a_ping_is_read() -> None:
    received, ping = Received(), masked(Opcode.PING)
    received.reader.feed(ping + masked(Opcode.TEXT, b"one"))
    received.reader.start(received)
    await received.read()
    assert (received.controls, received.messages) == ([ping], [b"one"])
    received.reader.close()


async def test_ignored_messages_are_dropped_and_control_frames_are_not() -> None:
    received, close = Received(), masked(Opcode.CLOSE, b"\x03\xe8")
    received.reader.start(received)
    received.reader.ignore_messages()
    received.reader.feed(masked(Opcode.TEXT, b"late") + close)
    if received.wire.paused:
        await received.read()
    assert (received.messages, received.controls) == ([], [close])
    received.reader.close()


async def test_a_close_frame_is_read_of_a_client_that_was_never_served() -> None:
    received, close = Received(), masked(Opcode.CLOSE, b"\x03\xe8")
    received.reader.feed(masked(Opcode.TEXT, b"late") + close)
    received.reader.ignore_messages()
    if received.wire.paused:
        await received.read()
    assert (received.messages, received.controls, received.violations) == ([], [close], [])
    received.reader.close()


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG], ids=["pings", "pongs"])
async def test_too_many_pings_or_pongs_are_a_violation(opcode: Opcode) -> None:
    received = Received()
    received.reader.start(received)
    received.reader.feed(masked(opcode) * 1000)
    await received.read()
    assert [violation.code for violation in received.violations] == [CloseCode.RATE_LIMITED]
    received.reader.close()


async def test_a_message_of_too_many_pieces_is_a_violation() -> None:
    # With the share of a viewer a slow machine reads no faster than the limit.
    received = Received(per_s=1.0)
    received.reader.start(received)
    received.reader.feed(masked(Opcode.TEXT, fin=False) + masked(Opcode.CONT, fin=False) * int(2 * PIECES_AT_ONCE))
    await received.read()
    assert [violation.code for violation in received.violations] == [CloseCode.RATE_LIMITED]
    received.reader.close()


async def test_bytes_after_a_violation_are_dropped_up_to_a_limit() -> None:
    received = Received()
    received.reader.start(received)
    received.reader.feed(b"\x83\x80" + bytes(4))
    await received.read()
    assert [violation.code for violation in received.violations] == [1002]
    assert not received.wire.paused
    received.reader.feed(bytes(MOST_DROPPED_BYTES))
    aborted = [received.wire.aborted]
    received.reader.feed(b"\0")
    assert [*aborted, received.wire.aborted] == [False, True]
    received.reader.close()


async def test_closing_frees_an_unfinished_message() -> None:
    received = Received()
    received.reader.start(received)
    received.reader.feed(masked(Opcode.BINARY, bytes(100))[:-1])
    await received.read()
    assert received.budget.left < MAX_BYTES
    received.reader.close()
    assert received.budget.left == MAX_BYTES


class Failing:
    """Return each message and pause after it, so that the next is read later than it came; fail at `fail`."""

    share = 0.05

    def __init__(self, protocol: SocketProtocol) -> None:
        self._protocol = protocol

    def allowance(self, *, is_text: bool) -> Allowance:  # noqa: ARG002  (any kind)
        return Allowance(1000, 1000, "too long")

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:  # noqa: ARG002  (any kind)
        if message == b"fail":
            raise RuntimeError("a fault of ours")
        self._protocol.post((message or b"").decode())
        return 0.01


async def _accept(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    protocol = serving(scope, SocketProtocol)
    assert protocol is not None
    protocol.serve(Failing(protocol))
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def test_a_failure_in_a_later_slice_ends_only_that_connection(caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig(_accept, LabelledCounter())
    loop, state = asyncio.get_running_loop(), ServerState()
    server = await loop.create_server(lambda: UvicornProtocol(config, state), "127.0.0.1", 0)
    async with server, asyncio.timeout(TIMEOUT_S):
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connect(url, compression=None) as failing, connect(url, compression=None) as other:
            for socket in (failing, other):
                await socket.send("one")
                await socket.send("fail" if socket is failing else "two")
            assert await failing.recv() == "one"
            with pytest.raises(ConnectionClosed):
                await failing.recv()
            assert [await other.recv(), await other.recv()] == ["one", "two"]
            await other.send("three")
            assert await other.recv() == "three"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "reading a connection failed"
    caplog.clear()
