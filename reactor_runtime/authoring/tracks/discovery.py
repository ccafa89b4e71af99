"""Finds the Output and ModelMessage classes of a model: those of its modules, or of the function that defines it.

There is no registry, so two models in one process do not share classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from reactor_runtime.authoring.code.annotations import Scope, own_annotations
from reactor_runtime.authoring.events.messages import ModelMessage
from reactor_runtime.authoring.tracks.tracks import Output

_LOCAL_CLASSES = "__reactor_local_classes__"
_OURS = __name__.partition(".")[0]

T = TypeVar("T")


def store_local_classes(cls: type, scope: Scope) -> None:
    """Store the Output and ModelMessage classes of the function that defines `cls`; they can't be found later."""
    names = scope.locals.values()
    setattr(cls, _LOCAL_CLASSES, _of_kind(names, Output) + _of_kind(names, ModelMessage))


def is_ours(cls: type) -> bool:
    return is_ours_module(cls.__module__)


def is_ours_module(name: str) -> bool:
    return name.partition(".")[0] == _OURS


def find(model: type, kind: type[T]) -> tuple[type[T], ...]:
    """Return the subclasses of `kind` that belong to the model and its parents."""
    found: list[type[T]] = []
    for owner in model.__mro__:
        if not is_ours(owner):
            found += _of_kind(vars(owner).get(_LOCAL_CLASSES, ()), kind) or _of_kind(_module_values(owner), kind)
    return tuple(dict.fromkeys(found))


def class_annotating(model: type, name: str) -> type | None:
    """Return the author's nearest class that annotates `name`."""
    return next((owner for owner in model.__mro__ if not is_ours(owner) and name in own_annotations(owner)), None)


def is_assigned_by_author(model: type, name: str) -> bool:
    """Return whether an author's class assigns `name`."""
    return any(name in vars(owner) for owner in model.__mro__ if not is_ours(owner))


def _of_kind(values: Iterable[Any], kind: type[T]) -> list[type[T]]:
    return [value for value in values if isinstance(value, type) and issubclass(value, kind) and not is_ours(value)]


def _module_values(cls: type) -> list[Any]:
    module = sys.modules.get(cls.__module__)
    return list(vars(module).values()) if module else []
