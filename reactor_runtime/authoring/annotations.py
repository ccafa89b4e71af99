"""Turns what an author wrote after a colon into a type, also where it is text or names something local to a function.

What the types mean is up to those who ask.
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
    """Hold the names an annotation may use: a module's, and those around a class defined in a function."""

    globals: Mapping[str, Any]
    locals: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_definition(cls, owner: type) -> Scope:
        """Find the names around the `class` statement that runs; call it from `__init_subclass__`."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _defines(frame, owner):
            frame = frame.f_back
        return cls(_module_names(owner), _function_names(frame))

    @classmethod
    def of_class(cls, owner: type, around: Mapping[str, Any]) -> Scope:
        """Take the names of the module `owner` comes from, and `around` for what the module doesn't know."""
        return cls(_module_names(owner), around)

    def of_handler(self, function: FunctionType, owner: type) -> Scope:
        """Add what a method's annotations may use: its own module and the body of its class."""
        return Scope(function.__globals__, {**self.locals, **vars(owner)})

    def resolve(self, annotation: Any, where: str) -> Any:
        """Return the type; TypeError names `where`, and has a NameError as its cause for a name that isn't defined."""
        holder = type("_", (), {"__annotations__": {"_": annotation}})
        try:
            return get_type_hints(holder, dict(self.globals), dict(self.locals), include_extras=True)["_"]
        except NameError as error:
            raise TypeError(
                f"{where}: the annotation {annotation!r} uses the name {error.name!r}, which is not defined here; "
                "define or import it above the class, outside of `if TYPE_CHECKING`"
            ) from error
        except Exception as error:  # annotations are the author's code
            raise TypeError(f"{where}: the annotation {annotation!r} can't be evaluated: {error}") from error


def own_annotations(cls: type) -> dict[str, Any]:
    """List what the class body itself annotates, as written."""
    return inspect.get_annotations(cls)


def union_options(hint: Any) -> tuple[Any, ...]:
    """List what `A | B` or `Optional[A]` offers; a type that is no union offers itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def is_class_variable(hint: Any) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar


def type_name(hint: Any) -> str:
    """Show a type the way its author wrote it."""
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
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function; a class body isn't optimized
            break
        frame = frame.f_back
    return names
