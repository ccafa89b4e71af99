"""What a client can say in text, as values: `codec` makes them out of JSON."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Event:
    """An event for the model. `data_json` is the compact JSON text of its data, valid and finite, not yet validated."""

    type: str
    data_json: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """All frames of the track up to `seq` have been shown."""

    track: str
    seq: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a pong with the same `t`."""

    t: int | float | str


@dataclass(frozen=True, slots=True)
class Here:
    """Somebody is there, though they send nothing to the model."""


@dataclass(frozen=True, slots=True)
class View:
    """All that this client wants to be sent, replacing its earlier wish; None is no limit and every track."""

    paused: bool = False
    max_fps: float | None = None
    tracks: tuple[str, ...] | None = None

    def among(self, tracks: Collection[str] | None) -> View:
        """Leave out the names of tracks that are not there; None: it is not known which are."""
        if self.tracks is None or tracks is None:
            return self
        return replace(self, tracks=tuple(track for track in tracks if track in self.tracks))

    def shows(self, track: str) -> bool:
        """Tell whether frames and sound of a track are wanted."""
        return not self.paused and (self.tracks is None or track in self.tracks)
