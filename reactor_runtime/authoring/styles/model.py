"""The base class of the models of all styles."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar

from reactor_runtime.authoring.code.annotations import Scope, own_annotations, union_options
from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.handlers import compile_handlers
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.seat import check_seats
from reactor_runtime.authoring.styles.state_class import state_of, store_state
from reactor_runtime.authoring.tracks.discovery import class_annotating, find, store_local_classes
from reactor_runtime.authoring.tracks.inputs import Input, compile_inputs, join_all
from reactor_runtime.authoring.tracks.tracks import Output

_OUTPUTS = "__reactor_outputs__"
_NUMBERS = ("warmup", "max_fps", "sessions_per_model")
# The most sessions that share a loaded model.
MOST_SESSIONS = 64


class Model:
    """Compile the declarations of a model of any style; the runtime creates one instance, before any client."""

    fps: float
    # The annotated state class in a model that has a state, else what the author makes of it.
    state: Any
    # The number of seats of a class, or what `load()` sets; afterwards the list of them, in a model that has several.
    seats: Any
    # The annotated class of the state that each seat has.
    seat_state: Any
    # None is the default of the style.
    buffer_size: int | None = 4
    max_fps: float = 60
    warmup: int = 0
    # How many sessions share a loaded model, each with a shallow copy of it.
    sessions_per_model: int = 1
    # Attributes of the runtime have this prefix, because authors keep anything else on `self`.
    # The engine sets it while the model loads.
    _reactor_on_load_progress: ClassVar[Callable[[float | None, str], None] | None] = None
    # The engine sets these when the model is made.
    _reactor_on_progress: Callable[[float | None, str], None] | None = None
    _reactor_on_end: Callable[[str], None] | None = None
    # The inputs that the engine has assigned, by attribute.
    _reactor_inputs: Mapping[str, Input] = MappingProxyType({})
    _reactor_needs_state = False
    # For `hints`, which does not import these classes.
    _reactor_hints: ClassVar[Mapping[str, str]] = {
        "input": "declare it: `class MyInput(Input): camera: Video`, and `input: MyInput` in the model",
        "output": "`output: MyOutput` only declares the tracks: yield MyOutput(…)",
    }

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _check_rates(cls)
        scope = Scope.of_definition(cls)
        store_local_classes(cls, scope)
        compile_handlers(cls, scope)
        store_state(cls, "state", scope, required=cls._reactor_needs_state)
        store_state(cls, "seat_state", scope, required=False)
        _store_selected_outputs(cls, scope)
        join_all(cls.__name__, outputs_of(cls), compile_inputs(cls, scope).values())

    def load(self, config: Any) -> Any:
        """Prepare the model: read weights, allocate memory. Runs once, before any client; override it, sync or async.

        `config` is a dict, or the path of the config file, None without one, if the parameter is called `config_path`
        or annotated `Path`.
        """

    def progress(self, fraction: float | None, message: str = "") -> None:
        """Report how far the model is: a number from 0 to 1, or None if that is unknown.

        The page shows it with the message while the model loads, as the terminal does, and in a session until its first
        frame or sound; at other times it has no effect. Any thread. Raises ValueError for any other number.
        """
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"progress must be from 0 to 1, not {fraction!r}")
        report = type(self)._reactor_on_load_progress or self._reactor_on_progress
        if report is not None:
            report(None if fraction is None else float(fraction), message)

    def end(self, reason: str = "") -> None:
        """End the session when the frames so far have been shown; the page shows the reason beside "Play again".

        Any thread; has no effect without a session. A `VideoModel` also has to return from `start_session()`.
        """
        if self._reactor_on_end is not None:
            self._reactor_on_end(reason)


def takes_path(model: type[Model]) -> bool:
    """Return whether `load()` takes the path of the config file: its first parameter is called or annotated so."""
    first = next(iter(list(inspect.signature(model.load).parameters.values())[1:]), None)
    if first is None:
        return False
    written = first.annotation if isinstance(first.annotation, str) else inspect.formatannotation(first.annotation)
    return first.name == "config_path" or re.search(r"\bPath\b", written) is not None


def outputs_of(model: type) -> tuple[type[Output], ...]:
    """Return the Output classes of a model: those it annotates as `output: …`, else those of its modules."""
    for owner in model.__mro__:
        narrowed: tuple[type[Output], ...] | None = vars(owner).get(_OUTPUTS)
        if narrowed is not None:
            return narrowed
    return find(model, Output)


def declared_state(model: type[Model]) -> type[InputState] | None:
    """Return the model's state class; None if it has none. Raises TypeError if it needs one and its seats have none."""
    return state_of(model, "state", required=model._reactor_needs_state and declared_seat_state(model) is None)


def declared_seat_state(model: type[Model]) -> type[InputState] | None:
    """Return the class of the state that each seat of the model has; None if it has none."""
    return state_of(model, "seat_state", required=False)


def _store_selected_outputs(cls: type, scope: Scope) -> None:
    if class_annotating(cls, "output") is not cls:
        return
    with declared_at(cls, "output"):
        hint = scope.resolve(own_annotations(cls)["output"], f"{cls.__name__}.output")
    options = union_options(hint)
    if all(isinstance(option, type) and issubclass(option, Output) and option is not Output for option in options):
        setattr(cls, _OUTPUTS, options)


def _check_rates(cls: type) -> None:
    checks = {
        "fps": _check_rate,
        "max_fps": _check_rate,
        "buffer_size": _check_size,
        "warmup": check_steps,
        "sessions_per_model": _check_sessions,
        "seats": check_seats,
    }
    for name, check in checks.items():
        if name in vars(cls) and not _is_own_method(name, vars(cls)[name]):
            with declared_at(cls, name):
                check(vars(cls)[name], f"{cls.__name__}.{name}")
    most = vars(cls).get("max_fps", 1.0)
    if not callable(most) and most < 1:
        with declared_at(cls, "max_fps"):
            raise ValueError(f"{cls.__name__}.max_fps must be at least 1, not {vars(cls)['max_fps']!r}")


def number_of(model: Model | type[Model], name: str) -> float:
    """Return one of `_NUMBERS` of a model; the default where its author has a method of that name."""
    value: float = getattr(model, name)
    default: float = getattr(Model, name)
    return default if _is_own_method(name, value) else value


def _is_own_method(name: str, value: object) -> bool:
    return name in _NUMBERS and callable(value)


def _check_rate(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where} must be a number of frames a second, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{where} must be above 0, not {value!r}")


def _check_size(value: object, where: str) -> None:
    if value is not None:
        _check_whole(value, where, of="frames", least=1)


def _check_sessions(value: object, where: str) -> None:
    _check_whole(value, where, of="sessions", least=1)
    if isinstance(value, Integral) and int(value) > MOST_SESSIONS:
        raise ValueError(f"{where} must be at most {MOST_SESSIONS}, not {value!r}")


def check_steps(value: object, where: str) -> None:
    """Raise TypeError or ValueError for a `warmup` that is not a whole number from 0."""
    _check_whole(value, where, of="steps", least=0)


def _check_whole(value: object, where: str, *, of: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{where} must be a whole number of {of}, not {value!r}")
    if value < least:
        raise ValueError(f"{where} must be at least {least}, not {value!r}")
