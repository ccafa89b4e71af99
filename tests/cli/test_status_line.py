"""The status line of `reactor run`, in a real terminal."""

from __future__ import annotations

import asyncio
import base64
import os
import pty
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reactor_cli import status_line
from reactor_cli.run_status import facts_of
from reactor_cli.status_line import fit
from reactor_runtime.server.options import LoadingProgress, ServerStatistics
from tests.cli.terminal import Terminal, terminal
from tests.processes import engines_of, wait_until_stopped
from tests.server.client import controlling
from tests.server.running import write_project

MODEL = """
class MyModel(ReactorPipeline):
    state: InputState
    fps = 30

    def load(self, config):
        if config.get("fails"):
            raise ValueError("no weights")

    @event(name="say")
    def say(self):
        for number in range(40):
            print(f"line {number}")

    @event(name="debug")
    def debug(self):
        breakpoint()
        print("continued")

    @event(name="step")
    def step(self):
        breakpoint()
        self.hold()
        print("continued")

    def hold(self):
        print("holding")
        while not os.path.exists("go"):
            time.sleep(0.01)

    def inference(self):
        while True:
            yield gray(100)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "model", MODEL)


def url_of(screen: Terminal) -> str:
    """Return the address in the first rows of the screen."""
    address = next(row.strip() for row in screen.rows if "http://" in row)
    return address.replace("http", "ws") + "/ws"


async def until(screen: Terminal, condition: Callable[[], bool]) -> None:
    """Read until the screen fulfils a condition, while the clients of this thread answer the pings of the server."""
    await asyncio.to_thread(screen.until, condition)


async def test_the_line_stays_below_the_output_and_its_keys_work(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", cwd=project, CI="") as screen:
        line = r" waiting for a client · 0 clients .* o open  c copy link  q quit"
        screen.until(lambda: re.fullmatch(line, screen.rows[-1]) is not None)
        url = url_of(screen)
        async with controlling(url) as controller:
            line = r" [\d.]+ fps · step .* 1 client  .* q quit"
            await until(screen, lambda: re.fullmatch(line, screen.rows[-1]) is not None)
            await controller.ask("say")
            await until(screen, lambda: screen.rows[-3] == "line 39" and "1 client" in screen.rows[-1])
            screen.type("c")
            # A slow test may read it together with what replaces it after two seconds.
            await until(screen, lambda: "link copied" in screen.output)
            link = url.removesuffix("/ws").replace("ws", "http")
            assert f"\x1b]52;c;{base64.b64encode(link.encode()).decode()}\x07" in screen.output
            # The statistics, which change more often than the message is shown, do not keep it.
            await until(screen, lambda: "fps" in screen.rows[-1] and screen.rows[-1].endswith("q quit"))
            screen.resize(rows=12, columns=30)
            await until(screen, lambda: "\x1b[12;1H" in screen.output and "fps" in screen.rows[11])
            assert "client" not in screen.rows[11]
            screen.resize(rows=30, columns=80)
            await until(screen, lambda: "fps" in screen.rows[29])
            # The line of the smaller terminal is removed.
            assert "\x1b[12;1H\x1b[2K" in screen.output
            screen.type("x\x1b[Aq")
            # Meanwhile the client does not answer its close, for which the server waits.
            screen.until(lambda: "stopping" in screen.output)
        assert screen.ended() == 0
        assert screen.attributes == screen.initial
        assert not screen.rows[29]
        assert screen.scrolls_whole


async def test_what_is_saved_is_served_unless_that_is_refused(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", cwd=project, CI="") as screen:
        screen.until(lambda: "waiting for a client" in screen.rows[-1])
        assert "save a file, and the model runs the new code; r runs all of it again" in screen.text
        async with controlling(url_of(screen)):
            (project / "pipeline.py").write_text((project / "pipeline.py").read_text().replace("gray(100)", "gray(50)"))
            await until(screen, lambda: "reload applied" in screen.text)
            screen.type("r")
            await until(screen, lambda: screen.text.count("reload applied") == 2)
    with terminal("run", str(project), "--port", "0", "--no-reload", cwd=project, CI="") as screen:
        screen.until(lambda: "waiting for a client" in screen.rows[-1])
        assert "save a file" not in screen.text


@pytest.mark.parametrize(
    "option", [["--host", "0.0.0.0"], ["--allow-host", "example.org"], ["--forwarded-allow-ips", "127.0.0.1"]]
)
def test_a_server_for_other_machines_applies_no_saves(project: Path, option: list[str]) -> None:
    with terminal("run", str(project), "--port", "0", *option, cwd=project, CI="") as screen:
        screen.until(lambda: "waiting for a client" in screen.rows[-1])
        assert "save a file" not in screen.text


def test_a_model_that_could_not_be_loaded_waits_for_a_save(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", "--set", "fails=true", cwd=project, CI="") as screen:
        screen.until(lambda: screen.rows[-1].startswith(" not loaded: save a file to try again"))
        (project / "pipeline.py").write_text((project / "pipeline.py").read_text().replace('get("fails")', "get(1)"))
        screen.until(lambda: "waiting for a client" in screen.rows[-1])


def test_ctrl_z_gives_the_terminal_back_until_the_process_continues(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", cwd=project, CI="") as screen:
        screen.until(lambda: "0 clients" in screen.rows[-1])
        ours = screen.attributes
        os.kill(screen.process.pid, signal.SIGTSTP)
        wait_until_stopped(screen.process.pid)
        assert screen.attributes == screen.initial
        screen.until(lambda: not screen.rows[-1] and screen.scrolls_whole)
        os.kill(screen.process.pid, signal.SIGCONT)
        screen.until(lambda: "0 clients" in screen.rows[-1])
        assert screen.attributes == ours


async def test_a_debugger_in_the_model_gets_what_is_typed(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", cwd=project, CI="") as screen:
        screen.until(lambda: "0 clients" in screen.rows[-1])
        async with controlling(url_of(screen)) as controller:
            await controller.send("debug")
            await until(screen, lambda: any(row.startswith("(Pdb)") for row in screen.rows))
            screen.type("p time.sleep(0.5) or 'q' * 3\r")
            await until(screen, lambda: any(row.endswith("* 3") for row in screen.rows))
            # Between two lines, which are the debugger's too.
            screen.type("continue\r")
            await until(screen, lambda: "'qqq'" in screen.rows)
            await until(screen, lambda: "continued" in screen.rows)
            screen.type("q")
            assert screen.ended() == 0


async def test_a_debugger_that_steps_gets_what_is_typed_until_it_continues(project: Path) -> None:
    with terminal("run", str(project), "--port", "0", cwd=project, CI="") as screen:
        screen.until(lambda: "0 clients" in screen.rows[-1])
        async with controlling(url_of(screen)) as controller:
            await controller.send("step")
            await until(screen, lambda: any(row.startswith("(Pdb)") for row in screen.rows))
            screen.type("next\r")
            await until(screen, lambda: any("self.hold()" in row for row in screen.rows))
            screen.type("next\r")
            await until(screen, lambda: "holding" in screen.rows)
            screen.type("p 'q' * 3\r")
            await until(screen, lambda: any(row.endswith("* 3") for row in screen.rows))
            (project / "go").touch()
            await until(screen, lambda: "'qqq'" in screen.rows)
            screen.type("continue\r")
            await until(screen, lambda: "continued" in screen.rows)
            screen.type("q")
            assert screen.ended() == 0


@pytest.mark.parametrize("end", ["Ctrl-C", "SIGTERM", "second Ctrl-C", "SIGQUIT", "load"])
def test_the_terminal_is_restored_after_every_end(project: Path, end: str) -> None:
    options = {
        "load": ["--set", "fails=true", "--no-reload"],
        # The server waits six seconds for an engine that records, and one for another.
        "second Ctrl-C": ["--record", str(project / "sessions")],
    }
    arguments = options.get(end, [])
    with terminal("run", str(project), "--port", "0", *arguments, cwd=project, CI="") as screen:
        if end != "load":
            screen.until(lambda: "0 clients" in screen.rows[-1])
        match end:
            case "Ctrl-C":
                screen.type("\x03")
            case "SIGTERM":
                screen.process.terminate()
            case "SIGQUIT":
                screen.type("\x1c")
            case "second Ctrl-C":
                # An engine that is stopped makes the server wait.
                (engine,) = engines_of(screen.process.pid)
                os.kill(engine, signal.SIGSTOP)
                screen.type("\x03")
                screen.until(lambda: "stopping" in screen.text)
                screen.type("\x03")
        codes = {"load": 4, "SIGQUIT": -signal.SIGQUIT, "second Ctrl-C": 130}
        assert screen.ended() == codes.get(end, 0)
        assert screen.attributes == screen.initial
        assert screen.scrolls_whole
        # The output may have a line about a slow load, without the space at its beginning.
        assert not any("0 clients" in row or row.startswith(" loading") for row in screen.rows)


def test_json_logs_have_no_line(project: Path) -> None:
    arguments = ["--port", "0", "--log-format", "json"]
    with terminal("run", str(project), *arguments, cwd=project, CI="") as screen:
        screen.wait_for("ready in")
        assert screen.attributes == screen.initial
        screen.process.terminate()
        assert screen.ended() == 0
        assert "\x1b" not in screen.output


def test_the_line_is_wanted_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb"), open(theirs, "r+b", buffering=0) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "")
        monkeypatch.setenv("CI", "")
        assert status_line.is_wanted()
        for name, value in (("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "true")):
            with monkeypatch.context() as changed:
                changed.setenv(name, value)
                assert not status_line.is_wanted()
        for name in ("stdin", "stdout"):
            with monkeypatch.context() as changed, open(os.devnull) as file:
                changed.setattr(sys, name, file)
                assert not status_line.is_wanted()
                changed.setattr(sys, name, None)
                assert not status_line.is_wanted()


FIVE = ["30.0 fps", "step 2.0 ms", "late 0.1 ms", "1 client", "session s-1"]


@pytest.mark.parametrize(
    ("columns", "least", "line"),
    [
        (80, 4, " 30.0 fps · step 2.0 ms · late 0.1 ms · 1 client · session s-1           q quit "),
        (70, 4, " 30.0 fps · step 2.0 ms · late 0.1 ms · 1 client               q quit "),
        (57, 4, " 30.0 fps · step 2.0 ms · late 0.1 ms · 1 client  q quit "),
        (55, 4, " 30.0 fps · step 2.0 ms · late 0.1 ms · 1 client       "),
        (30, 4, " 30.0 fps · step 2.0 ms       "),
        (30, 0, " 30.0 fps              q quit "),
        (12, 0, "     q quit "),
        (6, 4, " 30.0 "),
    ],
)
def test_a_narrow_line_loses_the_last_facts_then_the_keys(columns: int, least: int, line: str) -> None:
    assert fit(FIVE, "q quit", columns, least=least) == line


def test_wide_characters_take_two_columns() -> None:
    assert fit(["重みを読む", "1 client"], "q quit", 31) == " 重みを読む · 1 client  q quit "
    assert fit(["重みを読む"], "", 8) == " 重みを "


def statistics(
    *, loading: LoadingProgress | None = None, fps: float | None = None, sessions: int = 0, slots: int = 1
) -> ServerStatistics:
    return ServerStatistics(
        loading=loading,
        fps=fps,
        step_ms=None if fps is None else 12.34,
        late_ms=None if fps is None else 0.26,
        clients=1,
        sessions=sessions,
        slots=slots,
        session="s-1" if sessions == 1 else "",
        session_s=83.9,
        memory_bytes=None if fps is None else 1_234_000_000,
    )


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (
            statistics(loading=LoadingProgress(12.3, "a\tb\x1b[2J", progress=0.4)),
            ["loading 12 s", "40%", "a b\\x1b[2J"],
        ),
        (statistics(), ["waiting for a client", "1 client"]),
        (
            statistics(fps=29.97, sessions=1),
            ["30.0 fps", "step 12.3 ms", "late 0.3 ms", "1 client", "1.2 GB", "session s-1 1:23"],
        ),
        (
            statistics(fps=29.97, sessions=2, slots=4),
            ["30.0 fps", "step 12.3 ms", "late 0.3 ms", "1 client", "1.2 GB", "2 of 4 sessions"],
        ),
    ],
    ids=["loading", "idle", "one session", "several"],
)
def test_the_line_has_the_facts_of_the_phase(given: ServerStatistics, facts: list[str]) -> None:
    assert facts_of(given) == facts
