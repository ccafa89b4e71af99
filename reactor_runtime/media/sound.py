"""The duration of bundles with sound, and the start time of each piece of a track's sound."""

from __future__ import annotations

from collections.abc import Sequence

# The longest piece of sound without frames; a flush or a new client waits at most this long.
LONGEST_PIECE_S = 0.5
# A piece this late keeps its place: clients buffer that much, and a gap would be audible.
FORGIVEN_S = 0.020
# Part of a frame: the frame follows sound that is shorter than the frame by less than this.
ROUNDING = 0.02
END_TO_END_S = 0.005


def length_s(durations_s: Sequence[float], interval_s: float) -> float:
    """Return how long a frame lasts: its interval, or its longest sound if that is longer.

    Sound that is shorter by a rounding to samples sets the length too, so that no gap of a sample or two opens between
    pieces.
    """
    longest = max(durations_s)
    if longest < interval_s * (1 - ROUNDING):
        return interval_s
    # If two tracks differ by rounding only, the first one counts: alternating between them would drift from both.
    return durations_s[0] if durations_s[0] >= longest * (1 - ROUNDING) else longest


class SoundLine:
    """Return the start time of each piece of one track: the end of the previous piece, counted in samples.

    Counting samples keeps pieces end to end for hours. A piece whose bundle is due more than 5 ms earlier or later
    starts with its bundle: the model was late, was flushed, or emitted less sound than its frames last.
    """

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._began = 0.0
        self._samples: int | None = None

    def next(self, due: float, samples: int) -> float:
        """Return the start time of a piece of `samples` whose bundle is due at `due`."""
        at = due if self._samples is None else self._began + self._samples / self.sample_rate
        if self._samples is None or abs(at - due) > END_TO_END_S:
            self._began, self._samples, at = due, 0, due
        self._samples += samples
        return at

    def reset(self) -> None:
        """Start the next piece with its bundle."""
        self._samples = None


def pieces_of(durations_s: Sequence[float]) -> int:
    """Return into how many pieces sound without frames is cut; none is longer than half a second."""
    return max(1, -int(-max(durations_s) // LONGEST_PIECE_S))
