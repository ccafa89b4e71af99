"""The frames of a recording in the order in which they are shown: their outputs, their times, and the events between.

Here, a frame is all that one bundle shows and plays. Frames are numbered from 0, over all outputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.recording.entries import EventEntry, OutputEntry, name_of, shape_of
from reactor_runtime.recording.file import SessionRecording, StoredReload

MOST_MARKS = 500
MOST_LINES = 6
MOST_CHARACTERS = 80
# A frame of a block is not shown for longer because the model pauses after the block.
LONGEST = 2.0


@dataclass(frozen=True, slots=True)
class RecordedFrames:
    """Hold when each frame is shown, in seconds after the first, and where the frames of each output begin.

    `firsts` has the number of the first frame of each output, and the number of all frames.
    """

    times_s: Sequence[float]
    firsts: Sequence[int]

    @classmethod
    def of(cls, recording: SessionRecording, fps: float | None) -> Self:
        """Return the frames of a recording; with `fps` they are shown at most at that rate, as the server does."""
        counts = [_count_frames(output) for output in recording.outputs]
        firsts = list(accumulate(counts, initial=0))
        return cls(list(_times_s(recording.output_times_s, counts, fps)), firsts)

    def __len__(self) -> int:
        return self.firsts[-1]

    def of_output(self, output: int) -> range:
        """Return the numbers of the frames of an output."""
        return range(self.firsts[output], self.firsts[output + 1])


def marks_of(recording: SessionRecording, frames: RecordedFrames) -> list[tuple[int, str]]:
    """Return at most 500 frames, with the events, reloads and starts of a kept last minute that were recorded before.

    Neighbouring frames share a mark.
    """
    steps = [output.step for output in recording.outputs]
    width = -(-len(frames) // MOST_MARKS)

    def mark_at(line: tuple[int, str]) -> int:
        frame = frames.firsts[bisect_right(steps, line[0])]
        return min(frame, len(frames) - 1) // width * width

    inputs = [each for each in recording.inputs if not (isinstance(each, EventEntry) and each.skipped)]
    lines = [(each.step, _line_of(each)) for each in inputs]
    lines += [(each.since_step - 1, f"the last minute before step {each.step} was kept") for each in recording.kept]
    by_step = sorted(lines, key=lambda line: line[0])
    return [(frame, _describe([line for _, line in group])) for frame, group in groupby(by_step, mark_at)]


def blank_frame(recording: SessionRecording) -> dict[str, NDArray[Any]]:
    """Return a black image, or silence, of the size of the first recorded frame, for each of its tracks."""
    first = next(output for output in recording.outputs if output.hashes)
    shapes = {name_of(track): shape_of(hashes[0]) for track, hashes in first.hashes.items()}
    kinds = {3: np.uint8, 2: np.int16}
    return {track: np.zeros(shape, kinds[len(shape)]) for track, shape in shapes.items()}


def _line_of(entry: EventEntry | StoredReload) -> str:
    if isinstance(entry, EventEntry):
        return entry.name if entry.data_json == "{}" else f"{entry.name} {entry.data_json}"
    return f"the code changed: {', '.join(entry.changed)}" if entry.changed else "reload"


def _describe(lines: list[str]) -> str:
    shown = [line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…" for line in lines[:MOST_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, *([f"and {more} more"] if more else [])])


def _count_frames(output: OutputEntry) -> int:
    return max((len(hashes) for hashes in output.hashes.values()), default=0)


def _times_s(outputs_s: Sequence[float], counts: Sequence[int], fps: float | None) -> Iterator[float]:
    """Yield the time of each frame: not before its output was made, nor before the frame before it was shown."""
    lengths_s = [(after - at) / count for (at, after), count in zip(pairwise(outputs_s), counts, strict=False) if count]
    typical_s = median(lengths_s) if lengths_s else 0.0
    free_at_s = 0.0
    for index, (at, count) in enumerate(zip(outputs_s, counts, strict=True)):
        after = outputs_s[index + 1] if index + 1 < len(outputs_s) else at + typical_s * count
        for _ in range(count):
            shown_s = max(at - outputs_s[0], free_at_s)
            free_at_s = shown_s + (1 / fps if fps else min((after - at) / count, LONGEST * typical_s))
            yield shown_s
