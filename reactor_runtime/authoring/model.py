"""What all models have in common, whatever style they are written in."""

from __future__ import annotations

import asyncio
import math
from numbers import Real
from typing import Any, Protocol

from reactor_runtime.authoring.annotations import Scope, own_annotations, union_options
from reactor_runtime.authoring.discovery import declaring, find, remember_neighbours
from reactor_runtime.authoring.handlers import compile_handlers
from reactor_runtime.authoring.inputs import compile_inputs, join_all
from reactor_runtime.authoring.messages import ModelMessage
from reactor_runtime.authoring.source import declared_at
from reactor_runtime.authoring.tracks import Output

_RESERVED = ("connected", "output_buffer", "send", "send_nowait")
_OUTPUTS = "__reactor_outputs__"


class OutputBuffer(Protocol):
    """The queue between a model and its viewers."""

    @property
    def fps(self) -> float:
        """The rate frames leave at."""
        ...

    def set_fps(self, fps: float) -> None:
        """Change the rate from the next frame on; ValueError unless it is above 0."""
        ...

    def flush(self) -> None:
        """Show nothing that is queued, and one black frame instead."""
        ...


class Runtime(Protocol):
    """What a model needs of those who run it."""

    @property
    def connected(self) -> asyncio.Event: ...

    @property
    def output_buffer(self) -> OutputBuffer: ...

    def send(self, message: ModelMessage) -> None: ...

    async def emit(self, output: object, *, compute_time: float | None, drop: bool) -> None: ...


class Model:
    """Give a model its clients' presence, messages and output; made by the runtime, once, before any client."""

    fps: float
    buffer_size: int = 4
    max_fps: float = 60
    _runtime: Runtime | None = None  # set from outside before load(), as authors' __init__ needn't call ours

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _check_names(cls)
        _check_rates(cls)
        scope = Scope.of_definition(cls)
        remember_neighbours(cls, scope)
        compile_handlers(cls, scope)
        _narrow_outputs(cls, scope)
        join_all(cls.__name__, outputs_of(cls), compile_inputs(cls, scope).values())

    def load(self, config: dict[str, Any]) -> None:
        """Prepare the model: read weights, allocate memory. Runs once, before any client; yours to override."""

    @property
    def connected(self) -> asyncio.Event:
        """Is set while a client is connected."""
        return self._served().connected

    @property
    def output_buffer(self) -> OutputBuffer:
        """The queue of frames that wait to be shown."""
        return self._served().output_buffer

    async def send(self, message: ModelMessage) -> None:
        """Send a message to the session's clients, in order with the frames before it; no client: nothing happens."""
        self._served().send(message)

    def send_nowait(self, message: ModelMessage) -> None:
        """Do what `send` does, from sync code and from any thread."""
        self._served().send(message)

    def _served(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError(f"{type(self).__name__} isn't being run; this works from load() on, not in __init__")
        return self._runtime


def outputs_of(model: type) -> tuple[type[Output], ...]:
    """List the Output classes of a model: those it names as `output: …`, else those its modules hold."""
    for owner in model.__mro__:
        narrowed: tuple[type[Output], ...] | None = vars(owner).get(_OUTPUTS)
        if narrowed is not None:
            return narrowed
    return find(model, Output)


def _narrow_outputs(cls: type, scope: Scope) -> None:
    if declaring(cls, "output") is not cls:
        return
    with declared_at(cls, "output"):
        hint = scope.resolve(own_annotations(cls)["output"], f"{cls.__name__}.output")
    options = union_options(hint)
    if all(isinstance(option, type) and issubclass(option, Output) and option is not Output for option in options):
        setattr(cls, _OUTPUTS, options)


def _check_names(cls: type) -> None:
    for name in _RESERVED:
        if name in vars(cls):
            with declared_at(cls, name):
                raise TypeError(f"{cls.__name__}.{name} would hide the model's own self.{name}; give it another name")


def _check_rates(cls: type) -> None:
    for name, check in (("fps", _check_rate), ("max_fps", _check_rate), ("buffer_size", _check_size)):
        if name in vars(cls):
            with declared_at(cls, name):
                check(vars(cls)[name], f"{cls.__name__}.{name}")
    if vars(cls).get("max_fps", 1.0) < 1:
        with declared_at(cls, "max_fps"):
            raise ValueError(f"{cls.__name__}.max_fps must be at least 1, not {vars(cls)['max_fps']!r}")


def _check_rate(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where} must be a number of frames a second, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{where} must be above 0, not {value!r}")


def _check_size(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where} must be a whole number of frames, not {value!r}")
    if value < 1:
        raise ValueError(f"{where} must be at least 1, not {value!r}")
