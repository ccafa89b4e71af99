"""The playhead: which frame of a replay is due, and when."""

from __future__ import annotations

from collections.abc import Sequence

# A playhead that is later than this continues from where it is, at the recorded pace.
LATE_S = 0.1


class Playhead:
    """Advance over frames at their times, in seconds; a frame that is sought is due at once, also when paused."""

    def __init__(self, times_s: Sequence[float]) -> None:
        self._times_s = times_s
        self._end = len(times_s)
        # The frame to show next.
        self._next = 0
        self._sought = True
        # The time of the clock at which the first frame would have been shown; None if it has to be set anew.
        self._began: float | None = None

    @property
    def frame(self) -> int:
        """Return the frame that is shown, or about to be shown."""
        return self._next if self._sought else max(0, self._next - 1)

    @property
    def at_end(self) -> bool:
        """Return whether the last frame has been shown."""
        return self._next >= self._end

    def seek(self, frame: int) -> None:
        """Show this frame next; the nearest one for a number outside the recording."""
        self._next = max(0, min(frame, self._end - 1))
        self._sought = True
        self._began = None

    def end_at(self, frames: int) -> None:
        """End after this number of frames, because the replay makes no more of the recording."""
        self._end = min(self._end, frames)
        if self._sought:
            self.seek(self._next)

    def due(self, now: float, *, playing: bool, made: int) -> float | None:
        """Return when the next frame is due; None if it waits for the user, or is not among the first `made` ones."""
        if self._next >= made or not (playing or self._sought):
            self._began = None
            return None
        if self._sought or self._began is None:
            return now
        return self._began + self._times_s[self._next]

    def advance(self, now: float) -> int:
        """Return the next frame, which is shown now, and move to the one after it."""
        frame, self._next = self._next, self._next + 1
        at = self._times_s[frame]
        if self._began is None or now > self._began + at + LATE_S:
            self._began = now - at
        self._sought = False
        return frame
