"""Calls of the author's handlers and hooks, sync or async; those with a parameter for the client receive it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from reactor_runtime.authoring.events.events import EventSpec, HookSpec
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.session import ModelSession


def author_call(
    model: Model, spec: EventSpec | HookSpec, session: ModelSession, arguments: Mapping[str, Any] | None = None
) -> Callable[[], Any]:
    """Return a call of a handler or hook with these arguments; of a generated event, a call that sets its field.

    A parameter for the client that is not among the arguments gets the client that has started the session.
    """
    values = dict(arguments or {})
    if spec.method is None:
        assert spec.field is not None, "an event without a method sets a field"
        return functools.partial(setattr, model.state, spec.field, values[spec.field])
    if spec.client_parameter is not None:
        values.setdefault(spec.client_parameter, session.client)
    # The name was found when the class was compiled.
    return functools.partial(getattr(model, spec.method), **values)


async def call_author(
    model: Model,
    spec: EventSpec | HookSpec,
    session: ModelSession,
    arguments: Mapping[str, Any] | None = None,
    *,
    stoppable: bool = True,
) -> object:
    """Call a handler or hook and return what it returned.

    An async one that is `stoppable` ends with SessionStopped when the client leaves.
    """
    session.draw_numbers()
    result = author_call(model, spec, session, arguments)()
    if not spec.is_async:
        return result
    return await (session.guard(result) if stoppable else session.with_numbers(result))
