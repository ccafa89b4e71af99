"""Input tracks: the `Input` an author declares, and the attributes of a model that are annotated with one.

A running model has the buffers of `input_buffer.py` in these attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, dataclass_transform, get_args, get_origin

from reactor_runtime.authoring.code.annotations import Scope, is_class_variable, own_annotations
from reactor_runtime.authoring.code.records import Record, is_clone
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.tracks.discovery import is_ours
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec, declare_tracks, join_tracks, tracks_of

_OWN = "__reactor_own_inputs__"
_EFFECTIVE = "__reactor_inputs__"


@dataclass_transform(field_specifiers=(field,))
class Input(Record):
    """Declare the model's input tracks: each field annotated `Video` or `Audio` is a track of that name.

    Annotate an attribute of the model with your subclass, as in `input: MyInput`. It holds a buffer for each track:
    `await self.input.webcam.read()`.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_clone(cls):
            return
        declare_tracks(cls, "in")
        _refuse_unfilled(cls, Scope.of_definition(cls))


@dataclass(frozen=True, slots=True)
class _UnresolvedInput:
    """Hold an annotation that uses a name not defined yet."""

    owner: type
    annotation: Any


class _BeforeLoad:
    """Raise RuntimeError for an input that is read before the model runs."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: object, kind: type) -> _BeforeLoad:
        if model is None:
            return self
        raise RuntimeError(f"{kind.__name__} is not running: use self.{self._name} in load() or later")


_Found = type[Input] | _UnresolvedInput


def compile_inputs(cls: type, scope: Scope) -> Mapping[str, type[Input]]:
    """Find the annotated inputs of a model class and its parents, store them on the class, return those resolved.

    Raises TypeError for an annotation that can't be served.
    """
    setattr(cls, _OWN, _own_inputs(cls, scope))
    found: dict[str, _Found] = {}
    for owner in reversed(cls.__mro__):
        if not is_ours(owner):
            for name, kind in _inputs_in(owner, scope).items():
                found.pop(name, None)
                if kind is not None:
                    found[name] = kind
    setattr(cls, _EFFECTIVE, found)
    known = {name: kind for name, kind in found.items() if not isinstance(kind, _UnresolvedInput)}
    for name in known:
        _check_name(cls, name)
        if not any(name in vars(owner) for owner in cls.__mro__):
            setattr(cls, name, _BeforeLoad(name))
    _refuse_doubles(cls, known)
    return known


def inputs_of(model: type) -> Mapping[str, type[Input]]:
    """Return a model's Input classes by attribute, including classes defined below the model."""
    found: dict[str, _Found] = vars(model)[_EFFECTIVE]
    resolved = {name: _resolve_input(name, kind) for name, kind in found.items()}
    inputs = {name: kind for name, kind in resolved.items() if kind is not None}
    for name in inputs:
        _check_name(model, name)
    _refuse_doubles(model, inputs)
    return inputs


def join_all(model: str, outputs: Iterable[type[Output]], inputs: Iterable[type[Input]]) -> tuple[TrackSpec, ...]:
    """Return the tracks of a model, outputs first; raise TypeError if two different tracks share a name."""
    outputs = list(outputs)
    tracks = list(join_tracks(model, outputs))
    owners: dict[str, type[Record]] = {track.name: cls for cls in outputs for track in tracks_of(cls)}
    for cls in inputs:
        for track in tracks_of(cls):
            other = owners.setdefault(track.name, cls)
            if other is not cls:
                with declared_at(cls, track.name):
                    raise _double(model, track.name, other, cls)
            tracks.append(track)
    return tuple(tracks)


def _double(model: str, track: str, first: type[Record], second: type[Input]) -> TypeError:
    if issubclass(first, Output):
        return TypeError(
            f"{model}: track {track!r} is an input in {second.__name__} and an output in {first.__name__}; "
            f"rename one of them, or annotate {model} with the Output it uses, as in output: MyOutput"
        )
    return TypeError(f"{model}: track {track!r} is in both {first.__name__} and {second.__name__}; rename one of them")


