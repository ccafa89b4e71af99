"""Finds methods that have the form of an event and lack the decorator, for a hint."""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import FunctionType

from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.events.events import parameters_of
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.tracks.discovery import is_ours
from reactor_runtime.authoring.values.limits import NO_LIMITS
from reactor_runtime.authoring.values.typespec import ValuePath, compile_type


def uncallable_methods(cls: type) -> list[str]:
    """Return the public methods of the author that have the form of an event, with annotated parameters, and are none.

    Those that override a method of ours are not counted.
    """
    ours = {name for owner in cls.__mro__ if is_ours(owner) for name in vars(owner)}
    others = {*ours, *handlers_of(cls)}
    authors = [owner for owner in reversed(cls.__mro__) if not is_ours(owner)]
    members = {name: value for owner in authors for name, value in vars(owner).items()}
    public = {name: value for name, value in members.items() if not name.startswith("_") and name not in others}
    return [name for name, value in public.items() if isinstance(value, FunctionType) and _could_be_event(value, cls)]


def _could_be_event(method: FunctionType, cls: type) -> bool:
    """Return whether clients could send all parameters of a method, of which it has some."""
    parameters = parameters_of(method)
    if inspect.isgeneratorfunction(method) or any(p.annotation is Parameter.empty for p in parameters):
        return False
    scope = Scope.of_class(cls, {}).of_handler(method, cls)
    try:
        for parameter in parameters:
            compile_type(scope.resolve(parameter.annotation, ""), NO_LIMITS, ValuePath("", scope))
    except TypeError:
        return False
    return bool(parameters)
