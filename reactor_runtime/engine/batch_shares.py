"""What share of the time batches take, by the number of sessions in them, and how many sessions fit."""

from __future__ import annotations

from collections import deque
from statistics import median

# The fewest batches that count, and the most that are kept, for each number of sessions.
FEWEST = 5
BATCHES = 32
# A number of sessions that took too long, as while the machine was busy, is tried again after this time.
FORGOTTEN_S = 600.0


class BatchShares:
    """Estimate how many sessions fit in batches, which compute while the frames of the batch before are shown. Pure.

    Batches of more sessions take longer by amounts that differ between models, so they are measured one session after
    the other. `most` is the share of the time that batches may take.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        # The shares of the newest batches, by their number of sessions. Each session adds that of its batch.
        self._shares: dict[int, deque[float]] = {}
        # The median of each number of sessions at the last look at which it had all `BATCHES`.
        self._settled: dict[int, float] = {}
        # The number of sessions of the newest batch, and when each number was the newest at a look.
        self._newest = 0
        self._seen_at: dict[int, float] = {}

    def add_batch(self, sessions: int, share: float) -> None:
        """Add a batch that a session was in: how many were, and its duration as a share of that of its frames."""
        self._newest = sessions
        self._shares.setdefault(sessions, deque(maxlen=BATCHES * sessions)).append(share)

    def knows(self, sessions: int) -> bool:
        """Return whether batches of so many sessions were measured."""
        return len(self._shares.get(sessions, ())) >= FEWEST * sessions

    def fit(self, active: int, now: float) -> tuple[int, str]:
        """Return how many sessions fit while `active` ones play, and why not more; "" if one more has to be measured.

        Call it when one batch was measured.
        """
        self._forget(active, now)
        self._rescale()
        before, share, slope = 0, 0.0, 0.0
        for count in sorted(filter(self.knows, self._shares)):
            last, share = share, median(self._shares[count])
            if share > self._most:
                return max(1, before), f"the steps of {count} in a batch take {100 * share:.0f} % of the time"
            # The first session pays what all share, so its cost does not predict that of the second.
            slope = max(0.0, (share - last) / (count - before)) if before else 0.0
            before = count
        if active > before == 1:
            # They were never in one batch: their steps follow each other.
            slope = share
        more = max(before, active) + 1
        expected = share + slope * (more - before)
        if expected > self._most:
            fits = before + int((self._most - share) / slope)
            return fits, f"the steps of {more} in a batch would take {100 * expected:.0f} % of the time"
        return more, ""

    def _forget(self, active: int, now: float) -> None:
        self._seen_at = dict.fromkeys(self._shares, now) | self._seen_at | {self._newest: now}
        for count, seen_at in list(self._seen_at.items()):
            if count > active and now > seen_at + FORGOTTEN_S:
                del self._seen_at[count], self._shares[count]
                self._settled.pop(count, None)

    def _rescale(self) -> None:
        """Apply to all numbers of sessions that the model takes longer than before, by other values of its states."""
        newest = self._shares[self._newest]
        if len(newest) < BATCHES * self._newest:
            return
        share = median(newest)
        change = share / last if (last := self._settled.get(self._newest)) else 1.0
        self._settled = {count: change * each for count, each in self._settled.items()} | {self._newest: share}
        for count, shares in self._shares.items():
            if count != self._newest and change != 1.0:
                self._shares[count] = deque((change * each for each in shares), shares.maxlen)
