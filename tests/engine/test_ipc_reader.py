"""The thread that reads the server's messages: error replies, and what ends the process with which status."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.engine.seat_queue import MOST_WAITING_BYTES
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.framing import HEAD
from reactor_runtime.ipc.process import EngineProcess
from tests.timeouts import TIMEOUT_S

MODEL = """
from dataclasses import dataclass
from reactor_runtime import *

class Panic(BaseException):
    pass

@dataclass
class Point:
    x: float

    def __post_init__(self):
        if self.x > 1:
            raise Panic("out of range")

class Out(Output):
    video: Video

class State(InputState):
    pass

class Panicking(ReactorPipeline):
    state: State

    @event(name="move")
    def move(self, to: Point):
        pass

    def inference(self):
        while True:
            yield None
"""


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def engine(output: Path) -> Iterator[EngineProcess]:
    with output.open("wb") as file:
        engine = EngineProcess((file.fileno(), file.fileno()))
    engine.socket.setblocking(True)
    engine.socket.settimeout(TIMEOUT_S)
    yield engine
    engine.end(time.monotonic())
    engine.socket.close()
    engine.close()


@pytest.fixture
def channel(engine: EngineProcess, tmp_path: Path) -> Channel:
    """The server's end of an engine that serves a session."""
    (tmp_path / "panicking.py").write_text(MODEL)
    channel = Channel(engine.socket)
    channel.send(ipc.Load(str(tmp_path), "panicking", "Panicking", {}, "info", "text"))
    wait_for(channel, ipc.Ready)
    channel.send(ipc.StartSession("s-1", "c-1", 0.0))
    wait_for(channel, ipc.Started)
    return channel


def wait_for(channel: Channel, kind: type[ipc.Message]) -> ipc.Message:
    return next(message for _, message in channel if isinstance(message, kind))


def test_whatever_validation_raises_is_an_error_reply(channel: Channel, engine: EngineProcess, output: Path) -> None:
    for ticket in (1, 2):
        channel.send(ipc.ClientEvent("s-1", "c-1", ticket, "move", '{"to": {"x": 2}}'))
        answer = wait_for(channel, ipc.EventRefused)
        assert isinstance(answer, ipc.EventRefused)
        assert (answer.ticket, answer.code) == (ticket, "internal_error")
    assert "Panic: out of range" in output.read_text()
    channel.send(ipc.ClientEvent("s-1", "c-1", 3, "move", '{"to": {"x": 1}}'))
    assert isinstance(wait_for(channel, ipc.EventApplied), ipc.EventApplied)
    channel.send(ipc.Shutdown())
    assert engine.wait(TIMEOUT_S) == 0


def test_the_limit_of_bytes_counts_only_events_that_wait(channel: Channel) -> None:
    large = '{"to": {"x": 1}}' + " " * (MOST_WAITING_BYTES // 2)
    for ticket in range(4):
        channel.send(ipc.ClientEvent("s-1", "c-1", ticket, "move", large))
        answers = (each for _, each in channel if isinstance(each, ipc.EventApplied | ipc.EventRefused))
        assert next(answers) == ipc.EventApplied("s-1", "c-1", ticket, ticket + 1)
    channel.send(ipc.ClientEvent("s-1", "c-1", 4, "move", 2 * large))
    refused = wait_for(channel, ipc.EventRefused)
    assert isinstance(refused, ipc.EventRefused)
    assert refused.code == "rate_limited"


def test_an_exception_while_reading_is_printed_and_ends_the_process_with_status_1(
    channel: Channel, engine: EngineProcess, output: Path
) -> None:
    engine.socket.sendall(HEAD.pack(0, 4, 0) + b"nope")
    assert engine.wait(TIMEOUT_S) == 1
    assert "JSONDecodeError" in output.read_text()
    del channel


def test_the_end_of_the_server_is_no_failure(channel: Channel, engine: EngineProcess, output: Path) -> None:
    engine.socket.shutdown(2)
    assert engine.wait(TIMEOUT_S) == 0
    assert output.read_text() == ""
    del channel
