"""The decorators of events and hooks, and the specifications compiled from decorated methods.

A decorator checks the form and removes `InputField` from the defaults, so that the method stays callable. Types are
resolved when the class is defined; `handlers.py` decides which methods are handlers.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from inspect import Parameter
from types import FunctionType
from typing import Any, Literal, Never, TypeVar, get_args

from reactor_runtime.authoring.code.annotations import Scope, union_options
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.messages import ClientInfo, ModelMessage
from reactor_runtime.authoring.values import bindings
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.bindings import Source
from reactor_runtime.authoring.values.fields import FieldSpec, InputDeclaration, compile_field, plain_declaration
from reactor_runtime.authoring.values.typespec import AnyValue
from reactor_runtime.authoring.values.upload import NO_UPLOADS, UploadedFile

MARK = "__reactor_mark__"
RESERVED = frozenset({"connected", "disconnected"})
# The parameters that get the client, and in a hook of seats the number of the seat.
CLIENT, SEAT = "client", "seat"

F = TypeVar("F", bound=Callable[..., Any])
# Default for `@connected()` with parentheses.
_NO_METHOD: Any = None
Hook = Literal["connected", "disconnected", "session_started", "session_ended", "joined", "left"]
# These run without a client.
SESSION_HOOKS = frozenset({"session_started", "session_ended"})
# These run for one seat.
SEAT_HOOKS = frozenset({"joined", "left"})
# The event of `@file_uploaded`; clients can't send it, as names like this one belong to the protocol.
UPLOAD_EVENT = "reactor.file_uploaded"


@dataclass(frozen=True, slots=True)
class EventMark:
    """Hold the arguments of `@event`, and the `InputField`s it removed from the method's defaults.

    With `takes_dict`, a dict that the method returns is a reply.
    """

    name: str
    description: str
    dedupe: bool
    declarations: Mapping[str, InputDeclaration]
    sources: tuple[Source, ...] = ()
    takes_dict: bool = False


@dataclass(frozen=True, slots=True)
class HookMark:
    hook: Hook


@dataclass(frozen=True, slots=True)
class EventSpec:
    """Describe one event. `method` is None for a generated `set_<field>`; `field` is the state field the event sets.

    A field `of_seat` is one of the state of its sender's seat. Only the host, the client in seat 0, may send an event
    `of_host`.
    `replies` are the messages that the reply may hold, with None for a reply without a message; it is None if the
    handler has no return annotation that declares them.
    """

    name: str
    description: str
    dedupe: bool
    method: str | None
    field: str | None
    is_async: bool
    client_parameter: str | None
    arguments: EventArguments = dataclasses.field(repr=False, compare=False)
    sources: tuple[Source, ...] = ()
    replies: tuple[type[ModelMessage] | None, ...] | None = None
    takes_dict: bool = False
    of_seat: bool = False
    of_host: bool = False

    def validate(self, data_json: str, uploads: Mapping[str, UploadedFile] = NO_UPLOADS) -> dict[str, object]:
        """Convert a JSON object to keyword arguments with defaults; raise InvalidEvent that lists every wrong value."""
        return self.arguments.validate(data_json, uploads)

    def parameters_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the event's data."""
        return {**self.arguments.to_json(), **bindings.to_json(self.sources)}


@dataclass(frozen=True, slots=True)
class HookSpec:
    """Describe a method that runs when a session starts or ends, or when a client comes or goes."""

    hook: Hook
    method: str
    is_async: bool
    client_parameter: str | None
    takes_seat: bool = False


def event(
    *misplaced: Never,
    name: str = "",
    description: str = "",
    dedupe: bool = False,
    bind: Source | Sequence[Source] | None = None,
) -> Callable[[F], F]:
    """Allow clients to call a method, sync or async, under `name`, with its parameters.

    It runs between two steps of the model. With `dedupe`, only the newest of several waiting calls runs. A parameter
    called `client`, or annotated `ClientInfo`, gets the client; one without annotation takes any JSON value. A returned
    `ModelMessage` is the reply, a raised `CommandError` the error. `bind` is a source that sends the event, such as
    `Key("space")`, or a list of sources.
    """
    if misplaced or not isinstance(name, str) or not name:
        raise TypeError('event takes its name as a keyword: write @event(name="set_prompt") above the method')
    return declare("event", name, description, dedupe=dedupe, bind=bind)


