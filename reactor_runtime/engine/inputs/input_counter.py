"""Counts of an input track, for the sending client: frames that arrived and frames that the model read."""

from __future__ import annotations

from dataclasses import replace

from reactor_runtime.authoring.tracks.input_buffer import ReadCounts
from reactor_runtime.clock import Clock
from reactor_runtime.ipc.messages import InputsTaken

MIN_INTERVAL_S = 0.25


class InputCounter:
    """Count from the start of each session; a new frame returns the counts, at most four times a second."""

    def __init__(self, track: str, reads: ReadCounts, clock: Clock) -> None:
        self._track = track
        self._reads = reads
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Count from zero."""
        self._came = 0
        self._before = replace(self._reads)
        self._due = self._clock.now()

    def count_frame(self, session: str) -> InputsTaken | None:
        """Count a frame that arrived; return the counts if 0.25 s have passed since the last ones, else None."""
        self._came += 1
        now = self._clock.now()
        if now < self._due:
            return None
        self._due = now + MIN_INTERVAL_S
        taken, missed = self._reads.taken - self._before.taken, self._reads.missed - self._before.missed
        return InputsTaken(session, self._track, now, self._came, taken, missed)
