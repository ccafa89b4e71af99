"""How many frames a second the model takes from each input track, and how many a client should send."""

from __future__ import annotations

from typing import Any

from reactor_runtime.ipc.messages import InputsTaken

MARGIN = 1.25
# A client sends this many frames a second more than the model takes, for a model that becomes faster or reads again.
SPARE = 4.0
# If more than this share of its reads waited for a frame, the model takes all frames; a smaller share is jitter.
WAITS = 0.25


class InputDemand:
    """Keep the counts that the engine reports for the input tracks of a session, and return rates between two calls."""

    def __init__(self) -> None:
        self._newest: dict[str, InputsTaken] = {}
        self._since: dict[str, InputsTaken] = {}

    def record(self, taken: InputsTaken) -> None:
        """Keep the newest counts of a track."""
        self._newest[taken.track] = taken
        self._since.setdefault(taken.track, taken)

    def rates(self) -> dict[str, dict[str, Any]]:
        """Return rates since the last call for each track with a report; `wanted` is None where all is taken."""
        newest, since = self._newest, self._since
        # A track without a report now is measured from its next one.
        self._newest, self._since = {}, newest
        return {
            track: _rates_between(since[track], last) for track, last in newest.items() if last.at > since[track].at
        }


def _rates_between(since: InputsTaken, last: InputsTaken) -> dict[str, Any]:
    seconds = last.at - since.at
    came, taken, missed = last.came - since.came, last.taken - since.taken, last.missed - since.missed
    wanted = None if missed > WAITS * taken else MARGIN * taken / seconds + SPARE
    return {
        "came": round(came / seconds, 1),
        "taken": round(taken / seconds, 1),
        "wanted": None if wanted is None else round(wanted, 1),
    }
