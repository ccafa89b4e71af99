"""The served model: the only place where the engine keeps the author's object, its contract and its config."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.tracks.inputs import Input
from reactor_runtime.authoring.tracks.tracks import tracks_of


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """Hold an instance of the author's class, its contract, and the config that it was loaded with.

    `assigned_fps` is the rate that its `load()` has assigned to the class or the output, None if there is none.
    """

    model: Model
    contract: Contract
    config: dict[str, Any]
    assigned_fps: float | None = None

    @property
    def fps(self) -> float | None:
        """Return the rate that `load()` has assigned or the class declares; None if there is none."""
        return self.contract.fps if self.assigned_fps is None else self.assigned_fps

    def copied(self) -> Version:
        """Return this version with a shallow copy of its instance: all that `load()` has made is shared.

        Methods of the instance that are stored in its attributes become those of the copy. An object in place of an
        input is copied too if one of its attributes is that input, which is to be replaced. Any other object is left
        out: it would read what is for another session.
        """
        model = copy.copy(self.model)
        for name, value in vars(self.model).items():
            vars(model)[name] = _bound_to(model, self.model, value)
        for attribute, made in self.model._reactor_inputs.items():
            if (wrapper := vars(self.model).get(attribute)) is not made:
                vars(model)[attribute] = copy.copy(wrapper) if _has_input(wrapper, made) else made
        return replace(self, model=model)


class ServedModel:
    """Hold the version of the model that is served; the parts of the engine read it at each use, on any thread.

    `version` is replaced in one assignment, so that no thread sees a model with the contract of another version.
    """

    def __init__(self, version: Version) -> None:
        self.version = version

    @property
    def model(self) -> Model:
        return self.version.model

    @property
    def contract(self) -> Contract:
        return self.version.contract


def _has_input(wrapper: object, made: Input) -> bool:
    """Return whether an attribute of an author's object is an input, or the buffer of one of its tracks."""
    ids = {id(made), *(id(getattr(made, track.name)) for track in tracks_of(type(made)))}
    return any(id(value) in ids for value in getattr(wrapper, "__dict__", {}).values())


def _bound_to(model: Model, former: Model, value: Any) -> Any:
    """Return a method of the former instance, or a partial call of one, as that of the model; any other value as is."""
    if isinstance(value, MethodType) and value.__self__ is former:
        return MethodType(value.__func__, model)
    if type(value) is functools.partial and (func := _bound_to(model, former, value.func)) is not value.func:
        return functools.partial(func, *value.args, **value.keywords)
    return value
