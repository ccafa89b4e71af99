"""Construction and `load()` of the author's model, with errors that point at the author's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reactor_runtime.authoring.code.source import attached_location
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.block import starting_config
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.config import laid_over
from reactor_runtime.errors import LoadError, ModelFailed, author_error


def make_model(contract: Contract, config: dict[str, Any], project: Path) -> Model:
    """Construct the model; an exception of its __init__ becomes a LoadError."""
    try:
        return contract.style.make(contract.model, config)
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise author_error(LoadError, f"making {contract.model.__name__} failed", error, project) from error


def config_of(model: type[Model], given: dict[str, Any], project: Path) -> dict[str, Any]:
    """Merge the given config into the one that `@model` names; raise ConfigError when that can't be read."""
    return laid_over(starting_config(model, project), given)


def call_load(model: Model, config: dict[str, Any], project: Path) -> None:
    """Call `load(config)`; an exception becomes a LoadError that points at the author's line."""
    try:
        model.load(config)
    # No loop runs yet, so there is no cancellation to propagate.
    except BaseException as error:
        raise author_error(LoadError, "load() failed", error, project) from error


def session_failure(error: BaseException, project: Path) -> ModelFailed:
    """Return the error for an exception that ended a session; it points at the author's line."""
    failure = author_error(ModelFailed, "the model failed", error, project)
    failure.where = attached_location(error) or failure.where
    return failure