def make_input(kind: type[Input], buffers: Mapping[str, InputBuffer[Any]]) -> Input:
    """Create the value of the annotated attribute in a running model: a buffer for each track."""
    # The author's fields are the parameters.
    make: Any = kind
    made: Input = make(**buffers)
    return made


def _refuse_unfilled(cls: type[Input], scope: Scope) -> None:
    tracks = {track.name for track in tracks_of(cls)}
    for name, annotation in own_annotations(cls).items():
        if name in tracks or name in vars(cls):
            continue
        hint = scope.resolve(annotation, f"{cls.__name__}.{name}")
        if hint is not KW_ONLY and not is_class_variable(hint):
            with declared_at(cls, name):
                raise TypeError(
                    f"{cls.__name__}.{name}: annotate it Video or Audio, or give it a default: "
                    "the runtime creates the input and can fill only tracks"
                )


def _inputs_in(owner: type, scope: Scope) -> Mapping[str, _Found | None]:
    own: dict[str, _Found | None] | None = vars(owner).get(_OWN)
    # A mixin has no stored inputs.
    return _own_inputs(owner, Scope.of_class(owner, scope.locals)) if own is None else own


def _own_inputs(owner: type, scope: Scope) -> dict[str, _Found | None]:
    """Return the inputs that a class body annotates; None for annotations that are not inputs."""
    return {name: _own_input(owner, name, annotation, scope) for name, annotation in own_annotations(owner).items()}


def _own_input(owner: type, name: str, annotation: Any, scope: Scope) -> _Found | None:
    where = f"{owner.__name__}.{name}"
    try:
        hint = scope.resolve(annotation, where)
    # The annotation may be anything, such as a name imported for type checkers alone.
    except TypeError as error:
        return _UnresolvedInput(owner, annotation) if isinstance(error.__cause__, NameError) else None
    with declared_at(owner, name):
        return _checked(hint, where)


def _resolve_input(name: str, unresolved: _Found) -> type[Input] | None:
    """Resolve an annotation that used an undefined name; return None if it still does, or is no Input."""
    if not isinstance(unresolved, _UnresolvedInput):
        return unresolved
    where = f"{unresolved.owner.__name__}.{name}"
    try:
        with declared_at(unresolved.owner, name):
            return _checked(Scope.of_class(unresolved.owner, {}).resolve(unresolved.annotation, where), where)
    except TypeError as error:
        if isinstance(error.__cause__, NameError) and name != "input":
            return None
        raise


def _checked(hint: Any, where: str) -> type[Input] | None:
    part = next((part for part in get_args(hint) if _is_input(part)), None)
    if part is not None:
        raise TypeError(f"{where}: an input is never None; annotate it {part.__name__}")
    if not _is_input(hint):
        return None
    if hint is Input:
        raise TypeError(f"{where}: annotate it with a subclass of Input, whose fields are the tracks")
    known: type[Input] = hint
    return known


def _is_input(hint: Any) -> bool:
    return isinstance(hint, type) and get_origin(hint) is None and issubclass(hint, Input)


def _check_name(cls: type, name: str) -> None:
    ours = [owner for owner in cls.__mro__ if is_ours(owner)]
    if any(name in vars(owner) or name in own_annotations(owner) for owner in ours):
        with declared_at(cls, name):
            raise TypeError(
                f"{cls.__name__}.{name} would hide the model's own self.{name}; give the input another name"
            )


def _refuse_doubles(cls: type, inputs: Mapping[str, type[Input]]) -> None:
    seen: dict[type[Input], str] = {}
    for name, kind in inputs.items():
        first = seen.setdefault(kind, name)
        if first != name:
            with declared_at(cls, name):
                raise TypeError(
                    f"{cls.__name__}: {first} and {name} are both annotated {kind.__name__}, whose tracks exist once; "
                    "keep one of them"
                )
