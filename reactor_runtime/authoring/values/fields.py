"""`InputField`, `MessageField`, and the compiled values that clients set: state fields and event arguments."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from difflib import get_close_matches
from types import NoneType
from typing import Any, Literal, Never, get_origin

import numpy as np

from reactor_runtime.authoring.code.annotations import Scope, type_name, union_options
from reactor_runtime.authoring.values import bindings
from reactor_runtime.authoring.values.bindings import Source
from reactor_runtime.authoring.values.displays import Display, Shown
from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.authoring.values.limits import NO_LIMITS, InapplicableLimit, Limits
from reactor_runtime.authoring.values.presentation import Presentation, Widget
from reactor_runtime.authoring.values.typespec import AnyValue, TypeSpec, ValuePath, compile_type
from reactor_runtime.authoring.values.upload import UploadedFile

_LIMITS = tuple(each.name for each in dataclasses.fields(Limits))
_SHOWN = tuple(each.name for each in dataclasses.fields(Presentation))
_INPUT_OPTIONS = ("default", "description", "bind", "moderate", "read_only", "shared", *_LIMITS, *_SHOWN)
_MESSAGE_OPTIONS = ("default", "description", "volatile", "widget", "label", "unit", "ge", "le")
# Of a read-only field; the others are about what clients send.
_READ_ONLY_OPTIONS = ("label", "widget", "unit")
MODERATE = "x-reactor-moderate"
# Values are always checked strictly, whatever the options of a pydantic.Field.
_IMPLIED = frozenset({"strict", "allow_inf_nan"})
_OTHER_WORDS = {
    "min": "ge",
    "minimum": "ge",
    "max": "le",
    "maximum": "le",
    "options": "choices",
    "regex": "pattern",
    "title": "label",
    "section": "group",
    "control": "widget",
}


@dataclass(frozen=True, slots=True, eq=False)
class InputDeclaration:
    """Hold the arguments of `InputField` until the name and the type are known."""

    default: Any
    description: str
    limits: Limits
    default_factory: Any
    bind: object
    presentation: Presentation
    moderate: bool = False
    read_only: bool = False
    shared: bool = False

    # The limits, as the tests of programs for 3.x read them.
    def __getattr__(self, name: str) -> Any:
        if name not in _LIMITS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.limits, name)


@dataclass(frozen=True, slots=True, eq=False)
class MessageDeclaration:
    """Hold the arguments of `MessageField`."""

    default: Any
    description: str
    volatile: bool
    shown: Shown
    limits: Limits


def InputField(
    default: Any = MISSING,
    *,
    description: str = "",
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    multiple_of: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    choices: Iterable[object] | None = None,
    label: str = "",
    group: str = "",
    widget: Widget | Display | None = None,
    step: float | None = None,
    placeholder: str = "",
    order: int | None = None,
    examples: Iterable[object] | None = None,
    prominent: bool = False,
    unit: str = "",
    bind: Source | Sequence[Source] | None = None,
    moderate: bool = False,
    read_only: bool = False,
    shared: bool = False,
    default_factory: Any = MISSING,
    **unknown: Never,
) -> Any:
    """Describe and limit a value that clients set: a field of an `InputState`, or a parameter of an event.

    A state's field needs a default; a parameter without one is required. `pattern` matches anywhere: anchor it with ^
    and $. `bind` is a source that sets the value, such as `Keys("s", "w")`, or a list of sources. The options from
    `label` to `unit` describe the value's control and limit nothing. With `moderate`, the method `moderate` of the
    model decides about each value before it is applied. A field of a state with `read_only` is set by the model alone
    and shown over the frame as `widget`, "value", "bar", "light" or "clock". A field of the state of a session with
    several seats is set by the host alone, or with `shared` by the client in any seat. `default_factory` is refused,
    with the field's name, because the schema publishes the default.
    """
    _refuse_unknown(unknown, "InputField", _INPUT_OPTIONS)
    allowed, listed = _listed(choices), _listed(examples)
    limits = Limits(ge, le, gt, lt, multiple_of, min_length, max_length, pattern, allowed)
    shown = Presentation(label, group, widget, step, placeholder, order, listed, prominent, unit)
    for name, switch in {"moderate": moderate, "read_only": read_only, "shared": shared}.items():
        if not isinstance(switch, bool):
            raise TypeError(f"InputField takes {name}=True or {name}=False, not {switch!r}")
    return InputDeclaration(default, description, limits, default_factory, bind, shown, moderate, read_only, shared)


def _listed(values: Any) -> Any:
    """Return the values of an iterable as a tuple, and text as it is, which is refused with the value's name."""
    return values if values is None or isinstance(values, str) else tuple(values)


