"""The text messages that clients send, as values; `codec` decodes them from JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Event:
    """Send an event to the model; `data_json` is compact, valid JSON that is not yet checked against the contract."""

    type: str
    data_json: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledge all frames of the track up to `seq`, the last of which was shown `held_ms` after its receipt."""

    track: str
    seq: int
    held_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """Begin the video stream of the track anew."""

    track: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Request a pong with the same `t`."""

    t: int | float | str


@dataclass(frozen=True, slots=True)
class Here:
    """Reset the idle timeout without sending an event."""


@dataclass(frozen=True, slots=True)
class Reload:
    """Reload the project's files."""

    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Save a recording of the session up to now."""

    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Request `n` steps of a stepped session, with inputs before them.

    `data_json` is an object with the checked `state` and `commands`, or without. `media` has the number of frames or
    pieces of sound that came before for each input track. With `reset` the session begins anew before, with `seed`
    in the generators of random numbers.
    """

    n: int
    data_json: str
    media: Mapping[str, int]
    reset: bool = False
    seed: int | None = None
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Select the media that the client receives, in place of its earlier choice; None is no limit, or all tracks.

    `codecs` names the encodings of video that the client can decode besides the default one, best first; None keeps
    the last ones. `seat` is the one that a viewer wants to watch; None keeps the last.
    """

    paused: bool = False
    max_fps: float | None = None
    tracks: tuple[str, ...] | None = None
    codecs: tuple[str, ...] | None = None
    seat: int | None = None

    def among(self, tracks: Collection[str] | None) -> View:
        """Return the view with only those of its tracks that are in `tracks`; unchanged for None: not known yet."""
        if self.tracks is None or tracks is None:
            return self
        return replace(self, tracks=tuple(track for track in tracks if track in self.tracks))

    def shows(self, track: str) -> bool:
        """Return whether the client wants frames and sound of a track."""
        return not self.paused and (self.tracks is None or track in self.tracks)
