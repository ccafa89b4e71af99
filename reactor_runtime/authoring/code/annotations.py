"""Resolves annotations to types, also annotations that are strings or use names local to a function.

The modules that call it give the types their meaning.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType, FunctionType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Scope:
    """Hold the names an annotation may use: those of a module, and of the function a class is defined in."""

    globals: Mapping[str, Any]
    locals: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_definition(cls, owner: type) -> Scope:
        """Collect the names visible to the `class` statement that runs; call it from `__init_subclass__`."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _defines(frame, owner):
            frame = frame.f_back
        return cls(_module_names(owner), _function_names(frame))

    @classmethod
    def of_class(cls, owner: type, around: Mapping[str, Any]) -> Scope:
        """Use the names of the module that defines `owner`, and `around` for names the module lacks."""
        return cls(_module_names(owner), around)

    def of_handler(self, function: FunctionType, owner: type) -> Scope:
        """Add what a method's annotations may use: its own module and the body of its class."""
        return Scope(function.__globals__, {**self.locals, **vars(owner)})

    def resolve(self, annotation: Any, where: str) -> Any:
        """Return the type; raise TypeError that names `where`, caused by a NameError if a name is undefined."""
        holder = type("_", (), {"__annotations__": {"_": annotation}})
        try:
            return get_type_hints(holder, dict(self.globals), dict(self.locals), include_extras=True)["_"]
        except NameError as error:
            raise TypeError(
                f"{where}: the annotation {annotation!r} uses the name {error.name!r}, which is not defined here; "
                "define or import it above the class, outside of `if TYPE_CHECKING`"
            ) from error
        # Evaluating an annotation runs the author's code.
        except Exception as error:
            raise TypeError(f"{where}: the annotation {annotation!r} can't be evaluated: {error}") from error


def own_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of the class body itself, unresolved."""
    return inspect.get_annotations(cls)


def union_options(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union such as `A | B` or `Optional[A]`, or the type itself if it is no union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_class_variable(hint: Any) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar


def type_name(hint: Any) -> str:
    """Return a type as its author writes it."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")


def _defines(frame: FrameType, owner: type) -> bool:
    return frame.f_globals.get("__name__") == owner.__module__ and frame.f_code.co_name != "__init_subclass__"


def _module_names(owner: type) -> Mapping[str, Any]:
    module = sys.modules.get(owner.__module__)
    return vars(module) if module else {}


def _function_names(frame: FrameType | None) -> dict[str, Any]:
    """Collect the names of the class bodies around a definition and of the function around those."""
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        # Only functions are optimized, class bodies are not.
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back
    return names
