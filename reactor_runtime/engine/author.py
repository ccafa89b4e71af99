"""Construction and `load()` of the author's model, with errors that point at the author's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime.authoring.code.source import attached_location, location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.block import starting_config
from reactor_runtime.authoring.styles.model import Model, check_steps
from reactor_runtime.config import laid_over
from reactor_runtime.engine.config_hint import config_hint
from reactor_runtime.errors import LoadError, ModelFailed, author_error

E = TypeVar("E", LoadError, ModelFailed)


def make_model(contract: Contract, config: dict[str, Any], project: Path) -> Model:
    """Construct the model; an exception of its __init__ becomes a LoadError."""
    try:
        return contract.style.make(contract.model, config)
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise _error(LoadError, f"making {contract.model.__name__} failed", error, project) from error


def config_of(model: type[Model], given: dict[str, Any], project: Path) -> dict[str, Any]:
    """Merge the given config into the one that `@model` names; raise ConfigError when that can't be read."""
    return laid_over(starting_config(model, project), given)


def call_load(model: Model, config: dict[str, Any], project: Path) -> None:
    """Call `load(config)`; an exception becomes a LoadError that points at the author's line."""
    try:
        model.load(config)
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise _error(LoadError, "load() failed", error, project) from error


def warm_up_steps(model: Model) -> int:
    """Return the model's `warmup`; raise LoadError if `load()` has assigned something else than a number of steps."""
    try:
        check_steps(model.warmup, "self.warmup")
    except (TypeError, ValueError) as error:
        raise LoadError(str(error), where=location_of(type(model), "load")) from error
    return int(model.warmup)


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
