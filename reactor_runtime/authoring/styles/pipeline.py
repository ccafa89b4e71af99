"""The generator style: `ReactorPipeline`, whose `inference()` yields frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Never, final

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.styles.state_class import without_state
from reactor_runtime.authoring.tracks.discovery import class_annotating, is_ours


class _IdleType(type):
    # There is one Idle: calling it, or its type, returns it.
    def __new__(cls, name: str = "", bases: tuple[type, ...] = (), members: dict[str, Any] | None = None) -> _IdleType:
        return super().__new__(cls, name, bases, members) if members else Idle

    def __init__(cls, *_definition: object) -> None:
        pass

    def __call__(cls, *_: Never) -> Any:
        return cls

    def __bool__(cls) -> bool:
        return False

    def __repr__(cls) -> str:
        return cls.__name__


@final
class Idle(metaclass=_IdleType):
    """Mark a step without a frame: yield `Idle` or `Idle()`, which are the same. It is false in conditions.

    The next event or input starts the next step.
    """


def is_idle(value: object) -> bool:
    """Return whether a yielded value means that there is no frame."""
    return value is None or value is Idle


class ReactorPipeline(AsyncModel):
    """Write a model as a generator: annotate `state`, prepare in `load()`, yield frames from `inference()`.

    A model with a `seat_state` may leave `state` out.

    Declare `fps` for a fixed rate; without it, frames play as fast as the model makes them, up to `max_fps`.
    `buffer_size` is the maximum number of bundles that wait to be shown; without it, 4 or two batches, at most 50.
    Events run between two yields, never within a step. `self.state` is None outside a session.
    """

    _reactor_needs_state = True
    # None outside of sessions, where authors do not read it.
    state: InputState = None  # type: ignore[assignment]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        with declared_at(cls, "state"):
            yields = any("inference" in vars(owner) for owner in cls.__mro__ if not is_ours(owner))
            if yields and class_annotating(cls, "state") is None and class_annotating(cls, "seat_state") is None:
                raise without_state(cls)

    def inference(self) -> Iterator[Any] | AsyncIterator[Any]:
        """Yield an Output, a frame, a batch or Idle; a sync or async generator, started for each session."""
        raise NotImplementedError(f"{type(self).__name__} needs inference(), a generator that yields frames")
