"""Tracks: the named streams of pictures and sound an author declares as fields of an `Output`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, dataclass_transform, get_args, get_origin

from reactor_runtime.authoring.annotations import Scope, is_class_variable, own_annotations
from reactor_runtime.authoring.records import Record, is_clone, merged

_TRACKS = "__reactor_tracks__"
_LONGEST_NAME_BYTES = 255  # the wire counts them in one byte

Kind = Literal["video", "audio"]
Direction = Literal["out", "in"]


if TYPE_CHECKING:
    # What goes where a track is annotated is an array of some library's: to type checkers, a protocol without members.
    from abc import ABCMeta
    from typing import Protocol as _Payload

    class _Sound(ABCMeta):
        sample_rate: int
else:
    _Payload, _Sound = object, type


class Video(_Payload):
    """Annotate a track of pictures: uint8 RGB, `(H, W, 3)` or a batch `(N, H, W, 3)`, NumPy array or torch tensor."""


class Audio(_Payload, metaclass=_Sound):
    """Annotate a track of sound: int16, `(channels, samples)`, or `(samples,)` for mono.

    Derive a class with another `sample_rate` for sound that isn't 48 kHz.
    """

    if not TYPE_CHECKING:
        sample_rate = 48_000

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            rate = cls.sample_rate
            if isinstance(rate, bool) or not isinstance(rate, int) or rate <= 0:
                raise TypeError(f"{cls.__name__}.sample_rate must be a whole number of samples a second, not {rate!r}")


_VIDEO: type = Video
_AUDIO: type = Audio


@dataclass(frozen=True, slots=True)
class TrackSpec:
    """Describe one track, as clients are told about it."""

    name: str
    kind: Kind
    direction: Direction
    sample_rate: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the track for `reactor.welcome`."""
        described: dict[str, Any] = {"name": self.name, "kind": self.kind, "direction": self.direction}
        return described if self.sample_rate is None else {**described, "sample_rate": self.sample_rate}


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Output(Record):
    """Declare what the model sends: each field annotated `Video` or `Audio` is a track of that name.

    Subclasses are dataclasses by themselves. Two outputs are equal only if they are the same object.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_clone(cls):
            return
        for name in ("__eq__", "__hash__"):  # in the class itself, where @dataclass leaves them: arrays don't compare
            if name not in vars(cls):
                setattr(cls, name, vars(object)[name])
        setattr(cls, _TRACKS, _own_tracks(cls, "out"))


def tracks_of(cls: type[Output]) -> tuple[TrackSpec, ...]:
    """List the tracks of an Output class, those of its parents first."""
    tracks: dict[str, TrackSpec] = merged(cls, _TRACKS)
    return tuple(tracks.values())


def payloads(output: Output) -> dict[str, Any]:
    """Return what an output carries, by track."""
    return {name: getattr(output, name) for name in merged(type(output), _TRACKS)}


def join_tracks(model: str, outputs: Iterable[type[Output]]) -> tuple[TrackSpec, ...]:
    """List the tracks of several Output classes once each; TypeError where they disagree about one."""
    joined: dict[str, tuple[TrackSpec, type[Output]]] = {}
    for cls in outputs:
        for track in tracks_of(cls):
            other, owner = joined.setdefault(track.name, (track, cls))
            if other != track:
                raise TypeError(
                    f"{model}: track {track.name!r} is {_described(other)} in {owner.__name__} "
                    f"and {_described(track)} in {cls.__name__}; rename one of them, "
                    f"or annotate {model} with the one it uses: output: {owner.__name__}"
                )
    return tuple(track for track, _ in joined.values())


def _described(track: TrackSpec) -> str:
    return track.kind if track.sample_rate is None else f"{track.kind} at {track.sample_rate} Hz"


def _own_tracks(cls: type, direction: Direction) -> dict[str, TrackSpec]:
    scope = Scope.of_definition(cls)
    tracks: dict[str, TrackSpec] = {}
    for name, annotation in own_annotations(cls).items():
        where = f"{cls.__name__}.{name}"
        hint = scope.resolve(annotation, where)
        if not is_class_variable(hint) and _is_track(hint, where):
            tracks[name] = _track(name, hint, direction, where)
    return tracks


def _is_track(hint: Any, where: str) -> bool:
    if any(_is_kind(part) for part in get_args(hint)):
        raise TypeError(f"{where}: a track carries something in every output; annotate it Video or Audio, nothing else")
    return _is_kind(hint)


def _is_kind(hint: Any) -> bool:
    return isinstance(hint, type) and get_origin(hint) is None and issubclass(hint, _VIDEO | _AUDIO)


def _track(name: str, hint: Any, direction: Direction, where: str) -> TrackSpec:
    if len(name.encode()) > _LONGEST_NAME_BYTES:
        raise TypeError(f"{where[:80]}…: a track's name has at most {_LONGEST_NAME_BYTES} bytes")
    if issubclass(hint, _AUDIO):
        return TrackSpec(name, "audio", direction, hint.sample_rate)
    return TrackSpec(name, "video", direction, None)
