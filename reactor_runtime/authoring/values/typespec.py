"""Compiles the type of a value that clients set to a strict validator and a JSON Schema.

Defines the supported types and the limits of each. Uses pydantic-core directly, because the meaning of each type is
ours (8.0 is an int, true is not a number) and pydantic must not interpret authors' classes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic_core import CoreSchema, SchemaError, SchemaValidator, ValidationError, core_schema

from reactor_runtime.authoring.code.annotations import Scope, own_annotations, type_name, union_options
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.authoring.values.limits import BOUNDS, NO_LIMITS, Limits
from reactor_runtime.authoring.values.phrases import not_one_of, phrase, shown, unresolved, value_error
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.kinds import KINDS, kind_of

# RFC 3339, of which fromisoformat() accepts more.
_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(\.\d{1,6})?"
_OFFSET = r"(Z|[+-]\d\d:\d\d)"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """Hold one compiled type: the validator's schema and the JSON Schema."""

    core: CoreSchema
    json: dict[str, Any]

    def convert(self, value: object, where: str) -> Any:
        """Validate an author's value, such as a default or a choice; raise TypeError if it doesn't fit."""
        text = json.dumps(to_json(value, where))
        try:
            return SchemaValidator(self.core).validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise TypeError(f"{where}: {phrase(first)}") from error


@dataclass(frozen=True, slots=True)
class ValuePath:
    """Hold the path of a value for messages, its scope, and the dataclasses around it to detect recursion."""

    where: str
    scope: Scope
    around: tuple[type, ...] = ()

    def inside(self, cls: type, field: str, scope: Scope) -> ValuePath:
        return ValuePath(f"{self.where} ({cls.__name__}.{field})", scope, (*self.around, cls))


def compile_type(hint: Any, limits: Limits, path: ValuePath) -> TypeSpec:
    """Compile a resolved annotation; raise TypeError for a type or a limit that can't be validated."""
    options = union_options(hint)
    if len(options) > 1 and NoneType in options:
        return _optional([option for option in options if option is not NoneType], hint, limits, path)
    spec = _compile_one(hint, limits, path)
    return spec if limits.choices is None else _with_choices(spec, limits.choices, path)


def _compile_one(hint: Any, limits: Limits, path: ValuePath) -> TypeSpec:
    scalar = next((make for kind, make in _SCALARS if hint is kind), None)
    if scalar is not None:
        return _built(scalar, limits, path)
    origin = get_origin(hint)
    if origin is Literal:
        limits.refuse_others("Literal", {"choices"}, path.where)
        return _literal(get_args(hint), path)
    if isinstance(hint, type) and issubclass(hint, Enum):
        limits.refuse_others(hint.__name__, {"choices"}, path.where)
        return _enum(hint, path)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and origin is None:
        limits.refuse_others(hint.__name__, set(), path.where)
        return _dataclass(hint, path)
    for kind, make, of_anything in _CONTAINERS:
        if hint is kind or origin is kind:
            return make(get_args(hint) or of_anything, limits, path)
    raise _unsupported(hint, path)


def _compile_part(hint: Any, path: ValuePath) -> TypeSpec:
    """Compile the element type of a container; without one, any JSON value."""
    return TypeSpec(core_schema.any_schema(), {}) if hint is Any else compile_type(hint, NO_LIMITS, path)


class AnyValue:
    """Stand for the type of a parameter without annotation: any JSON value."""


class UnsupportedType(TypeError):
    """Report a type whose values clients can't set."""


def _unsupported(hint: Any, path: ValuePath) -> UnsupportedType:
    name = type_name(hint)
    return UnsupportedType(f"{path.where}: a client can't set a value of type {name}; there are {_SUPPORTED}")


def _built(make: Callable[[Limits, ValuePath], TypeSpec], limits: Limits, path: ValuePath) -> TypeSpec:
    spec = make(limits, path)
    try:
        SchemaValidator(spec.core)
    except SchemaError as error:
        problem = str(error).strip().splitlines()[-1].strip().removeprefix("error: ")
        raise TypeError(f"{path.where}: the pattern {limits.pattern!r} can't be used: {problem}") from error
    return spec


