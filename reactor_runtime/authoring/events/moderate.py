"""The optional method `moderate` of a model, which decides about values declared `InputField(moderate=True)`."""

from __future__ import annotations

import inspect
from types import FunctionType

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.events import innermost, runs_async
from reactor_runtime.authoring.events.handlers import handlers_of

METHOD = "moderate"
_FORM = f"async def {METHOD}(self, value, *, event, field, client)"


def moderates(model: type) -> bool:
    """Return whether a model class has the method.

    A method of this name that takes other arguments, or is the handler of an event, is something else.
    """
    method = _method(model)
    return method is not None and _fits(method) and runs_async(method)


def check_moderate(model: type) -> None:
    """Raise TypeError for a method that was probably meant to decide about values, in a model that has such values."""
    method, member = _method(model), inspect.getattr_static(model, METHOD, None)
    if isinstance(member, staticmethod | classmethod):
        problem = f"is a {type(member).__name__}"
    elif method is None or _fits(method) is runs_async(method):
        return
    else:
        problem = "is not async" if _fits(method) else "can't be called with value, event, field and client"
    with declared_at(model, METHOD):
        raise TypeError(f"{model.__name__}.{METHOD} {problem}: write `{_FORM}`")


def _method(model: type) -> FunctionType | None:
    method = inspect.getattr_static(model, METHOD, None)
    return method if isinstance(method, FunctionType) and METHOD not in handlers_of(model) else None


def _fits(method: FunctionType) -> bool:
    try:
        inspect.signature(innermost(method)).bind(None, "value", event="", field="", client=None)
    except TypeError:
        return False
    return True
