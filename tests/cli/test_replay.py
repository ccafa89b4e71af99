from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reactor_cli.commands.replay import LARGE_BYTES
from reactor_runtime.recording.entries import EndEntry, UploadEntry
from reactor_runtime.recording.file import RecordingWriter, read_recording
from tests.cli.command import Outcome, environment, python, reactor
from tests.cli.terminal import terminal
from tests.cli.test_render import wait_for
from tests.clips.reading import frames_of
from tests.server.running import scaffolded, write_project
from tests.timeouts import TIMEOUT_S

# Records a session with the project in the current directory.
RECORD = """
import sys
from pathlib import Path
from pipeline import MyModel
from tests.testing.recorded import recorded

size = {"width": 64, "height": 48}
with recorded(MyModel, Path(sys.argv[1]), size, with_video=len(sys.argv) > 2, project=Path()) as studio:
    studio.run(0.5)
    studio.send_event("set_brightness", brightness=0.5)
    studio.run(0.5)
"""


SEATS = """
class Player(InputState):
    level: int = 100

class MyModel(ReactorPipeline):
    seats = 2
    seat_state: Player
    fps = 30

    def inference(self):
        while True:
            yield [gray(seat.state.level + 100 * seat.number) for seat in self.seats]
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project with two recordings: hashes.mcap and frames.mcap."""
    project = scaffolded(tmp_path_factory.mktemp("replayed"))
    (project / "config.yml").write_text("width: 64\nheight: 48\n")
    for name, *options in (("hashes",), ("frames", "with_video")):
        made = python("-c", RECORD, str(project / name), *options, cwd=project)
        assert made.code == 0, made.err
        (file,) = (project / name).glob("*.mcap")
        file.rename(project / f"{name}.mcap")
    return project


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "project"))


def change(project: Path, before: str, after: str) -> None:
    code = (project / "pipeline.py").read_text()
    assert before in code
    (project / "pipeline.py").write_text(code.replace(before, after))


def replayed(project: Path, *arguments: str) -> Outcome:
    return reactor("replay", *arguments, cwd=project)


@pytest.mark.process
def test_an_unchanged_project_is_equal_and_its_clip_is_written(project: Path) -> None:
    outcome = replayed(project, "hashes.mcap", "--diff", "new/diff.html", "--out", "clip.mkv")
    assert outcome.code == 0, outcome.err
    assert re.fullmatch(r"equal: \d+ steps in [\d.]+ s, \d+ frames and pieces of sound\n", outcome.out)
    assert (project / "clip.mkv").stat().st_size > 1000
    page = (project / "new" / "diff.html").read_text()
    assert "frames and pieces of sound are equal" in page
    assert "The recording has hashes, not frames" in page


@pytest.mark.process
def test_changed_code_is_reported_with_the_first_frame_and_the_worst(project: Path) -> None:
    change(project, "self.state.brightness", "self.state.brightness * 0.9")
    outcome = replayed(project, "frames.mcap", "--diff", "diff.html")
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert lines[0] == "changed since the recording: pipeline.py"
    assert lines[1].startswith("different: ")
    assert lines[2] == "  step 1: frame 0 of main_video differs"
    page = (project / "diff.html").read_text()
    assert page.count('<div class="pair">') == 6
    assert "PSNR of frames 0 to" in page
    accepted = replayed(project, "frames.mcap", "--tolerance", "10")
    assert accepted.code == 0
    assert re.fullmatch(r"accepted: the lowest PSNR is \d+\.\d dB", accepted.out.splitlines()[-1])
    refused = replayed(project, "frames.mcap", "--tolerance", "60")
    assert refused.code == 1
    assert re.fullmatch(r"not accepted: the lowest PSNR is \d+\.\d dB", refused.out.splitlines()[-1])
    assert replayed(project, "hashes.mcap").code == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["pipeline.py"], "error: pipeline.py is not a recording of a session"),
        (
            ["hashes.mcap", "--tolerance", "40"],
            "error: hashes.mcap has hashes, not frames, so --tolerance can't be checked",
        ),
        (["hashes.mcap", "--diff", "frames.mcap"], "error: frames.mcap does not end in .html"),
    ],
    ids=["other file", "tolerance without frames", "two recordings"],
)
def test_what_can_not_be_replayed_is_a_usage_error(original: Path, arguments: list[str], error: str) -> None:
    outcome = replayed(original, *arguments)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, error)


