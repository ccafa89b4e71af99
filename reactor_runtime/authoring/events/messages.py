"""The classes with which a model sends messages and errors to clients."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, dataclass_transform

from reactor_runtime.authoring.code.annotations import Scope, is_class_variable, own_annotations
from reactor_runtime.authoring.code.records import Record, is_clone, merged_over_mro, put_required_first, refuse_mutable
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.values.fields import InputDeclaration, MessageDeclaration
from reactor_runtime.authoring.values.jsonable import check_size, to_json
from reactor_runtime.authoring.values.limits import NO_LIMITS, InapplicableLimit
from reactor_runtime.authoring.values.typespec import ValuePath, compile_type

_NAME = "__reactor_name__"
_SCHEMAS = "__reactor_schemas__"
_VOLATILE = "__reactor_volatile__"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass_transform(field_specifiers=(field,))
class ModelMessage(Record):
    """Declare a message to clients: `{"type": <snake_case of the class name>, "data": {<its fields>}}`.

    Subclasses become dataclasses. A class attribute `name = "…"` sets another type. Fields that start with `_` are not
    sent.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_clone(cls):
            return
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, MessageDeclaration)}
        setattr(cls, _VOLATILE, {name: value.volatile for name, value in declared.items()})
        setattr(cls, _SCHEMAS, _own_schemas(cls))
        with declared_at(cls, "name"):
            setattr(cls, _NAME, _own_name(cls))
        put_required_first(cls)


