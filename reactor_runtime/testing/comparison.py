"""Comparison of a replay with its recording: frames and sound by their hashes, and messages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from reactor_runtime.recording.entries import MessageEntry, OutputEntry, hash_pieces
from reactor_runtime.recording.file import SessionRecording
from reactor_runtime.recording.pieces import Metadata, Pieces

MOST_DIFFERENCES = 1000

OnOutput = Callable[[int, Pieces], object]


@dataclass(frozen=True, slots=True)
class Difference:
    """Describe a difference in a step; `frame` is the number of the frame, or piece of sound, in its track.

    `track` is "" for differences in messages and events.
    """

    step: int
    track: str
    frame: int
    text: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.text}"


@dataclass(slots=True)
class Replay:
    """Hold the result of a replay: its steps, and the first 1,000 differences from the recording.

    `frames` counts the frames and pieces of sound that were compared, `different` those of them that differ, and
    `outdated` those of the different ones that other code made: the code changed later in the recorded session.
    `others` counts all other differences: in messages, events, steps, and the numbers of frames.
    """

    steps: int = 0
    frames: int = 0
    different: int = 0
    outdated: int = 0
    others: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Return the number of all differences."""
        return self.different + self.others

    def add_frame(self, step: int, track: str, frame: int, text: str) -> None:
        """Count a frame or a piece of sound that differs."""
        self.different += 1
        self._keep(Difference(step, track, frame, text))

    def add_other(self, step: int, text: str, *, track: str = "", frame: int = 0) -> None:
        """Count any other difference."""
        self.others += 1
        self._keep(Difference(step, track, frame, text))

    def _keep(self, difference: Difference) -> None:
        if len(self.differences) < MOST_DIFFERENCES:
            self.differences.append(difference)


class Comparison:
    """Compare output and messages, as they come, with those of a recording.

    `on_output` is called with the step and the arrays of each output that the recording has. `volatile` has
    the fields of messages that are not compared, by type.
    """

    def __init__(
        self, recording: SessionRecording, on_output: OnOutput, volatile: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self.result = Replay()
        self._steps = recording.steps
        self._code_changed_at = max((change.step for change in recording.code_changes), default=0)
        self._outputs = recording.outputs
        self._messages = recording.messages
        self._on_output = on_output
        self._volatile = volatile or {}
        # How many outputs have been compared.
        self.outputs = 0
        self._sent = 0
        self._frames: dict[str, int] = defaultdict(int)

    @property
    def has_all_outputs(self) -> bool:
        return self.outputs == len(self._outputs)

    def compare_output(self, step: int, pieces: Pieces, metadata: Metadata) -> None:
        """Compare the next output; do nothing if the recording has no more."""
        if self.has_all_outputs:
            return
        recorded = self._outputs[self.outputs]
        self.outputs += 1
        self._compare_step(step, recorded)
        self._compare_metadata(step, recorded, metadata)
        self._compare_tracks(step, recorded, hash_pieces(pieces))
        self._on_output(step, pieces)

    def _compare_step(self, step: int, recorded: OutputEntry) -> None:
        if step != recorded.step:
            self.result.add_other(step, f"the output of step {recorded.step} came in step {step}")

    def _compare_metadata(self, step: int, recorded: OutputEntry, metadata: Metadata) -> None:
        for track in recorded.metadata | metadata:
            before, now = recorded.metadata.get(track, []), metadata.get(track, [])
            for index, (was, is_now) in enumerate(zip_longest(before, now)):
                if was != is_now:
                    number = self._frames[track] + index
                    text = f"the metadata of frame {number} of {track} is {_shown(is_now)}, not {_shown(was)}"
                    self.result.add_other(step, text, track=track, frame=number)

    def _compare_tracks(self, step: int, recorded: OutputEntry, hashes: dict[str, list[str]]) -> None:
        for track in [*recorded.hashes, *(track for track in hashes if track not in recorded.hashes)]:
            before, now = recorded.hashes.get(track, []), hashes.get(track, [])
            if len(before) != len(now):
                text = f"{track} has {len(now)} frames, not {len(before)}"
                self.result.add_other(step, text, track=track, frame=self._frames[track])
            for was, is_now in zip(before, now, strict=False):
                self._compare_frame(step, track, was, is_now)

    def _compare_frame(self, step: int, track: str, was: str, is_now: str) -> None:
        number = self._frames[track]
        self._frames[track] += 1
        self.result.frames += 1
        if was == is_now:
            return
        self.result.outdated += step <= self._code_changed_at
        old, new = was.partition(":")[0], is_now.partition(":")[0]
        why = "differs" if old == new else f"is {new}, not {old}"
        self.result.add_frame(step, track, number, f"frame {number} of {track} {why}")

    def compare_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        """Compare the next message of the model."""
        recorded = self._messages[self._sent] if self._sent < len(self._messages) else None
        self._sent += 1
        if recorded is not None and (recorded.type, self._compared(recorded.type, recorded.data)) != (
            kind,
            self._compared(kind, data),
        ):
            self.result.add_other(step, f"message {kind} {data} was {recorded.type} {recorded.data}")
        # Those of the last step may have been sent after the end of the recording.
        elif recorded is None and step < self._steps:
            self.result.add_other(step, f"message {kind} {data} is new")

    def _compared(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        volatile = self._volatile.get(kind, ())
        return {name: value for name, value in data.items() if name not in volatile}

    def finish(self) -> None:
        """Add a difference for missing outputs, and for each recorded message that was not sent."""
        missing_outputs = len(self._outputs) - self.outputs
        if missing_outputs:
            step = self._outputs[self.outputs].step
            self.result.add_other(step, f"{missing_outputs} of {len(self._outputs)} outputs are missing")
        for missing in self._messages[self._sent :]:
            if _is_expected(missing, self._steps):
                self.result.add_other(missing.step, f"message {missing.type} {missing.data} was not sent")


def _shown(metadata: dict[str, Any] | None) -> str:
    """Return metadata for people, shortened."""
    return "none" if metadata is None else f"{json.dumps(metadata):.100}"


def _is_expected(message: MessageEntry, steps: int) -> bool:
    # Those of the last step may have been sent while the session ended.
    return message.step < steps
