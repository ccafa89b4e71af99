from __future__ import annotations

import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.command import reactor, running_reactor
from tests.cli.terminal import terminal
from tests.clips.reading import codecs_of, duration_s, frames_of
from tests.clips.test_reading import video
from tests.docs.snippets import snippets
from tests.timeouts import TIMEOUT_S

PIPELINE = """\
import time
from pathlib import Path

import numpy as np
from reactor_runtime import InputField, InputState, Output, ReactorPipeline, Video

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0)

class MyModel(ReactorPipeline):
    state: MyState
    fps = 10

    def load(self, config):
        print("loading weights")
        if config.get("fails"):
            raise FileNotFoundError("weights.pt")
        self.config = config

    def inference(self):
        for step in range(10_000):
            if step == 30:
                Path("running").touch()
            if step == self.config.get("sleeps_at"):
                Path("asleep").touch()
                time.sleep(600)
            if step == self.config.get("fails_at"):
                raise ValueError("out of ideas")
            time.sleep(self.config.get("step_s", 0))
            frame = np.full((48, 64, 3), 20 + 10 * (step % 20), np.uint8)
            yield MyOutput(main_video=(frame * self.state.brightness).astype(np.uint8))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text("{}\n")
    return tmp_path


def test_a_clip_is_written_and_described(project: Path) -> None:
    outcome = reactor("render", "--seconds", "2s", cwd=project)
    assert outcome.code == 0
    assert re.fullmatch(
        r"clip\.mp4  [1-9]\d* kB\n  2 s, 20 frames, in \d+\.\d s: \d+(\.\d+)? times real time\n", outcome.out
    )
    assert outcome.err == "loading weights\n"
    assert codecs_of(project / "clip.mp4") == ["h264"]
    assert duration_s(project / "clip.mp4") == pytest.approx(2.0, abs=0.001)
    assert len(frames_of(project / "clip.mp4")) == 20


def test_a_wrong_script_is_the_error_of_the_docs_before_the_model_is_loaded(project: Path) -> None:
    (project / "inputs.yaml").write_text("- event: set_brightness\n  data: {brightness: 3.2}\n")
    outcome = reactor("render", "--script", "inputs.yaml", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    (shown,) = [each.text for each in snippets("text") if each.page.name == "render.md" and "error:" in each.text]
    assert outcome.err == shown


def test_values_without_a_config_file_are_refused_for_a_model_that_takes_its_path(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(PIPELINE.replace("load(self, config)", "load(self, config_path: Path)"))
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    outcome = reactor("render", "--set", "width=3", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.err.startswith("error: width can't be set: MyModel.load() takes the path of a config file")
    assert not (tmp_path / "clip.mp4").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--seconds", "0"), 2, "error: --seconds is 0, and a clip has a length\n"),
        (("--fps", "0"), 2, "error: --fps is 0, not a rate above 0 and up to 1000\n"),
        (("--out", "clip.avi"), 2, "error: clip.avi: .avi files can't be written\n"),
        (("--script", "none.yaml"), 2, "error: none.yaml can't be read: No such file or directory\n"),
        (("--set", "fails=1"), 4, "error: load() failed: FileNotFoundError: weights.pt\n  --> pipeline.py:20:13\n"),
        (("--set", "fails_at=5"), 1, "error: the model failed: ValueError: out of ideas\n  --> pipeline.py:31:17\n"),
    ],
    ids=["length", "rate", "kind", "script", "load", "model"],
)
def test_an_error_has_its_exit_code_and_place(
    arguments: tuple[str, ...], code: int, message: str, project: Path
) -> None:
    outcome = reactor("render", *arguments, cwd=project)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.removeprefix("loading weights\n").startswith(message)
    # It is printed once.
    assert outcome.err.count(message.splitlines()[0].removeprefix("error: ")) == 1


def test_entries_without_an_effect_are_warnings(project: Path) -> None:
    entry = "event: set_brightness, data: {brightness: 0.5}"
    (project / "inputs.yaml").write_text(f"- {{at: 1s, {entry}}}\n- {{at_step: 90, {entry}}}\n")
    outcome = reactor("render", "--seconds", "1", "--script", "inputs.yaml", cwd=project)
    assert outcome.code == 0
    assert "inputs.yaml:1:19: it has no effect, because the clip ends at 1 s" in outcome.err
    assert re.search(r"inputs.yaml:2:24: it had no effect, because the clip has \d+ steps", outcome.err)


CAMERA = """
from reactor_runtime import Input, InputState, Output, ReactorPipeline, Video

class MyInput(Input):
    camera: Video

class MyOutput(Output):
    main_video: Video

class MyModel(ReactorPipeline):
    state: InputState
    input: MyInput

    async def inference(self):
        while True:
            [frame] = await self.input.camera.read()
            yield MyOutput(main_video=frame)
"""


def test_the_video_of_a_camera_is_not_replaced(project: Path) -> None:
    (project / "pipeline.py").write_text(CAMERA)
    camera = video(project / "clip.mp4", frames=3).read_bytes()
    (project / "inputs.yaml").write_text("- camera: clip.mp4\n")
    outcome = reactor("render", "--script", "inputs.yaml", cwd=project)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, "error: clip.mp4 would replace an input of the same name")
    assert (project / "clip.mp4").read_bytes() == camera
    assert reactor("render", "--script", "inputs.yaml", "--out", "new.mp4", "--seconds", "1", cwd=project).code == 0


def rendering(project: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Render ten minutes, or until the end of the block."""
    return running_reactor("render", "--seconds", "600", *arguments, cwd=project)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.02)


def test_an_interrupt_ends_the_clip_after_the_step(project: Path) -> None:
    with rendering(project, "--set", "step_s=0.02") as process:
        wait_for(project / "running")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert "stopping after this step; Ctrl-C again stops at once" in err
    end_s, frames = re.findall(r"  ([\d.]+) s, (\d+) frames", out)[0]
    assert len(frames_of(project / "clip.mp4")) == int(frames) > 0
    assert duration_s(project / "clip.mp4") == pytest.approx(float(end_s), abs=0.01)


def test_a_second_interrupt_ends_a_step_that_hangs_and_the_file_plays(project: Path) -> None:
    with rendering(project, "--set", "sleeps_at=100", "--out", "clip.mkv") as process:
        wait_for(project / "asleep")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        for line in process.stderr:
            if "Ctrl-C again" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert len(frames_of(project / "clip.mkv")) > 80


def test_an_interrupt_while_the_model_loads_writes_nothing(project: Path) -> None:
    loads = PIPELINE.replace('print("loading weights")', 'Path("asleep").touch(); time.sleep(600)')
    (project / "pipeline.py").write_text(loads)
    with rendering(project) as process:
        wait_for(project / "asleep")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert not (project / "clip.mp4").exists()


def test_a_terminal_shows_a_bar_with_the_time_left(project: Path) -> None:
    with terminal("render", "--seconds", "2", "--set", "step_s=0.05", cwd=project) as screen:
        screen.wait_for("loading weights")
        screen.wait_for("rendering")
        screen.wait_for("left")
        screen.wait_for("20 frames")
        assert screen.ended() == 0
