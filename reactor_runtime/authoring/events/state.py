"""`InputState`: the values that clients change while the model runs."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, dataclass_transform

from reactor_runtime.authoring.code.annotations import Scope, is_class_variable, own_annotations, union_options
from reactor_runtime.authoring.code.records import Record, is_clone, make_dataclass, merged_over_mro
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.fields import (
    FieldSpec,
    InputDeclaration,
    MessageDeclaration,
    compile_field,
    plain_declaration,
)
from reactor_runtime.authoring.values.jsonable import check_size, is_same_json, to_json
from reactor_runtime.authoring.values.typespec import UnsupportedType
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.errors import InvalidEvent

_SPECS = "__reactor_fields__"
# Types whose JSON value is the object itself.
_PLAIN = (float, int, bool, str, type(None))
_SMALL = (float, bool, type(None))


@dataclass_transform(field_specifiers=(dataclasses.field,))
class InputState(Record):
    """Declare a session's state: clients change each public field with an event `set_<field>`.

    They get the fields that are declared `InputField(read_only=True)`, and can't change them. Subclasses become
    dataclasses. Every field needs a default, but for an `UploadedFile`, which is None without one; fields that start
    with `_` are private. Setting a public name that the class does not have raises AttributeError.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not is_clone(cls):
            setattr(cls, _SPECS, _own_fields(cls))

    # A type checker that saw this method would accept any name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            # Each public field has a default, or a slot, and so is an attribute of the class.
            if name[:1] != "_" and not hasattr(type(self), name):
                raise _undeclared(type(self), name)
            super().__setattr__(name, value)


@dataclass(frozen=True, slots=True)
class StateSpec:
    """Describe a state class; `fields` are the public ones."""

    cls: type[InputState]
    fields: tuple[FieldSpec, ...]

    @classmethod
    def of(cls, state: type[InputState]) -> StateSpec:
        """Describe a state class; raise TypeError if its fields can't be set."""
        make_dataclass(state)
        # InputState itself is not a dataclass; it may be used as a state without fields.
        parameters = vars(state).get("__dataclass_params__")
        if parameters is not None and parameters.frozen:
            with declared_at(state):
                raise TypeError(f"{state.__name__} is frozen, but events set its fields; drop frozen=True")
        return cls(state, tuple(merged_over_mro(state, _SPECS).values()))

    def fresh(self) -> InputState:
        """Return a new state for a session."""
        return self.cls()

    def to_json(self, state: InputState) -> dict[str, Any]:
        """Return the public fields.

        Raises TypeError that names a field whose value JSON can't express, and ValueError if they have more than 1 MiB.
        """
        values = {field.name: self._field_json(field, getattr(state, field.name)) for field in self.fields}
        check_size(values, self.cls.__name__)
        return values

    def changes(self, state: InputState, last: dict[str, Any]) -> dict[str, Any]:
        """Return the fields whose JSON value differs from `last`, and update `last`.

        A plain value costs one comparison; containers are converted each time because they may change in place.
        Raises what `to_json` raises and leaves `last` unchanged.
        """
        changed: dict[str, Any] = {}
        for field in self.fields:
            value, old = getattr(state, field.name), last.get(field.name, MISSING)
            if value is old and type(value) in _PLAIN:
                continue
            new = self._field_json(field, value)
            if not is_same_json(new, old):
                changed[field.name] = new
        if not all(type(value) in _SMALL for value in changed.values()):
            check_size(changed, self.cls.__name__)
        last.update(changed)
        return changed

    def carry_over(self, old: StateSpec, values: InputState) -> InputState:
        """Return a new state with the values of a state of another class, as far as they are valid.

        A value that equals the old default becomes the new default. Private fields of the same name are taken as they
        are.
        """
        if old.cls is self.cls:
            return values
        state, known = self.fresh(), {field.name: field for field in old.fields}
        for field in self.fields:
            former = known.get(field.name)
            if former is not None and getattr(values, field.name) != former.default:
                _set_valid(state, field, former, getattr(values, field.name))
        for name in (each.name for each in dataclasses.fields(self.cls)):
            if name.startswith("_") and hasattr(values, name):
                setattr(state, name, getattr(values, name))
        return state

    def set_changes(self, state: InputState, newer: StateSpec, values: InputState) -> None:
        """Set what has changed in `values`, which `newer` had carried over from `state`, as far as it is valid."""
        if newer.cls is self.cls:
            return
        before, known = newer.carry_over(self, state), {field.name: field for field in newer.fields}
        for field in self.fields:
            there = known.get(field.name)
            if there is not None and getattr(values, field.name) != getattr(before, field.name):
                _set_valid(state, field, there, getattr(values, field.name))

    def _field_json(self, field: FieldSpec, value: object) -> Any:
        return to_json(value, f"{self.cls.__name__}.{field.name}")


