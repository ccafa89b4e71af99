"""`reactor connect` as people and programs use it, against a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import pytest
import simplejpeg

from reactor_runtime.client import connect
from tests.cli.command import Outcome, environment, reactor, running_reactor
from tests.cli.terminal import terminal
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class Progress(ModelMessage):
    step: int


class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)
    mode: str = InputField(default="fast", choices=["fast", "slow"])
    resting: bool = False


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield Idle if self.state.resting else gray(self.state.level)

    @event(name="count")
    async def count(self):
        await self.send(Progress(step=1))
        return Progress(step=2)

    @event(name="measure")
    def measure(self, file: UploadedFile):
        return Progress(step=len(file.read()))

    @event(name="crash")
    def crash(self):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("model"), MODEL)
    with serving(project, "--max-waiting", "0") as server:
        yield server


@pytest.fixture
def url(server: RunningServer) -> str:
    server.wait_for_health("ready")
    return f"http://127.0.0.1:{server.port}"


def interrupted(
    *arguments: str, once: Callable[[list[str]], bool], cwd: Path, error: str = "", **variables: str
) -> Outcome:
    """Run `reactor connect`, and end it with Ctrl-C once its lines are what a test waits for, and `error` in stderr."""
    with running_reactor("connect", *arguments, cwd=cwd, **variables) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said: list[str] = []
        while not once(said):
            said.append(next(process.stdout).rstrip())
        errors = ""
        while error not in errors:
            errors += next(process.stderr)
        process.send_signal(signal.SIGINT)
        out = "\n".join([*said, process.stdout.read()])
        return Outcome(process.wait(TIMEOUT_S), out, errors + process.stderr.read())


def figures_in(lines: list[str]) -> list[dict[str, Any]]:
    """Return the metrics of the seconds in which frames came."""
    facts = map(json.loads, lines)
    return [fact for fact in facts if fact["kind"] == "figures" and fact["fps"].get("main_video")]


def of_two_seconds(lines: list[str]) -> bool:
    return len(figures_in(lines)) == 2


def test_replies_messages_and_state_are_printed(url: str, tmp_path: Path) -> None:
    sends = ["--send", "set_level 9", "--send", "count"]
    wanted = {"ok  count, event 2  progress  step=2", "progress  step=1", "state  level=9"}
    outcome = interrupted(url, *sends, once=lambda said: wanted <= set(said), error="fps main_video", cwd=tmp_path)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "ok  set_level, event 1"
    assert "connected" in outcome.err.splitlines()


def test_json_output_is_one_object_per_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "a b.bin").write_bytes(b"12345")
    sends = ["--send", "measure file='@a b.bin'", "--send", "set_level level=3"]

    def has_all(lines: list[str]) -> bool:
        kinds = Counter(json.loads(line)["kind"] for line in lines)
        return kinds["reply"] == 2 and kinds["state"] > 0 and bool(figures_in(lines))

    outcome = interrupted(url, "--json", *sends, once=has_all, cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    said = [json.loads(line) for line in outcome.out.splitlines()]
    of: dict[str, dict[str, Any]] = {fact["kind"]: fact for fact in said}
    assert [fact["n"] for fact in said if fact["kind"] == "reply"] == [1, 2]
    assert said[[fact["kind"] for fact in said].index("reply")]["message"] == {"type": "progress", "data": {"step": 5}}
    assert of["status"]["phase"] == "connected"
    assert of["state"]["data"] == {"level": 3}
    assert set(of["figures"]) >= {"delay_ms", "input_delay_ms", "rtt_ms", "skipped"}


def test_lines_of_a_pipe_are_events_and_its_end_ends_the_session(url: str, tmp_path: Path) -> None:
    outcome = reactor("connect", url, "--json", cwd=tmp_path, lines="set_level 7\n\ncount\n")
    assert (outcome.code, outcome.err) == (0, "")
    said = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(fact["event"], fact["n"]) for fact in said if fact["kind"] == "reply"] == [("set_level", 1), ("count", 2)]


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ("set_level 256\ncount\n", 1, "error: set_level.level: 256 is above 255"),
        ("set_level 'a\ncount\n", 2, "no closing quotation"),
        ("set_level 8", 0, ""),
    ],
    ids=["refused", "not to be read", "without a line's end"],
)
def test_a_piped_event_fails_like_one_of_send(url: str, tmp_path: Path, lines: str, code: int, said: str) -> None:
    outcome = reactor("connect", url, "--json", cwd=tmp_path, lines=lines)
    assert outcome.code == code
    assert said in outcome.err
    assert '"event": "count"' not in outcome.out


@pytest.mark.parametrize("line", ["set_levle 8", "set_levle level=8"])
def test_a_misspelt_event_is_refused_with_the_one_that_is_meant(url: str, tmp_path: Path, line: str) -> None:
    outcome = reactor("connect", url, "--send", line, "--seconds", "0", cwd=tmp_path)
    assert outcome.code == 1
    assert "hint: did you mean set_level?" in outcome.err
    assert (outcome.out + outcome.err).count("did you mean set_level?") == 1
    assert (outcome.out + outcome.err).count("set_levle") == 1


def test_a_misspelt_event_is_refused_with_a_suggestion_for_programs(url: str, tmp_path: Path) -> None:
    outcome = reactor("connect", url, "--json", cwd=tmp_path, lines="set_levle 8\n")
    (refusal,) = [fact for fact in map(json.loads, outcome.out.splitlines()) if fact["kind"] == "refusal"]
    assert (outcome.code, refusal["suggestion"]) == (1, "set_level")


def test_a_pipe_that_stays_open_does_not_delay_the_end(server: RunningServer, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "reactor_cli", "connect", url, "--json"]
    for arguments in (["--send", "count", "--seconds", "0"], ["--seconds", "3"]):
        # No client may wait for the end of the session before.
        server.wait_for_health("ready")
        with subprocess.Popen(
            [*command, *arguments],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert process.wait(TIMEOUT_S) == 0
            assert process.stderr.read() == b""


def test_an_input_without_lines_does_not_end_the_session(url: str, tmp_path: Path) -> None:
    # Its input is that of a service.
    outcome = interrupted(url, "--json", once=lambda said: any('"figures"' in line for line in said), cwd=tmp_path)
    assert outcome.code == 0


def test_a_held_frame_has_no_delay(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        url = f"http://127.0.0.1:{server.port}"
        server.wait_for_health("ready")
        with connect(url) as session:
            session.send("set_resting", resting=True)
            # The frames made before are shown first; the statistics come once a second.
            server.until(lambda: session.stats.get("fps") == {"main_video": 0.0}, "rest")
            with running_reactor("connect", url, "--role", "viewer", "--json", cwd=tmp_path) as process:
                assert process.stdout is not None
                figures = (each for each in map(json.loads, process.stdout) if each["kind"] == "figures")
                # The held frame counts in the second in which it comes.
                while (shown := next(figures))["fps"] != {"main_video": 0.0}:
                    assert shown["delay_ms"] is None
                assert shown["delay_ms"] is None


def test_frames_are_saved(url: str, tmp_path: Path) -> None:
    outcome = interrupted(url, "--json", "--save", "out", once=of_two_seconds, cwd=tmp_path)
    assert outcome.code == 0
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 1
    assert files[0].name == "main_video-000001.jpg"
    assert simplejpeg.decode_jpeg(files[-1].read_bytes()).mean() == pytest.approx(100, abs=3)


def test_a_clip_is_saved_without_programs(url: str, tmp_path: Path) -> None:
    arguments = url, "--json", "--save", "out.mp4"
    outcome = interrupted(*arguments, once=of_two_seconds, cwd=tmp_path, PATH="/nowhere")
    assert (outcome.code, outcome.err) == (0, "")
    with av.open(str(tmp_path / "out.mp4")) as file:
        levels = [frame.to_ndarray(format="rgb24").mean() for frame in file.decode(video=0)]
    assert len(levels) > 1
    assert levels[-1] == pytest.approx(100, abs=4)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--send", "set_level 256"], 1, "error: set_level.level: 256 is above 255"),
        (["--send", "crash"], 1, "error: the session has ended"),
        (["--send", 'set_level "'], 2, "no closing quotation"),
        (["--send", "count 5"], 2, "not parameter=value"),
        (["--send", "measure @there.is.none"], 2, "there.is.none can't be read: No such file"),
        (["--send", "set_level NaN"], 1, 'error: set_level.level: "NaN" is not a whole number'),
        (["--send", "set_level @there.is.none"], 1, "is not a whole number"),
        (["--send", "reactor.here"], 2, '"reactor.here" is not an event of a model'),
        (["--save", "out.webm"], 2, "out.webm: .webm files can't be written"),
        (["--seconds", "soon"], 2, "is not a time"),
        (["--role", "king"], 2, "not one of controller, viewer"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_an_error_has_its_message_and_exit_code(
    url: str, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    outcome = reactor("connect", url, "--seconds", "0", *arguments, cwd=tmp_path, PATH="/nowhere")
    assert outcome.code == code
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_a_client_that_cannot_connect_gets_the_reason(url: str, tmp_path: Path) -> None:
    outcome = reactor("connect", "127.0.0.1:1", cwd=tmp_path)
    assert outcome.code == 3
    assert "error: http://127.0.0.1:1 can't be reached: nothing listens there" in outcome.err
    with terminal("connect", url, cwd=tmp_path) as first:
        first.wait_for("connected")
        full = reactor("connect", url, cwd=tmp_path)
        assert full.code == 5
        watching = reactor("connect", url, "--role", "viewer", "--send", "count", "--seconds", "0", cwd=tmp_path)
        assert watching.code == 1
        assert "viewers send nothing" in watching.err
        first.type("\x04")
        assert first.ended() == 0


def test_seconds_limits_the_wait_for_the_turn(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        url = f"http://127.0.0.1:{server.port}"
        with connect(url):
            # Long enough for the server to say which place it is.
            late = reactor("connect", url, "--seconds", "5", cwd=tmp_path)
    assert late.code == 5
    assert "error: the turn did not come within 5 s: in the wait queue, 1 of 1" in late.err


def test_the_token_can_come_from_the_environment(tmp_path: Path) -> None:
    with serving(write_project(tmp_path / "closed", MODEL), "--token", "correct-horse") as closed:
        url = f"http://127.0.0.1:{closed.port}"
        refused = reactor("connect", url, "--seconds", "0", cwd=tmp_path)
        assert (refused.code, "--token" in refused.err) == (3, True)
        assert reactor("connect", url, "--seconds", "0", cwd=tmp_path, REACTOR_TOKEN="correct-horse").code == 0
        address = f"{url}/?token=correct-horse"
        assert reactor("connect", address, "--seconds", "0", cwd=tmp_path, REACTOR_TOKEN="old").code == 0


def test_ctrl_c_saves_and_exits_with_0(url: str, tmp_path: Path) -> None:
    arguments = "connect", url, "--json", "--save", "out"
    with running_reactor(*arguments, cwd=tmp_path, PYTHONWARNINGS="error") as process:
        assert process.stdout is not None
        assert any('"main_video"' in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1]) == {"kind": "saved", "path": "out"}


def test_a_terminal_shows_frames_and_a_prompt_with_completion(url: str, tmp_path: Path) -> None:
    with terminal("connect", url, cwd=tmp_path) as screen:
        screen.wait_for("48;2;100;100;100m▀")
        screen.type("set_m\t")
        screen.wait_for("ode ")
        screen.type("\t")
        screen.wait_for("mode=")
        screen.type("s\t\r")
        screen.wait_for("set_mode, event 1")
        screen.type("set_level 999\r")
        screen.wait_for("999 is above 255")
        screen.type("set_level\x03")
        assert screen.ended() == 0
        assert screen.attributes == screen.initial
        assert screen.output.endswith("\x1b[r\x1b[24;1H\r\x1b[K")


def test_no_picture_shows_no_frames(url: str, tmp_path: Path) -> None:
    with terminal("connect", url, "--no-draw", cwd=tmp_path) as screen:
        screen.wait_for("fps main_video")
        assert "▀" not in screen.output
        screen.type("\x04")
        assert screen.ended() == 0
