from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.bench.test_comparison import git, row_of
from tests.cli.command import Outcome, environment, reactor
from tests.processes import descendants, gone
from tests.timeouts import TIMEOUT_S

MODEL = """\
import time

import numpy as np

from reactor_runtime import CommandError, InputField, InputState, Output, ReactorPipeline, Video, event

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    locked: bool = True
    level: int = InputField(default=7, ge=0, le=255)

class MyModel(ReactorPipeline):
    state: MyState
    fps = 25

    @event(name="set_locked")
    def set_locked(self, locked: bool):
        raise CommandError("locked", "it stays as it is")

    def load(self, config):
        self.sleep_s = config["sleep_ms"] / 1e3
        if self.sleep_s < 0:
            raise OSError("no weights")

    def inference(self):
        while self.sleep_s:
            time.sleep(self.sleep_s)
            yield np.full((48, 64, 3), self.state.level, np.uint8)
        while True:
            time.sleep(0.01)
            yield None
"""


def project(folder: Path, body: str) -> Path:
    (folder / "pipeline.py").write_text(body)
    (folder / "config.yml").write_text("sleep_ms: 2\n")
    (folder / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    return folder


def bench(*arguments: str, cwd: Path, lacks_figures: Callable[[str], bool]) -> Outcome:
    """Run `reactor bench`, and again while its output lacks figures: a busy machine may stop a model for a round."""
    deadline = time.monotonic() + TIMEOUT_S
    done = reactor("bench", *arguments, cwd=cwd)
    while done.code == 0 and lacks_figures(done.out) and time.monotonic() < deadline:
        done = reactor("bench", *arguments, cwd=cwd)
    return done


def test_figures_are_printed_for_programs(tmp_path: Path) -> None:
    done = bench(
        "--seconds",
        "1.5",
        "--rounds",
        "2",
        "--set",
        "sleep_ms=5",
        "--json",
        "--plot",
        "plot.html",
        cwd=project(tmp_path, MODEL),
        lacks_figures=lambda out: None in (json.loads(out)["step_p50_ms"], json.loads(out)["input_p50_ms"]),
    )

    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert figures["declared_fps"] == 25
    assert figures["step_name"] == "step"
    assert 5 <= figures["step_p50_ms"] <= figures["step_p99_ms"]
    assert figures["possible_fps"] > figures["shown_fps"] / 2 > 1
    assert figures["input_p50_ms"] > 0
    assert list(figures["stages_ms"])[:4] == ["step", "convert", "hand over", "arrive"]
    assert done.err.count("measuring") == 2
    assert done.err.endswith("written: plot.html\n")
    drawn = (tmp_path / "plot.html").read_text()
    assert "<svg" in drawn
    assert "hand over</text>" in drawn


def test_two_configs_are_compared(tmp_path: Path) -> None:
    done = bench(
        *("--seconds", "1", "--rounds", "1", "--compare", "sleep_ms=2", "sleep_ms=60"),
        cwd=project(tmp_path, MODEL),
        lacks_figures=lambda out: "-" in row_of(out, "step, p50"),
    )

    assert done.code == 0, done.err
    assert float(row_of(done.out, "step, p50")[0]) >= 2
    assert float(row_of(done.out, "step, p50")[1]) >= 60
    assert done.out.splitlines()[-1].startswith("too few steps to tell whether sleep_ms=2 and sleep_ms=60 differ")
    assert done.err.count("measuring") == 2


def test_each_revision_has_the_rate_that_its_class_declares(tmp_path: Path) -> None:
    folder = project(tmp_path, MODEL)
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        git(folder, *arguments)
    (folder / "pipeline.py").write_text(MODEL.replace("fps = 25", "fps = 50"))

    done = reactor("bench", "--seconds", "1", "--rounds", "1", "--compare-git", "HEAD", "--json", cwd=folder)

    assert done.code == 0, done.err
    compared = json.loads(done.out)["compared"]
    assert [(each["name"], each["declared_fps"]) for each in compared] == [("HEAD", 25), ("now", 50)]


def test_a_model_without_frames_is_an_error_with_a_hint(tmp_path: Path) -> None:
    done = reactor("bench", "--patience", "1", "--set", "sleep_ms=0", cwd=project(tmp_path, MODEL))

    assert (done.code, done.out) == (1, "")
    assert "error: the model made no frame in 1 s" in done.err
    assert "--patience" in done.err


def test_a_failing_load_is_printed_as_by_run(tmp_path: Path) -> None:
    done = reactor("bench", "--set", "sleep_ms=-1", cwd=project(tmp_path, MODEL))

    assert (done.code, done.out) == (4, "")
    assert "error: load() failed: OSError: no weights" in done.err
    assert done.err.count("error:") == 1


def test_a_failing_step_is_an_error(tmp_path: Path) -> None:
    broken = MODEL.replace("self.state.level, np.uint8)", "self.state.level / self.missing, np.uint8)")

    done = reactor("bench", cwd=project(tmp_path, broken))

    assert (done.code, done.out) == (1, "")
    assert "AttributeError: 'MyModel' object has no attribute 'missing'" in done.err


# At once, and while the reply to an event is waited for.
@pytest.mark.parametrize("frames", [4, 60])
def test_a_session_that_the_model_ends_has_no_figures(tmp_path: Path, frames: int) -> None:
    blocks = MODEL.replace("ReactorPipeline", "VideoModel").replace("def load", "def __init__")
    ending = blocks[: blocks.index("    def inference")] + (
        f"    def start_session(self):\n        get_ctx().emit_block(np.zeros(({frames}, 48, 64, 3), np.uint8))\n"
    )

    done = reactor(
        "bench", cwd=project(tmp_path, ending.replace("import CommandError", "import get_ctx, CommandError"))
    )

    assert (done.code, done.out) == (1, "")
    assert "error: the model ended its session" in done.err
    assert "hint: measure a shorter time with --seconds" in done.err


def test_a_model_without_output_is_an_error_with_a_hint(tmp_path: Path) -> None:
    blind = MODEL.replace("class MyOutput(Output):\n    main_video: Video\n", "").replace(
        "while self.sleep_s", "while 0"
    )

    done = reactor("bench", cwd=project(tmp_path, blind))

    assert (done.code, done.out) == (1, "")
    assert "error: the model has no output to measure" in done.err


@pytest.mark.parametrize(("sent", "code"), [("SIGTERM", 130), ("SIGKILL", -signal.SIGKILL)])
def test_the_server_ends_with_the_command(tmp_path: Path, sent: str, code: int) -> None:
    telling = MODEL.replace(
        "    def load(self, config):\n", "    def load(self, config):\n        os.write(2, b'loading\\n')\n"
    )
    folder = project(tmp_path, f"import os\n{telling}")
    command = [sys.executable, "-m", "reactor_cli", "bench", "--seconds", "60"]
    running = subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE)
    assert running.stderr is not None, "it is a pipe"
    with running, running.stderr as lines:
        for line in lines:
            if line.startswith(b"loading"):
                break
        others = descendants(running.pid)
        running.send_signal(signal.Signals[sent])
        assert running.wait(TIMEOUT_S) == code
    assert others
    for pid in others:
        gone(pid)


def test_a_wrong_class_is_reported_before_anything_is_served(tmp_path: Path) -> None:
    done = reactor("bench", cwd=project(tmp_path, MODEL.replace("fps = 25", "fps = 0")))

    assert (done.code, done.out) == (2, "")
    assert "measuring" not in done.err


def test_a_comparison_with_a_wrong_value_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    done = reactor("bench", "--compare", "a=1", "b", cwd=project(tmp_path, MODEL))

    assert done.code == 2
    assert done.err.startswith('error: --set b: there is no "="')


def test_two_kinds_of_comparison_exclude_each_other(tmp_path: Path) -> None:
    done = reactor("bench", "--compare", "a=1", "a=2", "--compare-git", "HEAD", cwd=project(tmp_path, MODEL))

    assert done.code == 2
    assert "leave out one of them" in done.err