class CommandError(Exception):
    """Send the client an error of your own: raise it in a handler; nothing is logged.

    `code` is a str; `message` may be anything that `str` turns into one, such as an exception.
    """

    # Defaults for subclasses that do not call this `__init__`.
    code = "command_error"
    message = ""

    def __init__(self, code: str, message: object) -> None:
        if not isinstance(code, str) or not code:
            raise TypeError(
                f'CommandError takes a code and a message, as in CommandError("too_late", "the show is over"); '
                f"the code is {code!r:.100}"
            )
        super().__init__(code, message)
        self.code = code
        self.message = str(message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def _send_to_nobody(_: ModelMessage) -> None:
    """Send nothing: the client was made by hand."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Describe the client of an event; `role` is "controller" or "viewer", `joined_at` in Unix seconds.

    In a model that follows its clients, one of 3.x, `joined_at` is a time of `time.monotonic()`. `seat` is the number
    of the client's seat in its session, None for a viewer of a session with several.

    `system` is true for a client that is part of the server; there is none yet. For tests: `ClientInfo("c-1", 0.0)`.
    """

    id: str
    joined_at: float
    system: bool = False
    role: str = field(default="controller", kw_only=True)
    seat: int | None = field(default=0, kw_only=True)
    # The time for recordings.
    _joined_at_unix: float = field(default=0.0, kw_only=True, repr=False, compare=False)
    _send: Callable[[ModelMessage], None] = field(default=_send_to_nobody, kw_only=True, repr=False, compare=False)

    async def send(self, message: ModelMessage) -> None:
        """Send a message to this client alone; do nothing once it has left.

        Raises TypeError that names a field whose value JSON can't express, and ValueError if the message has more than
        1 MiB.
        """
        self._send(message)


def message_type(cls: type[ModelMessage]) -> str:
    """Return the type of a message class on the wire."""
    name: str = vars(cls)[_NAME]
    return name


def volatile_fields(cls: type[ModelMessage]) -> frozenset[str]:
    """Return the fields of a message class whose values differ in each session."""
    return frozenset(name for name, volatile in merged_over_mro(cls, _VOLATILE).items() if volatile)


def message_to_json(message: ModelMessage) -> tuple[str, dict[str, Any]]:
    """Return type and data for the wire.

    Raises TypeError that names a field whose value JSON can't express, and ValueError if the data has more than 1 MiB.
    """
    cls = type(message)
    if not isinstance(message, ModelMessage) or cls is ModelMessage:
        raise TypeError(f"only a ModelMessage can be sent, not {cls.__name__}; derive a class from ModelMessage")
    names = [field.name for field in dataclasses.fields(message) if not field.name.startswith("_")]
    data = {name: to_json(getattr(message, name), f"{cls.__name__}.{name}") for name in names}
    check_size(data, cls.__name__)
    return message_type(cls), data


def dict_to_json(message: object, kind: str = "message", *, by: str = "send()") -> tuple[str, dict[str, Any]]:
    """Return type and data of a message that a dict describes, as in `{"type": "progress", "data": {…}}`.

    The type defaults to `kind`, the data to all keys but the type. Errors name the code `by` which it is sent.
    """
    if not isinstance(message, dict):
        raise TypeError(f'{by} takes {{"type": "…", "data": {{…}}}} or a ModelMessage, not {message!r:.100}')
    kind = message.get("type", kind)
    if not isinstance(kind, str) or not kind:
        raise ValueError(f'{by}: "type" is a string, as in {{"type": "progress", "data": {{…}}}}: {message!r:.100}')
    if kind.startswith("reactor."):
        raise ValueError(f"{by}: types that start with 'reactor.' belong to the protocol, not {kind!r}")
    rest = {key: value for key, value in message.items() if key != "type"}
    wrapped = rest.keys() == {"data"} and isinstance(rest["data"], Mapping)
    data: dict[str, Any] = to_json(rest["data"] if wrapped else rest, kind)
    check_size(data, kind)
    return kind, data


def message_schema(cls: type[ModelMessage]) -> dict[str, Any]:
    """Describe a message class: `description` from its docstring, `data` as JSON Schema."""
    documented = vars(cls).get("__doc__") or ""
    # For a class without a docstring, `dataclass` sets the signature.
    generated = documented.startswith(f"{cls.__name__}(")
    schemas = merged_over_mro(cls, _SCHEMAS)
    names = [field.name for field in dataclasses.fields(cls) if field.name in schemas]
    data = {
        "type": "object",
        "properties": {name: schemas[name] for name in names},
        "required": names,
        "additionalProperties": False,
    }
    return {"description": "" if generated else _first_paragraph(documented), "data": data}


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _own_name(cls: type[ModelMessage]) -> str:
    chosen = None if "name" in merged_over_mro(cls, _SCHEMAS) else vars(cls).get("name")
    if chosen is None:
        return _WORD_START.sub("_", cls.__name__.lstrip("_")).lower()
    if not isinstance(chosen, str) or not chosen:
        raise TypeError(f"{cls.__name__}.name must be the type clients see, a str, not {chosen!r}")
    if chosen.startswith("reactor."):
        raise ValueError(f"{cls.__name__}.name: types starting with 'reactor.' belong to the protocol, not {chosen!r}")
    return chosen


def _own_schemas(cls: type[ModelMessage]) -> dict[str, dict[str, Any]]:
    """Return the schemas of the declared fields and replace each `MessageField` by its default for dataclasses."""
    scope = Scope.of_definition(cls)
    annotations = own_annotations(cls)
    for name, value in vars(cls).items():
        if isinstance(value, MessageDeclaration) and name not in annotations:
            with declared_at(cls, name):
                raise TypeError(f"{cls.__name__}.{name} needs an annotation to be a field")
    schemas: dict[str, dict[str, Any]] = {}
    for name, annotation in annotations.items():
        declared = vars(cls).get(name, MISSING)
        if isinstance(declared, InputDeclaration):
            with declared_at(cls, name):
                raise TypeError(f"{cls.__name__}.{name}: InputField is for what clients set; use MessageField here")
        path = ValuePath(f"{cls.__name__}.{name}", scope)
        schema = _schema(annotation, path)
        if schema is None or name.startswith("_"):
            continue
        refuse_mutable(cls, name, declared.default if isinstance(declared, MessageDeclaration) else declared)
        if isinstance(declared, MessageDeclaration):
            with declared_at(cls, name):
                schema = _described(schema, declared, annotation, path)
        schemas[name] = schema
    _unwrap_declarations(cls)
    return schemas


def _schema(annotation: Any, path: ValuePath) -> dict[str, Any] | None:
    """Return the schema of a type: `{}` for a type that clients could not send, None for a ClassVar."""
    try:
        hint = path.scope.resolve(annotation, path.where)
    # The type is used for the schema only, and may exist for type checkers alone.
    except TypeError:
        return None if "ClassVar" in str(annotation) else {}
    if is_class_variable(hint):
        return None
    try:
        return compile_type(hint, NO_LIMITS, path).json
    except TypeError:
        return {}


def _described(
    schema: dict[str, Any], declared: MessageDeclaration, annotation: Any, path: ValuePath
) -> dict[str, Any]:
    """Return the schema of a field with what its `MessageField` says of it."""
    if declared.limits.given():
        try:
            schema = compile_type(path.scope.resolve(annotation, path.where), declared.limits, path).json
        except InapplicableLimit as error:
            raise TypeError(f"{path.where}: {error}") from error
    description = {"description": declared.description} if declared.description else {}
    return {**schema, **description, **declared.shown.to_json(schema, path.where)}


def _unwrap_declarations(cls: type[ModelMessage]) -> None:
    for name, declared in list(vars(cls).items()):
        if not isinstance(declared, MessageDeclaration):
            continue
        if declared.default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, declared.default)
