"""The log of a server as people run it, while clients and the model cause lines without end."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import pytest

from reactor_runtime.client import EventError
from reactor_runtime.logs.limits import MOST_OF_ADDRESS, MOST_OF_EXCEPTION
from tests.server.running import RunningServer, listening, write_project
from tests.server.session_client import visiting
from tests.timeouts import TIMEOUT_S

EVENTS = 40
MODEL = """
    class Amount(ModelMessage):
        value: int

        def __post_init__(self):
            raise RuntimeError("no amount")


    class MyState(InputState):
        level: int = 0


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = 30

        def inference(self):
            while True:
                yield MyOutput(main_video=gray(0))

        @event(name="fail")
        def fail(self, number: int = 0):
            raise ValueError(f"broken {number}")

        @event(name="reply")
        def reply(self) -> Amount:
            return Amount(value=1)
"""


def left_out(server: RunningServer, pattern: str) -> int:
    """Add up the counts of the lines that were left out."""
    return sum(int(found) for found in re.findall(rf"… (\d+) more in the last minute: .*{pattern}", server.log))


@pytest.mark.parametrize(("event", "at"), [("fail", "raise ValueError"), ("reply", "raise RuntimeError")])
async def test_an_event_that_always_fails_has_one_traceback_and_a_count(tmp_path: Path, event: str, at: str) -> None:
    with listening(write_project(tmp_path, MODEL), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        async with visiting(server.url) as session:
            for _ in range(EVENTS):
                with pytest.raises(EventError):
                    await session.send(event)
        server.stop()
        assert server.log.count(at) == 1
        lines = len(re.findall(rf"error the handler of event {event} failed", server.log))
        assert lines == MOST_OF_EXCEPTION
        assert lines + left_out(server, r"at pipeline\.py:\d+") == EVENTS


def test_refused_connections_of_an_address_have_one_line_and_a_count(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL), "--max-per-address", "1") as server:
        server.wait_for("ready in")
        source, refused = ("127.0.0.2", 0), EVENTS - 1
        with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S, source):
            for _ in range(refused):
                # The server may reset the connection before this side has seen that it is established.
                with (
                    contextlib.suppress(ConnectionError),
                    socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S, source) as sock,
                ):
                    sock.sendall(b"GET /live HTTP/1.1\r\n\r\n")
                    while sock.recv(1 << 16):
                        pass
        server.stop()
        assert server.log.count("warn  connection refused from=127.0.0.2: --max-per-address is 1") == 1
        assert left_out(server, "connection refused from=127.0.0.2") == refused - 1


async def test_connections_of_an_address_have_a_limit_and_a_count(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL)) as server:
        server.wait_for("ready in")
        for _ in range(MOST_OF_ADDRESS):
            async with visiting(server.url, role="viewer"):
                pass
        server.stop()
        lines = re.findall(r"info  client (?:attached|gone) .*from=127\.0\.0\.1$", server.log, re.MULTILINE)
        assert len(lines) == MOST_OF_ADDRESS
        assert len(lines) + left_out(server, r"lines about clients from=127\.0\.0\.1") == 2 * MOST_OF_ADDRESS
