"""JSON logs of a server as people run it: one object a line, and whose session it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.client import EventError, SessionEnded
from tests.cli.command import reactor
from tests.server.running import RunningServer, serving, write_project
from tests.server.session_client import visiting

MODEL = """
    import logging, subprocess, warnings

    class MyState(InputState):
        level: int = InputField(default=0, ge=0, le=255)


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = 30

        def load(self, config):
            print("loading weights")

        def inference(self):
            while True:
                yield MyOutput(main_video=gray(self.state.level))

        @event(name="talk")
        def talk(self):
            print('{"time": "printed"}')
            print("to stderr", file=sys.stderr)
            os.write(1, b"from below \\xff, without an end")
            subprocess.run(["echo", "from a child"])
            logging.getLogger("author").warning("%d", "wrong", extra={"odd": float("nan")})
            logging.getLogger("author").info("x" * 100_000)

        @event(name="fail")
        def fail(self):
            raise ValueError("broken")

        @event(name="crash")
        def crash(self):
            ctypes.string_at(0)

        @disconnected
        def bye(self):
            print("bye")
"""

Line = dict[str, Any]


def lines(server: RunningServer) -> list[Line]:
    """Read everything printed, of which every line has to be an object with the fields each has."""
    read: list[Line] = [json.loads(line) for line in server.log.splitlines()]
    for line in read:
        assert {"time", "level", "logger", "message"} <= line.keys()
    return read


def ids(line: Line) -> tuple[str | None, str | None]:
    return line.get("session"), line.get("client")


async def test_every_line_is_an_object_and_says_whose_it_is(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--log-format", "json") as server:
        async with visiting(server.url) as session:
            id = session.id
            await session.send("talk")
            with pytest.raises(EventError):
                await session.send("fail")
        server.wait_for("client gone")
        server.wait_for("session ended")
        async with visiting(server.url) as session:
            with pytest.raises(SessionEnded):
                await session.send("crash")
        server.wait_for("(?s)ready in.*ready in")
    found = lines(server)
    (started, crashed) = [line for line in found if line["message"].startswith("session started")]
    assert started["session"] == id
    wanted = ['{"time": "printed"}', "to stderr", "from a child", "x" * 100_000, "bye", "session ended", "client gone"]
    for text in [*wanted, "from below \ufffd", "%d (can't be formatted", "the handler of event fail failed"]:
        line = next(line for line in found if text in line["message"])
        assert ids(line) == ids(started), text
    fatal = next(line for line in found if line["message"].startswith("Fatal Python error"))
    assert (fatal["logger"], ids(fatal)) == ("model", ids(crashed))
    assert ids(next(line for line in found if line["message"].startswith("the model's process"))) == ids(crashed)
    assert ids(next(line for line in found if line["message"] == "loading weights")) == (None, None)


def test_why_the_server_ends_is_an_object_too(tmp_path: Path) -> None:
    write_project(tmp_path, MODEL.replace('print("loading weights")', 'raise ValueError("no weights")'))
    outcome = reactor("run", "--port", "0", "--log-format", "json", cwd=tmp_path)
    assert (outcome.code, outcome.out) == (4, "")
    last = [json.loads(line) for line in outcome.err.splitlines()][-1]
    assert (last["level"], last["exit_code"]) == ("error", 4)
    assert last["message"] == "load() failed: ValueError: no weights"
    assert "pipeline.py:" in last["where"]


def test_what_is_printed_before_the_server_starts_is_an_object_too(tmp_path: Path) -> None:
    write_project(tmp_path, MODEL)
    (tmp_path / "reactor.yaml").write_text("runtime: {import: pipeline:NoModel}\ndeployment: {region: x}\n")
    outcome = reactor("run", "--port", "0", "--log-format", "json", cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    first, *_, last = [json.loads(line) for line in outcome.err.splitlines()]
    assert first["message"] == "a project for 3.x; not used here: deployment"
    assert last["message"].startswith("pipeline has no class NoModel")