@pytest.mark.process
def test_a_recording_that_was_cut_off_is_replayed_with_a_warning(project: Path) -> None:
    content = (project / "hashes.mcap").read_bytes()
    (project / "cut.mcap").write_bytes(content[: content.index(b'{"step":5,')])
    outcome = replayed(project, "cut.mcap")
    assert outcome.code == 0, outcome.err
    assert outcome.err.startswith("warning: cut.mcap lacks the end of its session")
    assert "only its first 4 steps are replayed" in outcome.err


@pytest.mark.process
def test_another_contract_is_refused_with_the_differences(project: Path) -> None:
    change(project, "    brightness: float = Input", "    glow: float = 1.0\n    brightness: float = Input")
    outcome = replayed(project, "hashes.mcap")
    assert outcome.code == 2
    assert "hashes.mcap was recorded with another contract: event set_glow is new" in outcome.err


@pytest.mark.process
def test_an_exception_of_the_model_has_its_line(project: Path) -> None:
    change(project, "            yield", "            1 / 0\n            yield")
    outcome = replayed(project, "hashes.mcap")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == "error: the model failed: ZeroDivisionError: division by zero"
    assert "pipeline.py:" in outcome.err.splitlines()[1]
    change(project, "            1 / 0\n            yield", "            return")
    outcome = replayed(project, "hashes.mcap")
    assert "MyModel.inference() never yields" in outcome.err.splitlines()[0]
    assert "pipeline.py:" in outcome.err.splitlines()[1]
    change(project, "            return", "            yield")
    change(project, "    def load(self", "    def unused(self")
    change(project, "    def inference", "    def load(self, config):\n        1 / 0\n\n    def inference")
    assert replayed(project, "hashes.mcap").code == 4


@pytest.mark.process
def test_a_terminal_shows_that_the_model_loads_and_how_much_is_replayed(project: Path) -> None:
    change(project, "import numpy as np", "import pathlib\nimport time\n\nimport numpy as np")
    wait = "            while not pathlib.Path('go').exists():\n                time.sleep(0.01)\n"
    change(project, "            yield", f"{wait}            yield")
    with terminal("replay", "hashes.mcap", cwd=project) as screen:
        screen.wait_for("loading")
        screen.wait_for("replaying")
        screen.wait_for("left")
        (project / "go").touch()
        screen.wait_for("frames and pieces of sound")
        assert screen.ended() == 0


@pytest.mark.process
def test_a_key_that_the_recorded_config_lacks_is_named(project: Path) -> None:
    outcome = replayed(project, "hashes.mcap", "--set", "widht=32", "--set", "other=1")
    assert outcome.code == 0, outcome.err
    assert "warning: --set widht=32: the config has no widht; did you mean width?\n" in outcome.err
    assert "other" not in outcome.err


@pytest.mark.process
def test_another_config_than_the_projects_is_shown_and_used_only_when_asked_for(project: Path) -> None:
    (project / "config.yml").write_text("width: 32\n")
    outcome = replayed(project, "hashes.mcap")
    assert outcome.code == 2
    assert outcome.err.splitlines()[:2] == [
        "error: hashes.mcap was recorded with another config: width was 64, is 32; height was 48, is missing",
        "hint: --config-from recording loads the model with it, if you trust the file; --config-from project with "
        "yours",
    ]
    given = replayed(project, "hashes.mcap", "--config-from", "recording")
    assert "\nequal: " in given.out, given.err
    own = replayed(project, "hashes.mcap", "--config-from", "project", "--set", "height=48")
    assert "frame 0 of main_video is 48x32x3, not 48x64x3" in own.out, own.err
    assert replayed(project, "hashes.mcap", "--set", "width=64", "--set", "height=48").code == 0


