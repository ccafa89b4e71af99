"""`reactor run --record-video`: JPEGs of all frames, whatever clients are sent, and replays that compare them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from reactor_runtime.client import Frame
from reactor_runtime.media import jpeg
from reactor_runtime.media.quality import psnr
from reactor_runtime.recording.file import SessionRecording, read_recording
from reactor_runtime.recording.pieces import OWN_QUALITY
from tests.cli.command import reactor
from tests.server.running import serving, write_project
from tests.server.session_client import several, visiting

MODEL = """
class MyModel(ReactorPipeline):
    state: InputState
    output: MyOutput
    fps = 60

    def inference(self):
        for number in range(10_000):
            canvas = self.output.empty((64, 96, 3)) if number % 2 else gray(0, 64, 96)
            canvas[:] = 100 + number % 50
            canvas[:32] += np.random.randint(0, 9, (32, 96, 3), np.uint8)
            yield canvas
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


async def recorded(
    project: Path, *options: str, codecs: Sequence[str] | None = None
) -> tuple[SessionRecording, list[Frame]]:
    """Return the recording of a session, and the frames that its client got."""
    with serving(project, "--record", str(project / "sessions"), *options) as server:
        async with visiting(server.url) as session:
            if codecs is not None:
                session.view(codecs=list(codecs))
            async with contextlib.aclosing(session.frames()) as received:
                frame = await anext(received)
                # Those that were encoded before the server got the choice are dropped.
                while codecs is not None and is_jpeg(frame):
                    frame = await anext(received)
                frames = [frame, *[await anext(received) for _ in range(59)]]
        server.wait_for("recorded the session file=")
    (file,) = (project / "sessions").iterdir()
    return read_recording(file), frames


def is_jpeg(frame: Frame) -> bool:
    return frame.data.startswith(b"\xff\xd8")


def tables(file: bytes) -> dict[int, list[int]]:
    """Return the quantization tables of a JPEG, which tell its quality."""
    with Image.open(io.BytesIO(file)) as image:
        assert isinstance(image, JpegImageFile)
        return image.quantization


def jpegs(recording: SessionRecording, quality: int = jpeg.QUALITY) -> dict[int, bytes]:
    """Return the recorded JPEGs of the track, by the number of the frame."""
    found = {}
    for frame in recording.frames():
        assert isinstance(frame.content, bytes)
        assert (frame.track, frame.quality) == ("main_video", quality)
        found[frame.frame] = frame.content
    return found


@pytest.mark.parametrize(
    ("options", "codecs"), [((), None), ((), ["raw"]), (("--codec", "always"), None)], ids=["jpeg", "raw", "h264"]
)
async def test_the_jpeg_of_each_frame_is_recorded_whatever_a_client_is_sent(
    project: Path, options: tuple[str, ...], codecs: list[str] | None
) -> None:
    recording, frames = await recorded(project, "--record-video", *options, codecs=codecs)
    found = jpegs(recording)
    # Those of the steps that had begun when the client left were not sent, the last but one perhaps.
    assert len(recording.outputs) - 2 <= len(found) <= len(recording.outputs)
    assert sorted(found) == list(range(len(found)))
    assert len(frames) == 60
    # A busy machine may lower the quality of later ones.
    equal = [frame for frame in frames if is_jpeg(frame) and tables(frame.data) == tables(found[frame.seq])]
    assert all(np.array_equal(jpeg.decode(found[frame.seq]), frame.array) for frame in equal)
    others = [frame for frame in frames if not is_jpeg(frame)]
    assert all(psnr(jpeg.decode(found[frame.seq]), frame.array) > 30 for frame in others)
    assert equal or codecs == ["raw"]


