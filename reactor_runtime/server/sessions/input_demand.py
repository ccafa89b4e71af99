"""How many pictures a second the model takes of each input track, and so how many are worth sending."""

from __future__ import annotations

from typing import Any

from reactor_runtime.ipc.messages import InputsTaken

MARGIN = 1.25
SPARE = 4.0  # a second: a model that has become quicker, or reads again, is to be noticed at once
WAITS = 0.25  # of what it took it had asked for before: that isn't jitter


class InputDemand:
    """Keep what the engine tells of a session's input tracks, and sum up what was between two calls of `figures`."""

    def __init__(self) -> None:
        self._newest: dict[str, InputsTaken] = {}
        self._since: dict[str, InputsTaken] = {}

    def hear(self, taken: InputsTaken) -> None:
        """Take how things stand."""
        self._newest[taken.track] = taken
        self._since.setdefault(taken.track, taken)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Give rates by track, of those for which something has come; None is wanted where all that comes is."""
        newest, since = self._newest, self._since
        self._newest, self._since = {}, newest  # of a track for which nothing came the next time counts from its return
        return {track: _between(since[track], last) for track, last in newest.items() if last.at > since[track].at}


def _between(since: InputsTaken, last: InputsTaken) -> dict[str, Any]:
    seconds = last.at - since.at
    came, taken, missed = last.came - since.came, last.taken - since.taken, last.missed - since.missed
    wanted = None if missed > WAITS * taken else MARGIN * taken / seconds + SPARE
    return {
        "came": round(came / seconds, 1),
        "taken": round(taken / seconds, 1),
        "wanted": None if wanted is None else round(wanted, 1),
    }
