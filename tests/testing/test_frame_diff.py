from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video
from reactor_runtime.media import jpeg
from reactor_runtime.media.quality import psnr
from reactor_runtime.recording.configs import ReplayConfig
from reactor_runtime.recording.entries import EndEntry, FrameEntry
from reactor_runtime.recording.file import RecordingWriter, SessionRecording, read_recording
from reactor_runtime.testing.comparison import MOST_DIFFERENCES, Replay
from reactor_runtime.testing.frame_diff import FrameDiff
from reactor_runtime.testing.session_replay import replay_recording
from tests.testing.recorded import recorded


class Shown(Output):
    main_video: Video
    depth: Video


class Counting(ReactorPipeline):
    state: InputState
    fps = 30
    # The frames that a derived class changes, by how much.
    changes: dict[int, int] = {}
    size = 24

    def inference(self) -> Iterator[Any]:
        for number in range(1000):
            frame = np.full((16, self.size, 3), 100 + number % 50, np.uint8)
            changed = frame.copy()
            changed[:8] += np.uint8(self.changes.get(number, 0))
            yield Shown(main_video=changed, depth=frame)


def compared(model: type[Counting], directory: Path) -> FrameDiff:
    return replayed(model, directory)[0]


def replayed(model: type[Counting], directory: Path) -> tuple[FrameDiff, Replay]:
    with recorded(Counting, directory, with_video=True) as studio:
        studio.run(1.0)
    (file,) = directory.iterdir()
    recording = read_recording(file)
    diff = FrameDiff(recording)
    return diff, replay_recording(recording, model, ReplayConfig({}), on_output=diff.add_output)


def test_equal_frames_have_no_pairs(tmp_path: Path) -> None:
    diff = compared(Counting, tmp_path)
    assert {each.psnr for each in diff.similarities} == {math.inf}
    assert {each.track for each in diff.similarities} == {"main_video", "depth"}
    assert diff.worst == []


def test_the_frames_that_differ_most_are_kept_the_worst_first(tmp_path: Path) -> None:
    class Changed(Counting):
        changes = {number: number for number in range(3, 15)}

    diff = compared(Changed, tmp_path)
    worst = [pair.similarity for pair in diff.worst]
    assert [each.frame for each in worst] == [14, 13, 12, 11, 10, 9]
    assert {each.track for each in worst} == {"main_video"}
    assert worst[0].psnr == diff.lowest_psnr < worst[1].psnr < 40
    assert 0 < worst[0].ssim < 1
    assert int(diff.worst[0].replayed[0, 0, 0]) - int(diff.worst[0].recorded[0, 0, 0]) == 14


def test_frames_of_another_size_are_not_similar(tmp_path: Path) -> None:
    class Wider(Counting):
        size = 32

    diff = compared(Wider, tmp_path)
    assert diff.lowest_psnr == 0.0
    assert diff.worst[0].similarity.ssim == 0.0


class Changed(Counting):
    changes = dict.fromkeys(range(1000), 2)


def test_frames_with_the_demanded_psnr_are_accepted(tmp_path: Path) -> None:
    diff, result = replayed(Changed, tmp_path)
    assert result.different == len(diff.similarities) / 2 > 20
    assert diff.refusal(result, diff.lowest_psnr) == ""
    assert diff.refusal(result, diff.lowest_psnr + 1) == f"the lowest PSNR is {diff.lowest_psnr:.1f} dB"


def test_other_differences_are_not_accepted_however_many_frames_differ_before(tmp_path: Path) -> None:
    diff, result = replayed(Changed, tmp_path)
    for number in range(MOST_DIFFERENCES):
        result.add_frame(1, "main_video", number, "")
    result.add_other(2, "message nudged was not sent")
    assert len(result.differences) == MOST_DIFFERENCES
    assert diff.refusal(result, 0.0) == "not only frames differ"


def test_another_number_of_frames_is_not_accepted(tmp_path: Path) -> None:
    class Twice(Counting):
        def inference(self) -> Iterator[Any]:
            for shown in super().inference():
                yield Shown(main_video=np.stack([shown.main_video] * 2), depth=np.stack([shown.depth] * 2))

    diff, result = replayed(Twice, tmp_path)
    assert result.differences[0].text == "main_video has 2 frames, not 1"
    assert diff.refusal(result, 0.0) == "not only frames differ"


def test_frames_whose_pixels_were_not_recorded_are_not_accepted(tmp_path: Path) -> None:
    diff, result = replayed(Changed, tmp_path)
    result.add_frame(1, "main_video", len(diff.similarities), "")
    assert diff.refusal(result, 0.0).startswith("1 of what differs is sound, or frames that were left out")


def with_jpegs(directory: Path, left_out: Mapping[int, bytes | None]) -> SessionRecording:
    """Record as a server does: without the frames of `left_out`, or with another content of them."""
    with recorded(Counting, directory, with_video=True) as studio:
        studio.run(1.0)
    (file,) = directory.iterdir()
    lossless = read_recording(file)
    written = directory / "jpegs.mcap"
    with written.open("wb") as opened:
        writer = RecordingWriter(opened, lossless.header)
        for output in lossless.outputs:
            writer.write(output, 0)
        for frame in lossless.frames():
            assert not isinstance(frame.content, bytes)
            content = left_out.get(frame.frame, jpeg.encode(frame.content))
            if content is not None:
                writer.write(FrameEntry(frame.track, frame.frame, content, jpeg.QUALITY), 0)
        writer.write(EndEntry(lossless.steps), 0)
        writer.finish()
    return read_recording(written)


def compared_with(recording: SessionRecording) -> tuple[FrameDiff, Replay]:
    diff = FrameDiff(recording)
    result = replay_recording(recording, Changed, ReplayConfig({}), on_output=diff.add_output)
    return diff, result


def test_with_a_jpeg_the_replayed_frame_is_compared_as_a_client_would_see_it(tmp_path: Path) -> None:
    diff, result = compared_with(with_jpegs(tmp_path, {}))
    changed = np.full((16, 24, 3), 100, np.uint8)
    was = jpeg.decode(jpeg.encode(changed))
    changed[:8] += 2
    similarity = next(each for each in diff.similarities if each.track == "main_video")
    assert similarity.psnr == psnr(was, jpeg.decode(jpeg.encode(changed)))
    assert {each.psnr for each in diff.similarities if each.track == "depth"} == {math.inf}
    assert diff.refusal(result, diff.lowest_psnr) == ""


def test_a_frame_without_a_jpeg_is_accepted_and_counted_and_one_that_was_left_out_is_not(tmp_path: Path) -> None:
    diff, result = compared_with(with_jpegs(tmp_path / "unsent", {7: None, 9: None}))
    assert (diff.unsent, diff.refusal(result, 0.0)) == (2, "")
    diff, result = compared_with(with_jpegs(tmp_path / "left out", {7: b"", 9: None}))
    assert diff.unsent == 1
    assert diff.refusal(result, 0.0).startswith("1 of what differs is sound, or frames that were left out")


def test_a_damaged_jpeg_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"jpegs\.mcap is damaged at byte \d+, in /frames: "):
        compared_with(with_jpegs(tmp_path, {3: b"\xff\xd8 and no more"}))
