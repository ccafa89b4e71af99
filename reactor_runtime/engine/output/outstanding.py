"""Outstanding bundles: handed over, and neither shown nor dropped yet."""

from __future__ import annotations

from dataclasses import dataclass

# Bundles that the encoder threads work on. One more that waits for a thread keeps them busy; others would only age.
ENCODING = 2
MOST_LATE = ENCODING + 1
MOST_GROWN = 50


@dataclass(frozen=True, slots=True)
class OutstandingBundle:
    """Hold a bundle that was handed over; only the first bundle of a step has the `compute_s` of the step.

    An `alone` bundle is sound without a frame.
    """

    due: float
    handed_over: float
    compute_s: float | None
    alone: bool = False


class Outstanding:
    """Limit the bundles that wait for their due time to `buffer_size`, and late ones to three.

    Frames and sound alone are counted apart. Belongs to the model's thread.
    """

    def __init__(self, most: int) -> None:
        self._most = self.most_frames = most
        self._bundles: dict[int, OutstandingBundle] = {}

    def __len__(self) -> int:
        return len(self._bundles)

    def add(self, number: int, bundle: OutstandingBundle) -> None:
        self._bundles[number] = bundle

    def take(self, number: int) -> OutstandingBundle | None:
        """Remove and return a bundle; None if it is not outstanding, as one of a former session."""
        return self._bundles.pop(number, None)

    def clear(self) -> None:
        """Start a session: nothing is outstanding, and the room is `buffer_size` again."""
        self._bundles.clear()
        self.most_frames = self._most

    def set_most(self, most: int) -> None:
        """Change `buffer_size`."""
        self._most = self.most_frames = most

    def make_room(self, batch: int, *, batches: int = 2) -> None:
        """Raise the limit to one batch of so many frames, or to several, at most 50 frames; the limit never falls."""
        room = batch if batches == 1 else min(batches * batch, MOST_GROWN)
        self.most_frames = max(self.most_frames, room)

    def full(self, now: float, *, alone: bool = False, more: int = 0) -> bool:
        """Return whether as many bundles as allowed, and `more`, wait for their due time, or are late."""
        dues = [bundle.due for bundle in self._bundles.values() if bundle.alone == alone]
        late = sum(due < now for due in dues)
        return late >= MOST_LATE or len(dues) - late >= (self._most if alone else self.most_frames) + more