@pytest.mark.process
@pytest.mark.parametrize(("answer", "code"), [("y\r", 0), ("n\r", 2)])
def test_a_terminal_asks_whether_to_use_another_config(project: Path, answer: str, code: int) -> None:
    (project / "config.yml").write_text("width: 32\n")
    with terminal("replay", "hashes.mcap", cwd=project) as screen:
        screen.wait_for("width was 64, is 32")
        screen.wait_for("Only if you trust the file")
        screen.type(answer)
        screen.wait_for("equal" if code == 0 else "was recorded with another config")
        assert screen.ended() == code


@pytest.mark.process
def test_a_large_recording_is_named_while_it_is_read(project: Path) -> None:
    with (project / "large.mcap").open("wb") as file:
        writer = RecordingWriter(file, read_recording(project / "hashes.mcap").header)
        writer.write(UploadEntry("u-1", "film", "video/mp4", bytes(LARGE_BYTES)), 0)
        writer.write(EndEntry(0), 0)
    assert replayed(project, "large.mcap").err.startswith("reading large.mcap, 4 MB\n")


@pytest.mark.process
def test_a_recording_is_rendered_with_its_inputs_and_its_length(project: Path) -> None:
    change(project, "self.state.brightness", "self.state.brightness * 0.9")
    outcome = replayed(project, "hashes.mcap", "--out", "clip.mkv", "--set", "width=32")
    assert outcome.code == 1, outcome.err
    (frames,) = re.findall(r"different: \d+ steps in [\d.]+ s, \d+ of (\d+) frames", outcome.out)
    shown = frames_of(project / "clip.mkv")
    assert (len(shown), shown[0].array.shape) == (int(frames), (48, 32, 3))
    first, last = shown[0].array.mean(), shown[-1].array.mean()
    assert last < 0.8 * first


@pytest.mark.process
def test_the_clip_of_a_session_with_seats_shows_the_first(tmp_path: Path) -> None:
    project = write_project(tmp_path, SEATS)
    made = python("-c", RECORD.replace("brightness=0.5", "level=110").replace("brightness", "level"), "s", cwd=project)
    assert made.code == 0, made.err
    (file,) = (project / "s").iterdir()
    outcome = replayed(project, str(file), "--out", "clip.mkv", "--config-from", "recording")
    assert outcome.code == 0, outcome.err
    shown = [round(float(frame.array.mean())) for frame in frames_of(project / "clip.mkv")]
    assert (shown[0], shown[-1]) == (100, 110)


@pytest.mark.process
def test_an_interrupt_ends_the_clip_of_an_async_model_after_the_step(project: Path) -> None:
    change(project, "def inference", "async def inference")
    # All steps but the first two wait for the file `go`.
    wait = "            steps += 1\n            while steps > 2 and not pathlib.Path('go').exists():\n"
    change(project, "            yield", f"{wait}                time.sleep(0.01)\n            yield")
    change(project, "        while True:", "        steps = 0\n        while True:")
    change(project, "import numpy", "import pathlib\nimport time\nimport numpy")
    command = [sys.executable, "-m", "reactor_cli", "replay", "hashes.mcap", "--out", "clip.mp4"]
    with subprocess.Popen(command, cwd=project, env=environment(), stderr=subprocess.PIPE, encoding="utf-8") as process:
        wait_for(project / "clip.mp4")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        err = ""
        while "stopping" not in err:
            err += next(process.stderr)
        (project / "go").touch()
        _, more = process.communicate(timeout=TIMEOUT_S)
        err += more
    assert process.returncode == 130, err
    assert "stopping after this step; Ctrl-C again stops at once" in err
    assert "failed" not in err
    assert 0 < len(frames_of(project / "clip.mp4")) < len(read_recording(project / "hashes.mcap").outputs) * 4
