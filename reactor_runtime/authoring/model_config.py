"""The config of a model class: what its `load()` or its `__init__` receives."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.styles.block import starting_config
from reactor_runtime.authoring.styles.model import Model, takes_path
from reactor_runtime.config import GivenConfig, laid_over, values_of_file
from reactor_runtime.config import load as load_values
from reactor_runtime.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Hold the config of one load: the `argument` of `load()`, and its values, which recordings and reloads compare.

    With `is_merged` the values are written to the file that `argument` names.
    """

    values: dict[str, Any]
    argument: dict[str, Any] | Path | None
    is_merged: bool = False


def model_config(model: type[Model], given: GivenConfig, project: Path) -> ModelConfig:
    """Return what `load()` of a class receives: the path of the config file if it takes one, else a mapping.

    Raises ConfigError if the file can't be read, or if there is no file for values of `--set`.
    """
    if not takes_path(model):
        values = load_values(given.file) if given.values is None else given.values
        merged = config_of(model, values, project)
        # Its `load()` may take values out of it.
        return ModelConfig(merged, deepcopy(merged))
    if given.merged is not None:
        return ModelConfig(given.values or {}, given.merged, is_merged=True)
    if given.file is not None:
        return ModelConfig(values_of_file(given.file) if given.values is None else given.values, given.file)
    if given.values:
        raise ConfigError(
            f"{', '.join(given.values)} can't be set: {model.__name__}.load() takes the path of a config file, and the "
            "project has none",
            hint="add a config file, and name it in reactor.yaml",
            where=location_of(model.load),
        )
    return ModelConfig({}, None)


def config_of(model: type[Model], given: dict[str, Any], project: Path) -> dict[str, Any]:
    """Merge the given config into the one that `@model` names; raise ConfigError when that can't be read."""
    return laid_over(starting_config(model, project), given)