def plain_declaration(value: object, where: str) -> object:
    """Convert a `pydantic.Field` to an `InputField`; return anything else unchanged.

    Raises TypeError that names `where` for an option that would have no effect.
    """
    # Not imported here: a pydantic.Field exists only if the author has imported pydantic.
    pydantic = sys.modules.get("pydantic.fields")
    if pydantic is None or not isinstance(value, pydantic.FieldInfo):
        return value
    options: dict[str, Any] = {}
    for item in value.metadata:
        slotted = dataclasses.is_dataclass(item) and not isinstance(item, type)
        options.update(dataclasses.asdict(item) if slotted else vars(item))
    options.update({name: True for name in ("alias", "validation_alias") if getattr(value, name) is not None})
    for name in options.keys() - {*_LIMITS} - _IMPLIED:
        raise TypeError(
            f"{where}: pydantic.Field(…, {name}=…) is not supported; use InputField, which takes "
            f"{', '.join(_INPUT_OPTIONS)}"
        )
    return InputDeclaration(
        MISSING if value.is_required() or value.default_factory is not None else value.default,
        value.description or "",
        Limits(**{name: limit for name, limit in options.items() if name in _LIMITS}),
        MISSING if value.default_factory is None else value.default_factory,
        None,
        Presentation(label=value.title or "", examples=value.examples),
    )


def MessageField(
    default: Any = MISSING,
    *,
    description: str = "",
    volatile: bool = False,
    widget: Display | None = None,
    label: str = "",
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    **unknown: Never,
) -> Any:
    """Describe a field of a `ModelMessage`; without a default it is required.

    `volatile` means that its value, such as a time, differs in each session: a replay does not compare it. `widget`
    shows the newest value over the frame: as a number or text, as a bar from `ge` to `le`, as a light that is on or
    off, or seconds as a clock. `ge` and `le` are in the schema; a value outside of them is sent all the same.
    """
    if "default_factory" in unknown:
        raise TypeError("MessageField takes no default_factory; use dataclasses.field(default_factory=…) instead of it")
    _refuse_unknown(unknown, "MessageField", _MESSAGE_OPTIONS)
    return MessageDeclaration(default, description, volatile, Shown(widget, label, unit), Limits(ge, le))


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Describe one value that clients set; `default` is MISSING if there is none.

    `presentation` describes its control, `info` is its declaration. `ignored` says which limits have no effect on
    values of its type.
    """

    name: str
    type: TypeSpec
    default: Any
    description: str
    sources: tuple[Source, ...]
    presentation: Presentation
    info: InputDeclaration
    ignored: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def to_json(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        schema = dict(self.type.json)
        if not self.required:
            schema["default"] = to_json(self.default, self.name)
        if self.description:
            schema["description"] = self.description
        if self.info.read_only:
            return {**schema, "readOnly": True, **_shown(self.presentation, self.type).to_json(schema, self.name)}
        shown = self.presentation.to_json(self.type, self.default, self.name)
        moderated = {MODERATE: True} if self.info.moderate else {}
        return {**schema, **shown, **bindings.to_json(self.sources), **moderated}

    def completed_by(self, other: FieldSpec) -> FieldSpec:
        """Return this value with the options of the control of `other` that are not given here and fit the type.

        It is moderated if `other` is.
        """
        completed = self.presentation.completed_by(other.presentation, self.type, self.default)
        return replace(self.moderated_as(other), presentation=completed)

    def moderated_as(self, other: FieldSpec) -> FieldSpec:
        """Return this value, moderated if `other` is."""
        return replace(self, info=replace(self.info, moderate=self.info.moderate or other.info.moderate))


def compile_field(name: str, hint: Any, declared: Any, scope: Scope, where: str) -> FieldSpec:
    """Compile a resolved annotation and its default; raise TypeError that names `where` if they don't fit."""
    default, description, limits = _default_and_limits(declared, where)
    if default is None and hint is UploadedFile:
        hint = hint | None
    spec, limits, ignored = _compile_applicable(hint, limits, ValuePath(where, scope))
    if default is not MISSING:
        _refuse_mutable(default, where)
        if default is None and not _takes_none(hint):
            raise TypeError(f"{where}: the default None needs a type that allows it: {type_name(hint)} | None")
        default = _converted(spec, default, where)
    sources = _sources(declared, hint, limits, where)
    info = _declaration(declared, default, description, limits)
    # Raises the error of a wrong option.
    if info.read_only:
        _check_read_only(info, spec, where)
    else:
        info.presentation.to_json(spec, default, where)
    return FieldSpec(name, spec, default, description, sources, info.presentation, info, ignored)