def _undeclared(cls: type[InputState], name: str) -> AttributeError:
    near = get_close_matches(name, merged_over_mro(cls, _SPECS), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return AttributeError(f"{cls.__name__} has no field {name}: {hint}Names of your own begin with _, as in _{name}")


def _set_valid(state: InputState, field: FieldSpec, former: FieldSpec, value: object) -> None:
    """Set a field to a value of its former declaration; leave the default if the value is not valid any more."""
    arguments = EventArguments("", [field], all_required=True)
    try:
        # As JSON, because the value may be a member of an enum, or a dataclass, of the old code.
        valid = arguments.validate(json.dumps({field.name: to_json(value, field.name)}))[field.name]
    except (InvalidEvent, TypeError, ValueError):
        # An uploaded file has no JSON value that a client could send again.
        if former.type.json != field.type.json or not isinstance(value, UploadedFile):
            return
        valid = value
    setattr(state, field.name, valid)


def _own_fields(cls: type[InputState]) -> dict[str, FieldSpec]:
    annotations = own_annotations(cls)
    _refuse_unannotated(cls, annotations)
    scope = Scope.of_definition(cls)
    specs: dict[str, FieldSpec] = {}
    for name, annotation in annotations.items():
        with declared_at(cls, name):
            spec = _own_field(cls, name, annotation, scope)
        if spec is not None:
            specs[name] = spec
    return specs


def _own_field(cls: type[InputState], name: str, annotation: Any, scope: Scope) -> FieldSpec | None:
    """Compile one field and set its default for dataclasses; return None for a field that clients can't set."""
    where = f"{cls.__name__}.{name}"
    declared = plain_declaration(vars(cls).get(name, MISSING), where)
    if name.startswith("_"):
        _prepare_private(cls, name, declared, annotation)
        return None
    hint = scope.resolve(annotation, where)
    if is_class_variable(hint):
        return None
    if UploadedFile in union_options(hint):
        declared = _empty_slot(declared)
    try:
        spec = compile_field(name, hint, declared, scope, where)
    except UnsupportedType as error:
        error.args = (f"{error}; a private field, _{name}, may have any type",)
        raise
    if spec.required:
        raise TypeError(f"{where} needs a default, the value a session starts with: InputField(default=…)")
    if isinstance(declared, dataclasses.Field):
        declared.default = spec.default
    else:
        setattr(cls, name, spec.default)
    return spec


def _empty_slot(declared: Any) -> Any:
    """Return the declaration of an uploaded file, which is None until a client sends one."""
    if declared is MISSING:
        return None
    if isinstance(declared, InputDeclaration) and declared.default is MISSING and declared.default_factory is MISSING:
        return dataclasses.replace(declared, default=None)
    return declared


def _refuse_unannotated(cls: type[InputState], annotations: dict[str, Any]) -> None:
    inherited = merged_over_mro(cls, _SPECS)
    for name, value in vars(cls).items():
        where = f"{cls.__name__}.{name}"
        declared = isinstance(plain_declaration(value, where), InputDeclaration | MessageDeclaration)
        if name not in annotations and (declared or name in inherited):
            with declared_at(cls, name):
                raise TypeError(f"{where} needs an annotation to be a field, as in {name}: float = …")


def _prepare_private(cls: type[InputState], name: str, declared: Any, annotation: Any) -> None:
    """Check the default of a private field and set it for dataclasses."""
    where = f"{cls.__name__}.{name}"
    if "ClassVar" in str(annotation):
        return
    default = declared.default if isinstance(declared, InputDeclaration | dataclasses.Field) else declared
    factory = declared.default_factory if isinstance(declared, dataclasses.Field) else MISSING
    if default is MISSING and factory is MISSING:
        raise TypeError(f"{where} needs a default, the value a session starts with")
    if isinstance(declared, InputDeclaration):
        if declared.bind is not None:
            raise TypeError(f"{where} is private, so clients can't set it; drop bind, or the underscore")
        if declared.read_only:
            raise TypeError(f"{where} is private, so clients don't get it; drop read_only, or the underscore")
        setattr(cls, name, default)
    if default is not MISSING and type(default).__hash__ is None:
        setattr(cls, name, dataclasses.field(default_factory=functools.partial(copy.deepcopy, default)))
