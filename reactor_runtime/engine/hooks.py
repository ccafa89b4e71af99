"""Calling what an author wrote: handlers and lifecycle hooks, sync or async, with the client where they ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactor_runtime.authoring.events import EventSpec, HookSpec
from reactor_runtime.authoring.model import Model
from reactor_runtime.engine.session import Session


async def call_author(
    model: Model,
    spec: EventSpec | HookSpec,
    session: Session,
    arguments: Mapping[str, Any] | None = None,
    *,
    stoppable: bool = True,
) -> object:
    """Call a handler or hook and return what it returned.

    An async one that is `stoppable` ends with SessionStopped when the client goes.
    """
    assert spec.method is not None, "a generated event has no method to call"
    values = dict(arguments or {})
    if spec.client_parameter is not None:
        values[spec.client_parameter] = session.client
    result = getattr(model, spec.method)(**values)  # the name was found when the class was compiled
    if not spec.is_async:
        return result
    return await (session.guard(result) if stoppable else result)
