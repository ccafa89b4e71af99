"""Construction and `load()` of the author's model, with errors that point at the author's line."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime.authoring.code.source import attached_location, location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.model_config import ModelConfig
from reactor_runtime.authoring.styles.model import Model, check_steps, number_of
from reactor_runtime.authoring.styles.seat import check_seats, seats_of
from reactor_runtime.config import GivenConfig, write
from reactor_runtime.engine.config_hint import config_hint
from reactor_runtime.engine.served import Version
from reactor_runtime.errors import ConfigError, LoadError, ModelFailed, author_error
from reactor_runtime.ipc.messages import Load, ReloadFiles
from reactor_runtime.media.pacer import Schedule

logger = logging.getLogger(__name__)

E = TypeVar("E", LoadError, ModelFailed)


def given_config(message: Load | ReloadFiles) -> GivenConfig:
    """Return the config in a message of the server."""
    file, merged = (None if not name else Path(name) for name in (message.config_file, message.merged_config))
    return GivenConfig(message.config, file, merged)


def make_model(contract: Contract, config: dict[str, Any], project: Path) -> Model:
    """Construct the model; an exception of its __init__ becomes a LoadError."""
    try:
        return contract.style.make(contract.model, config)
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise _error(LoadError, f"making {contract.model.__name__} failed", error, project) from error


def call_load(
    model: Model,
    config: ModelConfig | dict[str, Any],
    project: Path,
    run: Callable[[Coroutine[Any, Any, Any]], Any] | None = None,
) -> None:
    """Call `load()`; an exception becomes a LoadError that points at the author's line. See `run_load` for `run`."""
    try:
        run_load(model, config if isinstance(config, ModelConfig) else ModelConfig(config, config), run)
    except ConfigError:
        raise
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise _error(LoadError, "load() failed", error, project) from error


def run_load(model: Model, config: ModelConfig, run: Callable[[Coroutine[Any, Any, Any]], Any] | None = None) -> None:
    """Call `load()`, sync or async; raise what it raises.

    An async one runs with `run`, by default on a loop of its own, on another thread if this one runs a loop.
    """
    if config.is_merged and isinstance(config.argument, Path):
        write(config.argument, config.values)
        logger.info("load() gets the config with the values that were set file=%s", config.argument)
    load: Callable[[Any], Any] = model.load
    loading = load(config.argument)
    if not inspect.iscoroutine(loading):
        return
    if run is not None:
        run(loading)
    elif not _is_in_loop():
        asyncio.run(loading)
    else:
        # The owner of the runners that are started is in the context.
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1, thread_name_prefix="reactor-load") as pool:
            pool.submit(context.run, asyncio.run, loading).result()


def check_copy(version: Version) -> None:
    """Raise LoadError if the loaded model can't be copied, which each of its sessions needs."""
    try:
        version.copied()
    # Its class may define `__copy__` or `__reduce__`.
    except BaseException as error:
        model = type(version.model)
        hint = "each session gets a shallow copy of the loaded model: set sessions_per_model = 1, or remove __copy__"
        raise LoadError(f"{model.__name__} can't be copied: {error}", hint=hint, where=location_of(model)) from error


def as_loaded(version: Version, fps: float | None) -> Version:
    """Return a version with the tracks, the number of seats and the rate that its `load()` has set.

    `fps` is the rate that it has given the output, None if it has given none; it may also assign one to the class.
    Raises LoadError for tracks that clash, for a wrong number of seats, and for a wrong rate.
    """
    contract = with_made_outputs(version.contract, version.model)
    assigned = _assigned_rate(contract)
    contract = contract.with_seats(_loaded_seats(version.model))
    return replace(version, contract=contract, assigned_fps=assigned if fps is None else fps)


def _assigned_rate(contract: Contract) -> float | None:
    """Return the rate that `load()` has assigned to the class; None if there is none.

    Raises LoadError for a wrong rate.
    """
    try:
        fps = contract.with_current_rate().fps
        if fps is not None:
            # Raises ValueError for a rate that none can have.
            Schedule(fps)
    except (TypeError, ValueError) as error:
        where = location_of(contract.model, "load")
        raise LoadError(f"{contract.model.__name__}.fps after load(): {error}", where=where) from error
    return None if fps == contract.fps else fps


def _loaded_seats(model: Model) -> int:
    seats, kind = seats_of(model), type(model)
    try:
        check_seats(seats, f"{kind.__name__}.seats after load()")
    except ValueError as error:
        raise LoadError(str(error), where=location_of(kind, "load")) from error
    return seats


def with_made_outputs(contract: Contract, model: Model) -> Contract:
    """Return the contract with the tracks that `load()` has made; raise LoadError for tracks that clash."""
    try:
        return contract.with_made_outputs(model)
    except TypeError as error:
        name, where = contract.model.__name__, location_of(contract.model, "load")
        raise LoadError(f"{name}.tracks after load(): {error}", where=where) from error


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def warm_up_steps(model: Model) -> int:
    """Return the model's `warmup`; raise LoadError if `load()` has assigned something else than a number of steps."""
    steps = number_of(model, "warmup")
    try:
        check_steps(steps, "self.warmup")
    except (TypeError, ValueError) as error:
        raise LoadError(str(error), where=location_of(type(model), "load")) from error
    return int(steps)


def warm_up_failure(error: BaseException, step: int, project: Path) -> LoadError:
    """Return the error for an exception in a step of the warm-up; it points at the author's line."""
    failure = _error(LoadError, f"step {step} of the warm-up failed", error, project)
    failure.where = attached_location(error) or failure.where
    return failure


def load_failure(error: BaseException, contract: Contract, project: Path) -> LoadError:
    """Return the error for an exception in the construction or `load()` of a model; it points at the author's line."""
    in_load = contract.style.config_method == "load"
    return _error(LoadError, "load() failed" if in_load else f"making {contract.model.__name__} failed", error, project)


def session_failure(error: BaseException, project: Path) -> ModelFailed:
    """Return the error for an exception that ended a session; it points at the author's line."""
    failure = _error(ModelFailed, "the model failed", error, project)
    failure.where = attached_location(error) or failure.where
    return failure


def _error(kind: type[E], what: str, error: BaseException, project: Path) -> E:
    failure = author_error(kind, what, error, project)
    failure.hint = failure.hint or config_hint(error, project)
    return failure
