"""Finds the handlers of a model class: its own, inherited ones, and overrides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from types import FunctionType

from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.events import (
    CLIENT,
    UPLOAD_EVENT,
    EventMark,
    EventSpec,
    HookSpec,
    declare,
    event_spec,
    file_uploaded,
    hook_spec,
    innermost,
    mark_of,
    parameters_of,
    replies_of,
    runs_async,
)
from reactor_runtime.authoring.values.fields import InputDeclaration, plain_declaration

_OWN = "__reactor_own_handlers__"
_EFFECTIVE = "__reactor_handlers__"

Handler = EventSpec | HookSpec


def compile_handlers(cls: type, scope: Scope) -> None:
    """Compile the handlers of a class body and store them on the class; raise TypeError for wrong or duplicate ones."""
    inherited = _joined(cls.__mro__[1:], scope)
    setattr(cls, _OWN, _own_handlers(cls, inherited, scope))
    setattr(cls, _EFFECTIVE, _joined(cls.__mro__, scope))


def handlers_of(cls: type) -> Mapping[str, Handler]:
    """Return a model's handlers, inherited ones included, by method name."""
    handlers: dict[str, Handler] = vars(cls)[_EFFECTIVE]
    return handlers


def _joined(owners: Sequence[type], scope: Scope) -> dict[str, Handler]:
    """Merge the handlers of classes in MRO order; an event also replaces a parent's event of the same name."""
    found: dict[str, Handler] = {}
    for owner in reversed(owners):
        own = vars(owner).get(_OWN)
        # A mixin that is not a model has no compiled handlers.
        if own is None:
            own = _own_handlers(owner, found, scope)
        for method, handler in own.items():
            _replace(found, method, handler)
    return found


def _replace(found: dict[str, Handler], method: str, handler: Handler | None) -> None:
    found.pop(method, None)
    if handler is None:
        return
    for other in [other for other, known in found.items() if _key(known) == _key(handler)]:
        del found[other]
    found[method] = handler


def _key(handler: Handler) -> tuple[str, str]:
    return ("event", handler.name) if isinstance(handler, EventSpec) else ("hook", handler.hook)


def _own_handlers(cls: type, inherited: Mapping[str, Handler], scope: Scope) -> dict[str, Handler | None]:
    own: dict[str, Handler | None] = {}
    for method, value in list(vars(cls).items()):
        with declared_at(cls, method):
            if mark_of(value) is not None or method in inherited:
                own[method] = _own_handler(cls, method, value, inherited.get(method), scope)
    _refuse_doubles(cls, own)
    return own


def _own_handler(cls: type, method: str, value: object, parent: Handler | None, scope: Scope) -> Handler | None:
    if value is None:
        return None
    if not isinstance(value, FunctionType):
        raise TypeError(f"{cls.__name__}.{method} replaces a handler, so it must be a method, or None to remove it")
    mark = mark_of(value)
    names = scope.of_handler(innermost(value), cls)
    if isinstance(mark, EventMark):
        return event_spec(method, value, mark, names)
    if mark is not None:
        return hook_spec(method, value, mark.hook, names)
    if isinstance(parent, HookSpec):
        return hook_spec(method, value, parent.hook, names)
    assert parent is not None, "an unmarked method is compiled only if it overrides a handler"
    return _override(cls, method, value, parent, names)


def _override(cls: type, method: str, function: FunctionType, parent: EventSpec, scope: Scope) -> EventSpec:
    """Compile an undecorated override from its own signature if it has types, else from the parent's."""
    parameters = parameters_of(innermost(function))
    takes_any_keyword = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    has_input_fields = [isinstance(plain_declaration(p.default, p.name), InputDeclaration) for p in parameters]
    has_types = any(has_input_fields) or any(p.annotation is not Parameter.empty for p in parameters)
    if has_types and not takes_any_keyword:
        redecorate = file_uploaded if parent.name == UPLOAD_EVENT else _decorator_of(parent)
        mark = mark_of(redecorate(function))
        assert isinstance(mark, EventMark), "event marks the function it decorates"
        return event_spec(method, function, mark, scope)
    client = CLIENT if any(p.name == CLIENT for p in parameters) else parent.client_parameter
    arguments = [*parent.arguments.names, *([client] if client else [])]
    try:
        inspect.signature(innermost(function)).bind(None, **dict.fromkeys(arguments))
    except TypeError as error:
        raise TypeError(
            f"{cls.__name__}.{method} replaces the handler of event {parent.name!r} but can't take its arguments "
            f"({', '.join(arguments) or 'none'}): {error}"
        ) from error
    replies = parent.replies
    if inspect.signature(function).return_annotation is not Parameter.empty:
        replies = replies_of(innermost(function), scope, dedupe=parent.dedupe)
    return replace(parent, method=method, is_async=runs_async(function), client_parameter=client, replies=replies)


def _decorator_of(event: EventSpec) -> Callable[[FunctionType], FunctionType]:
    return declare(
        "event",
        event.name,
        event.description,
        dedupe=event.dedupe,
        bind=event.sources,
        takes_dict=event.takes_dict,
    )


def _refuse_doubles(cls: type, own: Mapping[str, Handler | None]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for method, handler in own.items():
        if handler is None:
            continue
        first = seen.setdefault(_key(handler), method)
        if first != method:
            kind, name = _key(handler)
            what = f"event {name!r}" if kind == "event" and name != UPLOAD_EVENT else f"@{name.rpartition('.')[2]}"
            with declared_at(cls, method):
                raise TypeError(f"{cls.__name__}: {what} is handled by both {first} and {method}; keep one of them")