def _any(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("a value without a type", {"choices"}, path.where)
    return TypeSpec(core_schema.any_schema(), {})


def _int(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("int", {"ge", "le", "gt", "lt", "multiple_of", "choices"}, path.where)
    bounds = limits.bounds(int, path.where)
    core = core_schema.no_info_before_validator_function(_whole, core_schema.int_schema(strict=True, **bounds))
    return TypeSpec(core, {"type": "integer", **limits.to_json(bounds)})


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def _float(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("float", {"ge", "le", "gt", "lt", "multiple_of", "choices"}, path.where)
    bounds = limits.bounds(float, path.where)
    core = core_schema.float_schema(strict=True, allow_inf_nan=False, **bounds)
    return TypeSpec(core, {"type": "number", **limits.to_json(bounds)})


def _str(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("str", {"min_length", "max_length", "pattern", "choices"}, path.where)
    given = {**limits.lengths(path.where), **limits.given("pattern")}
    # The default engine is linear in hostile text, unlike re.
    core = core_schema.str_schema(strict=True, **given)
    return TypeSpec(core, {"type": "string", **limits.to_json(given)})


def _bool(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("bool", {"choices"}, path.where)
    return TypeSpec(core_schema.bool_schema(strict=True), {"type": "boolean"})


def _datetime(limits: Limits, path: ValuePath) -> TypeSpec:
    return _iso(datetime, f"{_DATE}T{_TIME}{_OFFSET}", "date-time", limits, path)


def _date(limits: Limits, path: ValuePath) -> TypeSpec:
    return _iso(date, _DATE, "date", limits, path)


def _time(limits: Limits, path: ValuePath) -> TypeSpec:
    return _iso(time, _TIME, "time-local", limits, path)


def _iso(
    cls: type[datetime] | type[date] | type[time], pattern: str, format: str, limits: Limits, path: ValuePath
) -> TypeSpec:
    limits.refuse_others(cls.__name__, {"choices"}, path.where)
    schema = {"type": "string", "format": format}
    kind = KINDS[kind_of(schema) or ""]
    is_iso = re.compile(pattern, re.ASCII).fullmatch

    def read(value: Any) -> Any:
        if isinstance(value, str) and is_iso(value):
            # Such as February 30, or an hour 24.
            with contextlib.suppress(ValueError):
                return cls.fromisoformat(value)
        raise value_error(f"{shown(value)} is not a {kind.noun}, such as {kind.example}")

    return TypeSpec(core_schema.no_info_plain_validator_function(read), schema)


def _upload(limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("UploadedFile", set(), path.where)
    member = core_schema.typed_dict_field(core_schema.str_schema(strict=True, max_length=100), required=True)
    named = core_schema.typed_dict_schema({"upload": member}, extra_behavior="forbid", strict=True)
    renamed = core_schema.no_info_before_validator_function(_named_as_upload, named)
    core = core_schema.with_info_after_validator_function(_resolve, renamed)
    schema = {"type": "object", "format": "upload", "properties": {"upload": {"type": "string", "maxLength": 100}}}
    return TypeSpec(core, {**schema, "required": ["upload"], "additionalProperties": False})


def _named_as_upload(value: Any) -> Any:
    """Return the value of a client for 3.x, `{"upload_id": id}`, as `{"upload": id}`."""
    return {"upload": value["upload_id"]} if isinstance(value, dict) and value.keys() == {"upload_id"} else value


def _resolve(value: dict[str, str], info: core_schema.ValidationInfo) -> UploadedFile:
    """Return the uploaded file that a client names, from the validation context."""
    if info.context is None:
        raise value_error("a file comes from a client; write UploadedFile | None = None")
    file = info.context.get(value["upload"])
    if not isinstance(file, UploadedFile):
        raise unresolved(value["upload"])
    return file


def _optional(options: Sequence[Any], hint: Any, limits: Limits, path: ValuePath) -> TypeSpec:
    if len(options) != 1:
        raise _unsupported(hint, path)
    inner = compile_type(options[0], limits, path)
    return TypeSpec(core_schema.nullable_schema(inner.core), {"anyOf": [inner.json, {"type": "null"}]})


def _literal(values: Sequence[Any], path: ValuePath) -> TypeSpec:
    for value in values:
        if type(value) not in (str, int, bool, NoneType):
            raise TypeError(f"{path.where}: Literal[{value!r}] can't come from a client; use str, int, bool or None")
    return _one_of({value_key(value): value for value in values}, list(values))


def _enum(cls: type[Enum], path: ValuePath) -> TypeSpec:
    members = list(cls)
    if not members:
        raise TypeError(f"{path.where}: {cls.__name__} has no members")
    values = [to_json(member.value, f"{path.where} ({cls.__name__}.{member.name})") for member in members]
    if any(isinstance(value, list | dict) for value in values):
        raise TypeError(f"{path.where}: the values of {cls.__name__} must be str, int, float, bool or None")
    table: dict[tuple[type, Any], Any] = {}
    for value, member in zip(values, members, strict=True):
        table.setdefault(value_key(value), member)
        if isinstance(value, float) and value.is_integer():
            table.setdefault((int, int(value)), member)
    return _one_of(table, values)


def value_key(value: Any) -> tuple[type, Any]:
    """Return a key that distinguishes true, 1 and 1.0, which are equal in Python."""
    return type(value), value


def _one_of(table: Mapping[tuple[type, Any], Any], values: list[Any]) -> TypeSpec:
    def find(value: Any) -> Any:
        hashable = not isinstance(value, list | dict)
        if hashable and value_key(value) in table:
            return table[value_key(value)]
        raise not_one_of(value, values)

    kinds = {type(value) for value in values}
    named = {"type": _JSON_NAMES[kinds.pop()]} if len(kinds) == 1 else {}
    return TypeSpec(core_schema.no_info_plain_validator_function(find), {**named, "enum": values})


def _with_choices(spec: TypeSpec, choices: Sequence[object], path: ValuePath) -> TypeSpec:
    allowed = [spec.convert(choice, f"{path.where}: choices") for choice in choices]
    shown_as = [to_json(choice, path.where) for choice in allowed]

    # `check` outlives the class body: it must not keep `path`, whose scope holds local names.
    where = path.where

    def check(value: Any) -> Any:
        if value in allowed:
            return value
        raise not_one_of(to_json(value, where), shown_as)

    core = core_schema.no_info_after_validator_function(check, spec.core)
    return TypeSpec(core, {**spec.json, "enum": shown_as})


def _list(parts: Sequence[Any], limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("list", {"min_length", "max_length"}, path.where)
    items = _compile_part(parts[0], path)
    lengths = limits.lengths(path.where)
    core = core_schema.list_schema(items.core, strict=True, **lengths)
    return TypeSpec(core, {"type": "array", "items": items.json, **limits.to_json(lengths, "Items")})


def _dict(parts: Sequence[Any], limits: Limits, path: ValuePath) -> TypeSpec:
    limits.refuse_others("dict", {"min_length", "max_length"}, path.where)
    if parts[0] is not str:
        raise TypeError(f"{path.where}: the keys of a dict are JSON names; write dict[str, {type_name(parts[1])}]")
    values = _compile_part(parts[1], path)
    lengths = limits.lengths(path.where)
    core = core_schema.dict_schema(core_schema.str_schema(strict=True), values.core, strict=True, **lengths)
    schema = {"type": "object", "additionalProperties": values.json, **limits.to_json(lengths, "Properties")}
    return TypeSpec(core, schema)


def _tuple(parts: Sequence[Any], limits: Limits, path: ValuePath) -> TypeSpec:
    if len(parts) == 2 and parts[1] is Ellipsis:
        limits.refuse_others("tuple", {"min_length", "max_length"}, path.where)
        items = _compile_part(parts[0], path)
        lengths = limits.lengths(path.where)
        core = core_schema.tuple_schema([items.core], variadic_item_index=0, strict=True, **lengths)
        return TypeSpec(core, {"type": "array", "items": items.json, **limits.to_json(lengths, "Items")})
    # The limits of a pair of numbers are those of each number.
    are_numbers = all(part in (int, float) for part in parts)
    limits.refuse_others("tuple of fixed length", BOUNDS if are_numbers else (), path.where)
    specs = [compile_type(part, limits, path) if are_numbers else _compile_part(part, path) for part in parts]
    core = core_schema.tuple_schema([spec.core for spec in specs], strict=True)
    size = {"minItems": len(specs), "maxItems": len(specs)}
    return TypeSpec(core, {"type": "array", "prefixItems": [spec.json for spec in specs], **size})


def _dataclass(cls: type, path: ValuePath) -> TypeSpec:
    if cls in path.around:
        raise TypeError(f"{path.where}: {cls.__name__} contains itself; JSON values can't be recursive")
    members: dict[str, core_schema.TypedDictField] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    # A field's annotation may come from a parent class in another module.
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        scope = Scope.of_class(_annotating(cls, field.name), path.scope.locals)
        with declared_at(cls, field.name):
            hint = scope.resolve(field.type, f"{path.where} ({cls.__name__}.{field.name})")
            spec = compile_type(hint, NO_LIMITS, path.inside(cls, field.name, scope))
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        members[field.name] = core_schema.typed_dict_field(spec.core, required=not optional)
        properties[field.name] = spec.json
        if not optional:
            required.append(field.name)
    fields_core = core_schema.typed_dict_schema(members, extra_behavior="forbid", strict=True)
    core = core_schema.no_info_after_validator_function(_maker(cls), fields_core)
    schema = {"type": "object", "title": cls.__name__, "properties": properties, "required": required}
    return TypeSpec(core, {**schema, "additionalProperties": False})


def _annotating(cls: type, name: str) -> type:
    return next((owner for owner in cls.__mro__ if name in own_annotations(owner)), cls)


def _maker(cls: type) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        try:
            return cls(**values)
        except ValueError as error:
            raise value_error(" ".join(str(error).split())[:200]) from error
        # The author's __post_init__ may raise anything.
        except Exception as error:
            raise value_error(f"is not a valid {cls.__name__}") from error

    return make


_SCALARS: tuple[tuple[type, Callable[[Limits, ValuePath], TypeSpec]], ...] = (
    (int, _int),
    (float, _float),
    (str, _str),
    (bool, _bool),
    (datetime, _datetime),
    (date, _date),
    (time, _time),
    (UploadedFile, _upload),
    (AnyValue, _any),
)
_SUPPORTED = (
    f"{', '.join(cls.__name__ for cls, _ in _SCALARS if cls is not AnyValue)}, Literal, Enum, Optional, list, dict, "
    "tuple and dataclasses of these"
)
_CONTAINERS: tuple[tuple[type, Callable[[Sequence[Any], Limits, ValuePath], TypeSpec], tuple[Any, ...]], ...] = (
    (list, _list, (Any,)),
    (dict, _dict, (str, Any)),
    (tuple, _tuple, (Any, ...)),
)
_JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
