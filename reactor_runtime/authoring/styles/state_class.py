"""The state class of a model, which its class annotates: `state: MyState`."""

from __future__ import annotations

from typing import Any, TypeVar

from reactor_runtime.authoring.code.annotations import Scope, own_annotations, type_name, union_options
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.tracks.discovery import class_annotating

_STATE = "__reactor_state__"


def store_state(cls: type, scope: Scope, *, required: bool) -> None:
    """Store the state class that `cls` annotates; skip an annotation with an undefined name.

    Raises TypeError for another annotation if the state is `required`, and always for a union with a state class.
    """
    if class_annotating(cls, "state") is not cls:
        return
    with declared_at(cls, "state"):
        try:
            setattr(cls, _STATE, _resolve(cls, scope, required=required))
        except TypeError as error:
            if not isinstance(error.__cause__, NameError):
                raise


def state_of(model: type, *, required: bool) -> type[InputState] | None:
    """Return the model's state class; None if there is none, or if `state` is an attribute of another type.

    Raises TypeError with the fix if the annotation can't be resolved, or if there is no state and it is `required`.
    """
    owner = class_annotating(model, "state")
    with declared_at(model, "state"):
        state: type[InputState] | None = None
        if owner is not None and _STATE in vars(owner):
            state = vars(owner)[_STATE]
        elif owner is not None:
            state = _resolve(owner, Scope.of_class(owner, {}), required=required)
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


def _resolve(owner: type, scope: Scope, *, required: bool) -> type[InputState] | None:
    hint: Any = scope.resolve(own_annotations(owner)["state"], f"{owner.__name__}.state")
    # A base class leaves the state to its subclasses.
    if isinstance(hint, TypeVar):
        return None
    if _is_state(hint):
        state: type[InputState] = hint
        return state
    if required or any(map(_is_state, union_options(hint))):
        raise TypeError(
            f"{owner.__name__}.state must be annotated with a subclass of InputState, not {type_name(hint)}"
        )
    return None


def _is_state(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, InputState)