def _shown(presentation: Presentation, spec: TypeSpec) -> Shown:
    """Return how a read-only value is shown."""
    return Shown(presentation.widget, presentation.label, presentation.unit).or_default(spec.json)


def _check_read_only(info: InputDeclaration, spec: TypeSpec, where: str) -> None:
    """Raise TypeError for an option that is about what clients send."""
    given = [
        each.name for each in dataclasses.fields(Presentation) if getattr(info.presentation, each.name) != each.default
    ]
    given += [
        name for name, value in {"bind": info.bind, "moderate": info.moderate or None}.items() if value is not None
    ]
    for name in given:
        if name not in _READ_ONLY_OPTIONS:
            raise TypeError(f"{where}: {name} has no effect on a field that is read_only; drop one of them")
    _shown(info.presentation, spec).to_json(spec.json, where)


def _declaration(declared: Any, default: Any, description: str, limits: Limits) -> InputDeclaration:
    """Return the declaration of a value with its converted default, also of one without `InputField`."""
    given = declared if isinstance(declared, InputDeclaration) else InputField()
    return replace(given, default=default, description=description, limits=limits)


def _compile_applicable(hint: Any, limits: Limits, path: ValuePath) -> tuple[TypeSpec, Limits, tuple[str, ...]]:
    """Compile a type with the limits that apply to it; return those, and what is said of the others."""
    ignored: list[str] = []
    while True:
        try:
            return compile_type(hint, limits, path), limits, tuple(ignored)
        except InapplicableLimit as limit:
            ignored.append(str(limit))
            limits = replace(limits, **{limit.name: None})


def _takes_none(hint: Any) -> bool:
    return NoneType in union_options(hint) or get_origin(hint) is Literal or hint is AnyValue


def _refuse_unknown(unknown: Mapping[str, object], name: str, known: Sequence[str]) -> None:
    for option in unknown:
        near = get_close_matches(_OTHER_WORDS.get(option, option), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise TypeError(f"{name} takes no {option}; {hint}")


def _default_and_limits(declared: Any, where: str) -> tuple[Any, str, Limits]:
    match declared:
        case InputDeclaration():
            _refuse_factory(declared.default_factory, where)
            return declared.default, declared.description, declared.limits
        case MessageDeclaration():
            raise TypeError(f"{where}: MessageField is for messages; use InputField here")
        case dataclasses.Field():
            _refuse_factory(declared.default_factory, where)
            return declared.default, "", NO_LIMITS
    return declared, "", NO_LIMITS


def _sources(declared: Any, hint: Any, limits: Limits, where: str) -> tuple[Source, ...]:
    if not isinstance(declared, InputDeclaration) or declared.bind is None:
        return ()
    sources = bindings.sources_of(declared.bind, where)
    if not sources:
        return ()
    if declared.default is MISSING:
        raise TypeError(f"{where}: a bound value needs a default, which is sent when the key is released")
    bindings.check_value(sources, hint, declared.default, limits, where)
    return sources


def _refuse_factory(factory: Any, where: str) -> None:
    if factory is not MISSING:
        raise TypeError(
            f"{where}: default_factory can't be used for a value that clients set, because the schema publishes the "
            "default; give a constant, such as () or None"
        )


def _refuse_mutable(default: Any, where: str) -> None:
    if type(default).__hash__ is None:
        raise TypeError(
            f"{where}: the default {default!r} is mutable and would be shared; "
            "use a tuple, a frozen dataclass or None, and a type to match, as in tuple[float, ...] = ()"
        )


def _converted(spec: TypeSpec, default: Any, where: str) -> Any:
    """Convert the default as a client's value is converted: 3 for a float becomes 3.0."""
    if isinstance(default, np.generic):
        default = default.item()
    if not spec.json:
        # A value without a type, which the schema publishes.
        to_json(default, f"{where}: default")
        return default
    value = spec.convert(default, f"{where}: default")
    numbers = isinstance(default, int | float) and isinstance(value, int | float)
    if not numbers and not isinstance(default, type(value)):
        raise TypeError(f"{where}: default: {default!r} is not {type(value).__name__}, write {value!r}")
    return value
