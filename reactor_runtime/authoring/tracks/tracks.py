"""Tracks: the named streams of frames and sound that an author declares as fields of an `Output` or `Input`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, dataclass_transform, get_args, get_origin

from reactor_runtime.authoring.code.annotations import Scope, is_class_variable, own_annotations
from reactor_runtime.authoring.code.records import Record, is_clone, merged_over_mro, put_required_first
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.tracks.track_payload import TrackPayload
from reactor_runtime.authoring.values.fields import InputDeclaration, MessageDeclaration

_TRACKS = "__reactor_tracks__"
_METADATA = "__reactor_metadata__"
_TAKES_PAYLOADS = "__reactor_takes_payloads__"
_MADE = "__reactor_made__"
# The wire stores the length in one byte.
_LONGEST_NAME_BYTES = 255

Kind = Literal["video", "audio"]
Direction = Literal["out", "in"]


if TYPE_CHECKING:
    # For type checkers a track is a buffer in an input and accepts any library's array in an output. They ignore the
    # descriptor in a class with an explicit @dataclass; Video is a protocol without members, so any value is accepted
    # there.
    from typing import Generic, Protocol, TypeVar, overload

    import numpy as np

    from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
    from reactor_runtime.authoring.tracks.input_frame import InputFrame

    Array = TypeVar("Array")

    class _Track(InputBuffer[Array], Generic[Array]):
        sample_rate: int

        def __init__(self) -> None: ...
        @overload
        def __get__(self, holder: None, kind: type, /) -> Self: ...
        @overload
        def __get__(self, holder: Output, kind: type, /) -> Any: ...
        @overload
        def __get__(self, holder: Record, kind: type, /) -> InputBuffer[Array]: ...
        def __get__(self, holder: Record | None, kind: type, /) -> Any: ...
        def __set__(self, holder: Record, value: Any, /) -> None: ...

    _VideoTrack = _Track[InputFrame[np.uint8]]
    _AudioTrack = _Track[InputFrame[np.int16]]
else:

    class _Track:
        pass

    _VideoTrack = _AudioTrack = _Track
    Protocol = object


# For type checkers the base is not a protocol.
class Video(_VideoTrack, Protocol):  # type: ignore[misc]
    """Annotate a video track: uint8 RGB, `(H, W, 3)` or a batch `(N, H, W, 3)`, NumPy array or torch tensor.

    An output also takes the bytes of a JPEG, one frame at a time.
    """


class Audio(_AudioTrack, Protocol):  # type: ignore[misc]
    """Annotate an audio track: int16, `(channels, samples)`, or `(samples,)` for mono.

    Derive a class with another `sample_rate` unless it is 48 kHz. `buffer_seconds` bounds the buffer of an input track.
    """

    if TYPE_CHECKING:
        buffer_seconds: float | None = None
    else:
        sample_rate = 48_000
        buffer_seconds = None

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            rate = cls.sample_rate
            if isinstance(rate, bool) or not isinstance(rate, Integral) or rate <= 0:
                with declared_at(cls, "sample_rate"):
                    raise TypeError(f"{cls.__name__}.sample_rate must be a whole number of Hz, not {rate!r}")
            bound = cls.buffer_seconds
            is_number = isinstance(bound, Real) and not isinstance(bound, bool)
            if bound is not None and not (is_number and 0 < bound < math.inf):
                with declared_at(cls, "buffer_seconds"):
                    raise TypeError(f"{cls.__name__}.buffer_seconds must be a number above 0 or None, not {bound!r}")


_VIDEO: type = Video
_AUDIO: type = Audio


@dataclass(frozen=True, slots=True)
class TrackSpec:
    """Describe one track as the welcome message does; `buffer_seconds` bounds the buffer of a sound that comes in.

    In the output of a session with several seats, `seat` is the one that the frames are for, None for all.
    """

    name: str
    kind: Kind
    direction: Direction
    sample_rate: int | None
    buffer_seconds: float | None = None
    seat: int | None = None

    @property
    def key(self) -> str:
        """Return the name, with the seat if there is one; a recording names the track so."""
        return key_of(self.name, self.seat)

    def to_json(self) -> dict[str, Any]:
        """Return the track for `reactor.welcome`."""
        described: dict[str, Any] = {"name": self.name, "kind": self.kind, "direction": self.direction}
        return described if self.sample_rate is None else {**described, "sample_rate": self.sample_rate}


def key_of(track: str, seat: int | None) -> str:
    """Return the name of a track, with the seat that its frames are for, if that is not None."""
    return track if seat is None else f"{track}@{seat}"


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Output(Record):
    """Declare the model's output tracks: each field annotated `Video` or `Audio` is a track of that name.

    Subclasses become dataclasses. Two outputs are equal only if they are the same object. Of a `TrackPayload` the field
    is the array, and its metadata goes with the frames. `__tracks__` describes the tracks of a class by name.
    """

    if not TYPE_CHECKING:
        # That of an instance is in its dict, so there are no slots.
        __reactor_metadata__ = MappingProxyType({})

        def __new__(cls, *arguments: object, **named: object) -> Self:
            made = super().__new__(cls, *arguments, **named)
            # Only now `__init__` is the one that `@dataclass` makes. A class that gets no payload keeps it.
            if TrackPayload in map(type, (*arguments, *named.values())) and _TAKES_PAYLOADS not in cls.__dict__:
                _take_payloads(cls)
            return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_clone(cls):
            return
        # `@dataclass` keeps methods of the class itself; its own `__eq__` would compare arrays, which raises.
        for name in ("__eq__", "__hash__"):
            if name not in vars(cls):
                setattr(cls, name, vars(object)[name])
        declare_tracks(cls, "out")
        put_required_first(cls)

    @classmethod
    def make(cls, **tracks: type) -> type[Any]:
        """Return an Output with the tracks of this one and these: `Output.make(left=Video, right=Video)`.

        It is for tracks that depend on the config: `load()` keeps the class on `self`. Raises TypeError for a track
        that is neither Video nor Audio, or whose name is no identifier.
        """
        for name, kind in tracks.items():
            if not name.isidentifier() or not _is_kind(kind):
                raise TypeError(f"{cls.__name__}.make takes tracks, as in left=Video, not {name}={kind!r:.100}")
        members = {"__annotations__": dict(tracks), "__module__": cls.__module__, _MADE: True}
        return type(cls.__name__, (cls,), members)


def is_made(output: type[Output]) -> bool:
    """Return whether `Output.make()` has made the class."""
    return _MADE in vars(output)


def declare_tracks(cls: type[Record], direction: Direction) -> None:
    """Find the tracks that a class body annotates and store them on the class; call it in `__init_subclass__`."""
    setattr(cls, _TRACKS, _own_tracks(cls, direction))
    cls.__tracks__ = MappingProxyType({track.name: track for track in tracks_of(cls)})


def tracks_of(cls: type[Record]) -> tuple[TrackSpec, ...]:
    """Return the tracks of an Output or Input class, those of its parents first."""
    tracks: dict[str, TrackSpec] = merged_over_mro(cls, _TRACKS)
    return tuple(tracks.values())


def payloads(output: Output) -> dict[str, Any]:
    """Return the values of an output by track."""
    return {name: getattr(output, name) for name in merged_over_mro(type(output), _TRACKS)}


def metadata_of(output: Output) -> Mapping[str, Any]:
    """Return the metadata beside the values of an output, by track."""
    metadata: Mapping[str, Any] = getattr(output, _METADATA)
    return metadata


def _take_payloads(cls: type[Output]) -> None:
    """Make the `__init__` of a class take a TrackPayload for an array."""
    tracks = tuple(merged_over_mro(cls, _TRACKS))
    init: Callable[..., None] = cls.__init__

    @functools.wraps(init)
    def __init__(output: Output, *arguments: Any, **named: Any) -> None:
        init(output, *arguments, **named)
        for name in tracks:
            payload = getattr(output, name, None)
            if isinstance(payload, TrackPayload):
                # The dataclass may be frozen.
                object.__setattr__(output, name, payload.data)
                if payload.metadata is not None:
                    metadata = {**metadata_of(output), name: payload.metadata}
                    object.__setattr__(output, _METADATA, metadata)

    cls.__init__ = __init__  # type: ignore[assignment, method-assign]  # as @dataclass does
    setattr(cls, _TAKES_PAYLOADS, True)


def join_tracks(model: str, outputs: Iterable[type[Output]]) -> tuple[TrackSpec, ...]:
    """Return the tracks of several Output classes once each; raise TypeError if two declare one differently."""
    joined: dict[str, tuple[TrackSpec, type[Output]]] = {}
    for cls in outputs:
        for track in tracks_of(cls):
            other, owner = joined.setdefault(track.name, (track, cls))
            if other != track:
                with declared_at(cls, track.name):
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
    annotations = own_annotations(cls)
    for name, value in vars(cls).items():
        with declared_at(cls, name):
            _refuse_value(value, f"{cls.__name__}.{name}", annotated=name in annotations)
    for name, annotation in annotations.items():
        where = f"{cls.__name__}.{name}"
        with declared_at(cls, name):
            hint = scope.resolve(annotation, where)
            if not is_class_variable(hint) and _is_track(hint, where, direction):
                tracks[name] = _track(name, hint, direction, where)
    return tracks


def _refuse_value(value: object, where: str, *, annotated: bool) -> None:
    """Raise TypeError for a value that looks like a track or a control and would be neither."""
    if isinstance(value, InputDeclaration | MessageDeclaration):
        raise TypeError(f"{where}: InputField and MessageField have no effect here; give a plain default or none")
    if not annotated and (_is_kind(value) or isinstance(value, _VIDEO | _AUDIO)):
        kind = value if isinstance(value, type) else type(value)
        name = where.rpartition(".")[2]
        raise TypeError(f"{where} needs an annotation to be a track: write `{name}: {kind.__name__}`")


def _is_track(hint: Any, where: str, direction: Direction) -> bool:
    if any(_is_kind(part) for part in get_args(hint)):
        always = "must have a value in every output" if direction == "out" else "is never None"
        raise TypeError(f"{where}: a track {always}; annotate it Video or Audio, nothing else")
    if isinstance(hint, _VIDEO | _AUDIO):
        raise TypeError(f"{where}: annotate it {type(hint).__name__}, the class, without parentheses")
    return _is_kind(hint)


def _is_kind(hint: Any) -> bool:
    return isinstance(hint, type) and get_origin(hint) is None and issubclass(hint, _VIDEO | _AUDIO)


def _track(name: str, hint: Any, direction: Direction, where: str) -> TrackSpec:
    if len(name.encode()) > _LONGEST_NAME_BYTES:
        raise TypeError(f"{where[:80]}…: a track's name has at most {_LONGEST_NAME_BYTES} bytes")
    if issubclass(hint, _AUDIO):
        return TrackSpec(name, "audio", direction, int(hint.sample_rate), hint.buffer_seconds)
    return TrackSpec(name, "video", direction, None)
