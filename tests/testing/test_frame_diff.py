from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video
from reactor_runtime.recording.file import read_recording
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
    with recorded(Counting, directory, with_video=True) as studio:
        studio.run(1.0)
    (file,) = directory.iterdir()
    recording = read_recording(file)
    diff = FrameDiff(recording)
    replay_recording(recording, model, on_output=diff.add_output)
    return diff


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
