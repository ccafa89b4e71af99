"""The state classes of a model, which its class annotates: `state: MyState`, and `seat_state` for one of each seat."""

from __future__ import annotations

from typing import Any, TypeVar

from reactor_runtime.authoring.code.annotations import Scope, own_annotations, type_name, union_options
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.tracks.discovery import class_annotating

# Where a class stores what it annotates, by the name of the attribute.
_STORED = {"state": "__reactor_state__", "seat_state": "__reactor_seat_state__"}


def store_state(cls: type, name: str, scope: Scope, *, required: bool) -> None:
    """Store the state class that `cls` annotates as `name`; skip an annotation with an undefined name.

    Raises TypeError for another annotation if the state is `required`, and always for a union with a state class.
    """
    if class_annotating(cls, name) is not cls:
        return
    with declared_at(cls, name):
        try:
            setattr(cls, _STORED[name], _resolve(cls, name, scope, required=required))
        except TypeError as error:
            if not isinstance(error.__cause__, NameError):
                raise


def state_of(model: type, name: str, *, required: bool) -> type[InputState] | None:
    """Return the state class annotated as `name`; None if there is none, or if it is an attribute of another type.

    Raises TypeError with the fix if the annotation can't be resolved, or if there is no state and it is `required`.
    """
    owner = class_annotating(model, name)
    with declared_at(model, name):
        state: type[InputState] | None = None
        if owner is not None and _STORED[name] in vars(owner):
            state = vars(owner)[_STORED[name]]
        elif owner is not None:
            state = _resolve(owner, name, Scope.of_class(owner, {}), required=required)
        if state is None and required:
            raise without_state(model)
        return state


def without_state(cls: type) -> TypeError:
    """Return the error for a model that needs a state and has none."""
    given = vars(cls).get("state")
    named = given if isinstance(given, type) else type(given)
    if issubclass(named, InputState):
        return TypeError(f"{cls.__name__}.state must be an annotation, not a value: write `state: {named.__name__}`")
    return TypeError(
        f"{cls.__name__} needs a state: define `class MyState(InputState)` and add `state: MyState` to {cls.__name__}"
    )


def _resolve(owner: type, name: str, scope: Scope, *, required: bool) -> type[InputState] | None:
    hint: Any = scope.resolve(own_annotations(owner)[name], f"{owner.__name__}.{name}")
    # A base class leaves the state to its subclasses.
    if isinstance(hint, TypeVar):
        return None
    if _is_state(hint):
        state: type[InputState] = hint
        return state
    if required or any(map(_is_state, union_options(hint))):
        raise TypeError(
            f"{owner.__name__}.{name} must be annotated with a subclass of InputState, not {type_name(hint)}"
        )
    return None


def _is_state(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, InputState)
