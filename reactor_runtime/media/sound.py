"""How long a moment lasts that has sound, and where on the time line each piece of a track's sound begins."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_PIECE_S = 0.5  # of sound alone: what a flush or a newcomer has to wait for
FORGIVEN_S = 0.020  # a late piece keeps its place: clients have that much in hand, a gap would be heard
ROUNDING = 0.02  # of a frame: sound that nearly lasts as long as its frame is meant to, and the frame follows it
END_TO_END_S = 0.005


def length_s(durations_s: Sequence[float], interval_s: float) -> float:
    """Tell how long a frame lasts with its sound, one duration a track: its interval, or the sound if that is longer.

    Sound that is a little shorter, as rounding to samples makes it, sets the length too: frames follow the sound, so
    that no gap of a sample or two opens between its pieces.
    """
    longest = max(durations_s)
    if longest < interval_s * (1 - ROUNDING):
        return interval_s
    # The first track is the measure where another differs by its rounding only: following now the one, now the other
    # would drift away from both.
    return durations_s[0] if durations_s[0] >= longest * (1 - ROUNDING) else longest


class SoundLine:
    """Give each piece of one track the time it begins at: where the one before it ends, counted in samples.

    Counting keeps the pieces end to end for hours. A piece whose moment is due 5 ms earlier or later than that begins
    with its moment: the model was late, was flushed, or gave less sound than its frames last.
    """

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._began = 0.0
        self._samples: int | None = None

    def next(self, due: float, samples: int) -> float:
        """Return when a piece of `samples` begins whose moment is due at `due`."""
        at = due if self._samples is None else self._began + self._samples / self.sample_rate
        if self._samples is None or abs(at - due) > END_TO_END_S:
            self._began, self._samples, at = due, 0, due
        self._samples += samples
        return at

    def reset(self) -> None:
        """Forget the pieces so far: the next one begins with its moment."""
        self._samples = None


def pieces_of(durations_s: Sequence[float]) -> int:
    """Tell in how many pieces sound alone is cut: none is longer than half a second."""
    return max(1, -int(-max(durations_s) // LONGEST_PIECE_S))