async def test_a_replay_is_equal_or_compared_with_what_clients_saw(project: Path) -> None:
    recording, _ = await recorded(project, "--record-video")
    file = str(recording.path)
    assert reactor("replay", file, cwd=project).out.startswith("equal: ")
    code = (project / "pipeline.py").read_text()
    (project / "pipeline.py").write_text(code.replace("(0, 9, (32", "(0, 8, (32"))
    outcome = reactor("replay", file, "--tolerance", "30", "--diff", str(project / "diff.html"), cwd=project)
    assert outcome.code == 0, outcome.err
    assert re.search(
        r"accepted: the lowest PSNR is (3|4)\d\.\d dB(; [12] frames? without a JPEG not compared)?$", outcome.out
    )
    assert "PSNR of frames 0 to" in (project / "diff.html").read_text()
    assert reactor("replay", file, "--tolerance", "60", cwd=project).code == 1


async def test_all_pixels_are_recorded_by_choice_also_of_arrays_that_are_not_copied(project: Path) -> None:
    recording, frames = await recorded(project, "--record-video=lossless", codecs=["raw"])
    found = {frame.frame: frame.content for frame in recording.frames()}
    assert len(found) == len(recording.outputs)
    assert all(np.array_equal(found[frame.seq], frame.array) for frame in frames)


BATCHES = """
class Both(Output):
    left: Video
    right: Video


class MyState(InputState):
    width: int = 64


class MyModel(ReactorPipeline):
    state: MyState
    output: Both
    fps = 60

    @event(name="cut")
    def cut(self):
        self.output.flush()

    def inference(self):
        for number in range(10_000):
            batch = np.stack([gray((4 * number + place) % 200, 48, self.state.width) for place in range(4)])
            yield Both(batch, 255 - batch)
"""


async def test_every_frame_of_two_tracks_is_recorded_with_batches_a_flush_and_another_size(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", BATCHES)
    with serving(project, "--record", str(tmp_path / "sessions"), "--record-video") as server:
        async with visiting(server.url) as session:
            await several(session.frames("right"), 10)
            await session.send("cut")
            await several(session.frames("right"), 10)
            await session.send("set_width", width=128)
            await several(session.frames("right"), 20)
        server.wait_for("recorded the session file=")
    (file,) = (tmp_path / "sessions").iterdir()
    recording = read_recording(file)
    made = {track: sum(len(output.hashes[track]) for output in recording.outputs) for track in ("left", "right")}
    found = list(recording.frames())
    # Those of the last step were not sent, perhaps.
    assert len(found) >= sum(made.values()) - 2 * 4
    for frame in found:
        assert isinstance(frame.content, bytes)
        level = frame.frame % 200
        assert abs(jpeg.decode(frame.content).mean() - (level if frame.track == "left" else 255 - level)) < 3
    assert {jpeg.read_header(frame.content).width for frame in found if isinstance(frame.content, bytes)} == {64, 128}


FILES = """
from reactor_runtime.media import jpeg


class MyModel(ReactorPipeline):
    state: InputState
    output: MyOutput
    fps = 60

    def inference(self):
        noise = np.random.default_rng(1).integers(0, 200, (64, 96, 3), np.uint8)
        for number in range(10_000):
            noise[0] = number % 50
            file = jpeg.encode(noise, quality=95)
            # As of a camera that writes a thumbnail.
            yield file[:2] + b"\\xff\\xe1\\xea\\x62" + bytes(60_000) + file[2:]
"""


async def test_a_frame_that_is_a_file_is_recorded_as_it_is(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", FILES)
    recording, frames = await recorded(project, "--record-video")
    found = jpegs(recording, OWN_QUALITY)
    assert min(map(len, found.values())) > 60_000
    assert sorted(found) == list(range(len(recording.outputs)))
    # A busy machine may lower the quality: then a frame is encoded again.
    own = [frame for frame in frames if len(frame.data) > 60_000]
    assert own
    assert all(np.array_equal(jpeg.decode(found[frame.seq]), frame.array) for frame in own)
    # The pixels of a replay are compared as they are.
    code = project / "pipeline.py"
    code.write_text(code.read_text().replace("noise[0] =", "noise[0, 0] = 90; noise[0, 1:] ="))
    outcome = reactor("replay", str(recording.path), "--tolerance", "35", cwd=project)
    assert outcome.code == 0, outcome.out
