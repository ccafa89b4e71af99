"""The input tracks of a session: which client sends each of them, and how much came, was read and was lost.

`inbound.py` checks the media and finds its track; the engine decodes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reactor_runtime.server.sessions.input_demand import InputDemand

# After so long without a frame or sound of its source, another client may send an input track.
SOURCE_S = 5.0


class InputTracks:
    """Decide which client is the source of each input track, and count media; clients are known by their id."""

    def __init__(self) -> None:
        self.demand = InputDemand()
        # The source of each track, and when its newest media came.
        self._sources: dict[str, tuple[str, float]] = {}
        # When a client last got the answer that another one is the source of a track.
        self._answered: dict[tuple[str, str], float] = {}
        # Frames and pieces of sound, by track: those since the last request for steps, and those that were dropped
        # because the model read too slowly.
        self._came: dict[str, int] = {}
        self._lost: dict[str, int] = {}

    def claim(self, track: str, client: str, now: float) -> bool:
        """Make a client the source of a track; return False while another one is, until that has been silent."""
        source, at = self._sources.get(track, (client, now))
        if source != client and now < at + SOURCE_S:
            return False
        self._sources[track] = client, now
        return True

    def answers_refusal(self, track: str, client: str, now: float) -> bool:
        """Return whether to answer media of a client that is not the source: once for many, as they come."""
        key = client, track
        if now < self._answered.get(key, -math.inf) + SOURCE_S:
            return False
        self._answered[key] = now
        return True

    def forget(self, client: str) -> None:
        """Free the tracks of a client that has left."""
        self._sources = {track: source for track, source in self._sources.items() if source[0] != client}
        self._answered = {key: at for key, at in self._answered.items() if key[0] != client}

    def record_media(self, track: str) -> None:
        """Count a frame or a piece of sound for the next request for steps."""
        self._came[track] = self._came.get(track, 0) + 1

    def missing_media(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return how many came of each track of which fewer than wanted have come since the last call."""
        came, self._came = self._came, {}
        return {track: came.get(track, 0) for track, count in wanted.items() if came.get(track, 0) < count}

    def record_loss(self, track: str, count: int) -> None:
        """Count what was dropped because the model read too slowly."""
        self._lost[track] = self._lost.get(track, 0) + count

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the rates since the last call and the losses, as fields of `reactor.stats`; only those with values."""
        fields: dict[str, dict[str, Any]] = {"inputs": self.demand.rates(), "inputs_lost": dict(self._lost)}
        return {name: values for name, values in fields.items() if values}
