"""The generator style: `ReactorPipeline`, whose `inference()` yields frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, final

from reactor_runtime.authoring.code.annotations import Scope, own_annotations, type_name
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.tracks.discovery import class_annotating, is_ours

_STATE = "__reactor_state__"


class _Falsy(type):
    def __bool__(cls) -> bool:
        return False


@final
class Idle(metaclass=_Falsy):
    """Mark a step without a frame: yield the class or an instance. The next event or input starts the next step.

    Both are false in conditions.
    """

    def __bool__(self) -> bool:
        return False


def is_idle(value: object) -> bool:
    """Return whether a yielded value means that there is no frame."""
    return value is None or value is Idle or isinstance(value, Idle)


class ReactorPipeline(AsyncModel):
    """Write a model as a generator: annotate `state`, prepare in `load()`, yield frames from `inference()`.

    Declare `fps` for a fixed rate; without it, frames play as fast as the model makes them, up to `max_fps`.
    `buffer_size` is the maximum number of bundles that wait to be shown; without it, 4 or two batches, at most 50.
    Events run between two yields, never within a step. `self.state` is None outside a session.
    """

    # None outside of sessions, where authors do not read it.
    state: InputState = None  # type: ignore[assignment]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        scope = Scope.of_definition(cls)
        with declared_at(cls, "state"):
            _keep_state(cls, scope)
            yields = any("inference" in vars(owner) for owner in _author_classes(cls))
            if yields and class_annotating(cls, "state") is None:
                raise _without_state(cls)

    def inference(self) -> Iterator[Any] | AsyncIterator[Any]:
        """Yield an Output, a frame, a batch or Idle; a sync or async generator, started for each session."""
        raise NotImplementedError(f"{type(self).__name__} needs inference(), a generator that yields frames")


def state_of(model: type[ReactorPipeline]) -> type[InputState]:
    """Return the model's state class; raise TypeError with the fix if there is none."""
    owner = class_annotating(model, "state")
    with declared_at(model, "state"):
        if owner is None:
            raise _without_state(model)
        known: type[InputState] | None = vars(owner).get(_STATE)
        if known is not None:
            return known
        hint = Scope.of_class(owner, {}).resolve(own_annotations(owner)["state"], f"{owner.__name__}.state")
        if isinstance(hint, TypeVar):
            raise _without_state(model)
        return _checked(owner, hint)


def _keep_state(cls: type, scope: Scope) -> None:
    """Store the state class on the model class; skip an annotation with an undefined name or a TypeVar."""
    if class_annotating(cls, "state") is not cls:
        return
    try:
        hint = scope.resolve(own_annotations(cls)["state"], f"{cls.__name__}.state")
    except TypeError as error:
        if isinstance(error.__cause__, NameError):
            return
        raise
    if not isinstance(hint, TypeVar):
        setattr(cls, _STATE, _checked(cls, hint))


def _checked(cls: type, hint: Any) -> type[InputState]:
    if isinstance(hint, type) and issubclass(hint, InputState):
        return hint
    raise TypeError(f"{cls.__name__}.state must be annotated with a subclass of InputState, not {type_name(hint)}")


def _author_classes(cls: type) -> list[type]:
    return [owner for owner in cls.__mro__ if not is_ours(owner)]


def _without_state(cls: type) -> TypeError:
    given = vars(cls).get("state")
    named = given if isinstance(given, type) else type(given)
    if issubclass(named, InputState):
        return TypeError(f"{cls.__name__}.state must be an annotation, not a value: write `state: {named.__name__}`")
    return TypeError(
        f"{cls.__name__} needs a state: define `class MyState(InputState)` and add `state: MyState` to {cls.__name__}"
    )
