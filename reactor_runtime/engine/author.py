"""Bringing the author's class to life: make, load, with errors that point at the author's own line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reactor_runtime.authoring.block import VideoModel, starting_config
from reactor_runtime.authoring.model import Model
from reactor_runtime.authoring.pipeline import ReactorPipeline
from reactor_runtime.authoring.source import locate, place_of
from reactor_runtime.config import laid_over
from reactor_runtime.errors import LoadError, ModelFailed, author_error


def make_model(model: type[Model], config: dict[str, Any], project: Path) -> Model:
    """Call the class; what its __init__ raises becomes a LoadError."""
    try:
        return construct(model, config)
    except BaseException as error:  # no loop runs yet: there is nothing of ours to let pass
        raise author_error(LoadError, f"making {model.__name__} failed", error, project) from error


def construct(model: type[Model], config: dict[str, Any]) -> Model:
    """Call the class: a block model gets the config there, all others in load()."""
    return model(config) if issubclass(model, VideoModel) else model()


def config_of(model: type[Model], given: dict[str, Any], project: Path) -> dict[str, Any]:
    """Lay the config that was given over what `@model` starts from; ConfigError when that can't be read."""
    return laid_over(starting_config(model, project), given)


def call_load(model: Model, config: dict[str, Any], project: Path) -> None:
    """Call `load(config)`; what it raises becomes a LoadError that points at the author's line."""
    try:
        model.load(config)
    except BaseException as error:  # no loop runs yet: there is nothing of ours to let pass
        raise author_error(LoadError, "load() failed", error, project) from error


def session_failure(error: BaseException, project: Path) -> ModelFailed:
    """Turn what ended a session into an error that points at the author's line."""
    failure = author_error(ModelFailed, "the model failed", error, project)
    failure.where = place_of(error) or failure.where
    return failure


def check_inference(model: Model) -> None:
    """See that a pipeline has an `inference` after load(), which may assign it; LoadError otherwise."""
    if not isinstance(model, ReactorPipeline) or "inference" in vars(model):
        return
    if type(model).inference is ReactorPipeline.inference:
        raise LoadError(
            f"{type(model).__name__} has no inference() after load()",
            hint="define `def inference(self)` that yields frames, or assign self.inference in load()",
            where=locate(type(model)),
        )