def declare(
    decorator: str,
    name: str,
    description: str,
    *,
    dedupe: bool = False,
    bind: object = None,
    takes_dict: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that makes a method an event handler; raise ValueError for a reserved name."""
    if name in RESERVED or name.startswith("reactor."):
        own = f"use @{name}" if name in RESERVED else "types starting with 'reactor.' belong to the protocol"
        raise ValueError(f"{decorator} name {name!r}: {own}")

    def mark(function: F) -> F:
        plain = _plain_function(function, f"@{decorator}(name={name!r})")
        with declared_at(plain):
            _check_parameters(plain, "")
            sources = bindings.sources_of(bind, plain.__qualname__)
            declarations = _take_declarations(plain)
            _attach(function, EventMark(name, description, dedupe, declarations, sources, takes_dict))
        return function

    return mark


def connected(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a session starts: after `self.connected` is set and before the first step."""
    return _mark_hook(function, "connected", options)


def disconnected(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a session ends; it still sees the state. `self.connected` is cleared before."""
    return _mark_hook(function, "disconnected", options)


def session_started(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a session has its state, before its first client is connected.

    A class with this hook or `session_ended` has `@connected` and `@disconnected` for every client of a session.
    """
    return _mark_hook(function, "session_started", options)


def session_ended(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a session ends; it still sees the state, which is None afterwards."""
    return _mark_hook(function, "session_ended", options)


def joined(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a controller has taken a seat, whose state is fresh.

    A parameter `seat` gets the number of the seat, a parameter `client` the client.
    """
    return _mark_hook(function, "joined", options)


def left(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, when a seat becomes free; its state has the values of its controller until then.

    The parameters are those of `joined`.
    """
    return _mark_hook(function, "left", options)


def file_uploaded(function: F = _NO_METHOD, /, **options: Never) -> F:
    """Run a method, sync or async, for a file that a client uploaded and that no event refers to within 2 s.

    It gets the `UploadedFile`, and the client in a parameter `client`, between two steps, as an event's handler does.
    """
    if options or function is None:
        raise TypeError("@file_uploaded takes nothing; write it above the method without parentheses")
    plain = _plain_function(function, "@file_uploaded")
    with declared_at(plain):
        _check_parameters(plain, "")
        files = [p for p in parameters_of(plain) if not _gets_client(p)]
        if len(files) != 1:
            raise TypeError(f"{plain.__qualname__}: @file_uploaded passes one file: write (self, uploaded_file)")
    _attach(function, EventMark(UPLOAD_EVENT, "", dedupe=False, declarations=_take_declarations(plain)))
    return function


def _gets_client(parameter: Parameter) -> bool:
    """Return whether a parameter gets the client, by its name or what is written as its annotation."""
    return parameter.name == CLIENT or "ClientInfo" in str(parameter.annotation)


def _mark_hook(function: F, hook: Hook, options: Mapping[str, object]) -> F:
    if options or function is None:
        raise TypeError(f"@{hook} takes nothing; write it above the method without parentheses")
    plain = _plain_function(function, f"@{hook}")
    with declared_at(plain):
        _check_parameters(plain, hook)
    _attach(function, HookMark(hook))
    return function


def mark_of(value: object) -> EventMark | HookMark | None:
    """Return the mark that a decorator left on a class attribute."""
    inner: object = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if not isinstance(inner, FunctionType):
        return None
    mark = vars(inner).get(MARK)
    if mark is not None and inner is not value:
        with declared_at(inner):
            raise TypeError(f"{inner.__qualname__}: a handler is a plain method, not a {type(value).__name__}")
    return mark if isinstance(mark, EventMark | HookMark) else None


def event_spec(method: str, function: FunctionType, mark: EventMark, scope: Scope) -> EventSpec:
    """Compile a method's signature; raise TypeError that names the method and the parameter."""
    plain = innermost(function)
    client, fields = None, []
    for parameter in parameters_of(plain):
        where = f"{plain.__qualname__}: {parameter.name}"
        with declared_at(plain, parameter.name):
            if _takes_client(parameter, scope, where):
                client = _only_client(client, parameter.name, plain)
                continue
            untyped = parameter.annotation is Parameter.empty
            if mark.name == UPLOAD_EVENT:
                hint: Any = UploadedFile
            else:
                hint = AnyValue if untyped else scope.resolve(parameter.annotation, where)
            written = MISSING if parameter.default is Parameter.empty else parameter.default
            declared = mark.declarations.get(parameter.name, written)
            field = compile_field(parameter.name, hint, declared, scope, where)
            if field.info.read_only:
                raise TypeError(f"{where}: clients set a parameter; read_only is for fields of a state")
            fields.append(field)
    with declared_at(plain):
        _check_bindings(mark.sources, fields, plain.__qualname__)
    arguments = EventArguments(mark.name, fields)
    return EventSpec(
        name=mark.name,
        description=mark.description,
        dedupe=mark.dedupe,
        method=method,
        field=None,
        is_async=runs_async(function),
        client_parameter=client,
        arguments=arguments,
        sources=mark.sources,
        replies=replies_of(plain, scope, dedupe=mark.dedupe),
        takes_dict=mark.takes_dict,
    )


def replies_of(function: FunctionType, scope: Scope, *, dedupe: bool) -> tuple[type[ModelMessage] | None, ...] | None:
    """Return the messages that a handler's return annotation names; None if it names anything else.

    With `dedupe`, an event that a newer one replaced gets a reply without a message.
    """
    annotation = inspect.signature(function).return_annotation
    if annotation is Parameter.empty:
        return None
    try:
        hint = scope.resolve(annotation, function.__qualname__)
    # The annotation is only descriptive, and may exist for type checkers alone.
    except TypeError:
        return None
    options = union_options(hint)
    named = [each for each in options if isinstance(each, type) and issubclass(each, ModelMessage)]
    may_lack_message = type(None) in options
    if len(named) + may_lack_message < len(options):
        return None
    return (*named, None) if may_lack_message or dedupe else tuple(named)


def _check_bindings(sources: Sequence[Source], fields: Sequence[FieldSpec], where: str) -> None:
    """Check that the bindings of an event and of its arguments can send a complete event."""
    bindings.check_event(sources, {field.name: field.required for field in fields}, where)
    numbers = bindings.filled(sources, [field.name for field in fields])
    for field in fields:
        if field.name in numbers:
            field.type.convert(0.25, f"{where}: {field.name} is bound")
        if field.required and any(other.sources for other in fields):
            raise TypeError(
                f"{where}: {field.name} needs a default: a binding of another parameter sends the event without it"
            )


def hook_spec(method: str, function: FunctionType, hook: Hook, scope: Scope) -> HookSpec:
    """Compile a hook, whose only parameters may be the client and, in a hook of seats, the seat."""
    plain = innermost(function)
    client, takes_seat = None, False
    for parameter in parameters_of(plain):
        where = f"{plain.__qualname__}: {parameter.name}"
        with declared_at(plain, parameter.name):
            if hook in SEAT_HOOKS and parameter.name == SEAT:
                takes_seat = True
            elif _takes_client(parameter, scope, where):
                client = _only_client(client, parameter.name, plain)
            elif parameter.default is Parameter.empty:
                raise TypeError(f"{where}: {_passed_by(hook)}")
    return HookSpec(hook, method, runs_async(function), client, takes_seat)


def _passed_by(hook: str) -> str:
    if hook in SESSION_HOOKS:
        return f"@{hook} passes nothing, because no client is connected; write `client=None`, or leave it out"
    seat = "the number `seat` and " if hook in SEAT_HOOKS else ""
    return f"@{hook} passes only {seat}a `client: ClientInfo`"


def innermost(function: FunctionType) -> FunctionType:
    """Return the function that decorators made with functools.wraps enclose."""
    plain = inspect.unwrap(function)
    return plain if isinstance(plain, FunctionType) else function


def parameters_of(function: FunctionType) -> list[Parameter]:
    """Return a method's parameters without `self`."""
    return list(inspect.signature(function).parameters.values())[1:]


def runs_async(function: FunctionType) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(innermost(function))


def _plain_function(function: Callable[..., Any], decorator: str) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise TypeError(f"{decorator} goes directly above a method's def, not on {type(function).__name__}")
    plain = innermost(function)
    with declared_at(plain):
        if MARK in vars(plain):
            raise TypeError(f"{plain.__qualname__}: a method can be one handler only; remove one decorator")
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise TypeError(f"{plain.__qualname__}: a handler can't yield; send messages with self.send")
    return plain


def _attach(function: object, mark: EventMark | HookMark) -> None:
    vars(function)[MARK] = mark


def _check_parameters(function: FunctionType, hook: str) -> None:
    name = function.__qualname__
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise TypeError(f"{name}: a handler is a method; its first parameter is self")
    for parameter in parameters[1:]:
        with declared_at(function, parameter.name):
            _check_parameter(name, parameter, hook)


def _check_parameter(handler: str, parameter: Parameter, hook: str) -> None:
    name = parameter.name
    takes_any = name == CLIENT or (name == SEAT and hook in SEAT_HOOKS)
    if hook and parameter.annotation is Parameter.empty and not takes_any:
        raise TypeError(f"{handler}: {name}: {_passed_by(hook)}")
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
        raise TypeError(f"{handler}: {stars}{name} can't be sent by a client; name each parameter")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise TypeError(f"{handler}: {name} is positional-only, but arguments come by name; drop the /")


def _take_declarations(function: FunctionType) -> dict[str, InputDeclaration]:
    """Replace each `InputField` default by its plain default, or none, and return the declarations."""
    parameters = list(inspect.signature(function).parameters.values())
    declared = {p.name: _declared(function, p) for p in parameters}
    taken = {name: default for name, default in declared.items() if isinstance(default, InputDeclaration)}
    positional = [p for p in parameters if p.kind is not Parameter.KEYWORD_ONLY]
    function.__defaults__ = _plain_defaults(positional, taken)
    keywords = function.__kwdefaults__ or {}
    plain = {name: taken[name].default if name in taken else value for name, value in keywords.items()}
    function.__kwdefaults__ = {name: value for name, value in plain.items() if value is not MISSING}
    return taken


def _declared(function: FunctionType, parameter: Parameter) -> object:
    with declared_at(function, parameter.name):
        return plain_declaration(parameter.default, f"{function.__qualname__}: {parameter.name}")


def _plain_defaults(positional: Sequence[Parameter], taken: Mapping[str, InputDeclaration]) -> tuple[Any, ...] | None:
    defaults: list[Any] = []
    for parameter in positional:
        default = parameter.default
        if parameter.name in taken:
            default = taken[parameter.name].default
        # Python allows no parameter without a default after one that has one. Events always give a required argument.
        if default is not Parameter.empty and (default is not MISSING or defaults):
            defaults.append(default)
    return tuple(defaults) or None


def _takes_client(parameter: Parameter, scope: Scope, where: str) -> bool:
    """Return whether a parameter gets the client: by its name, whatever its annotation, or by its annotation."""
    if parameter.name == CLIENT or parameter.annotation is Parameter.empty:
        return parameter.name == CLIENT
    hint = scope.resolve(parameter.annotation, where)
    return hint is ClientInfo or ClientInfo in get_args(hint)


def _only_client(known: str | None, name: str, function: FunctionType) -> str:
    if known is not None:
        raise TypeError(f"{function.__qualname__}: {known} and {name} both get the client; keep one")
    return name
