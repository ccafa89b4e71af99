"""The objects of a running model after a reload: they get the classes, functions and enum members of the new code."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any


class LayoutChanged(Exception):
    """Raised if an object can't get its new class, because `__slots__` or a built-in base class differ."""


class Migration:
    """Replace classes and functions of old modules by those of the new ones, in objects that exist; `undo` reverts it.

    An object whose class was defined at the top of a module, or in such a class, gets the class of the same name. In
    the attributes of these objects functions, classes, enum members and bound methods are replaced too. Objects in
    other places, such as functions inside a list, stay as they are.
    """

    def __init__(self, old: Mapping[str, ModuleType], new: Mapping[str, ModuleType]) -> None:
        self._new: dict[type | FunctionType, Any] = {}
        self._undo: list[Callable[[], object]] = []
        for name, module in old.items():
            replacements: dict[str, Any] = dict(_definitions(name, vars(new[name]))) if name in new else {}
            for path, value in _definitions(name, vars(module)):
                if type(replacements.get(path)) is type(value):
                    self._new[value] = replacements[path]

    def replace_class(self, old: type, new: type) -> None:
        """Replace a class by one that is not found by its name, such as one defined in a notebook."""
        self._new[old] = new

    def apply(self) -> None:
        """Replace classes and functions; raise LayoutChanged, with nothing replaced, if a class does not fit."""
        classes = [each for each in self._new if isinstance(each, type) and not issubclass(each, Enum)]
        # An object refers to its class; this is one pass over all objects.
        found = [each for each in gc.get_referrers(*classes) if type(each) in self._new] if classes else []
        try:
            for each in found:
                self._replace_class_of(each)
        except LayoutChanged:
            self.undo()
            raise
        for each in found:
            self._replace_attributes(each)

    def undo(self) -> None:
        """Restore the classes and attributes of all objects that were changed."""
        while self._undo:
            self._undo.pop()()

    def _replace_class_of(self, instance: object) -> None:
        old = type(instance)
        new = self._new[old]
        try:
            # A frozen dataclass refuses plain assignment.
            object.__setattr__(instance, "__class__", new)
        except TypeError as error:
            raise LayoutChanged(f"{new.__qualname__} has other __slots__ or another built-in base class") from error
        self._undo.append(lambda: object.__setattr__(instance, "__class__", old))

    def _replace_attributes(self, instance: object) -> None:
        attributes: dict[str, Any] = getattr(instance, "__dict__", {})
        for name, value in list(attributes.items()):
            new = self._current(value)
            if new is not value:
                attributes[name] = new
                self._undo.append(partial(attributes.__setitem__, name, value))

    def _current(self, value: Any) -> Any:
        """Return what a value is in the new code; the value itself if that has nothing of the name."""
        if isinstance(value, MethodType):
            return self._current_method(value)
        if isinstance(value, type | FunctionType):
            return self._new.get(value, value)
        kind = self._new.get(type(value))
        if isinstance(value, Enum) and kind is not None:
            return kind.__members__.get(value.name, value)
        return value

    def _current_method(self, value: MethodType) -> Any:
        owner = type(value.__self__)
        replaced = owner in self._new.values() and isinstance(value.__func__, FunctionType)
        method = vars(owner).get(value.__func__.__name__) if replaced else None
        return MethodType(method, value.__self__) if isinstance(method, FunctionType) else value


def _definitions(
    module: str, members: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, type | FunctionType]]:
    """Yield the classes and functions that a module defines, and classes in classes, with their names."""
    for name, value in members.items():
        if not isinstance(value, type | FunctionType) or value.__module__ != module:
            continue
        # Another name of a class or function is skipped.
        if value.__qualname__ != within + name:
            continue
        yield within + name, value
        if isinstance(value, type):
            nested = ((path, each) for path, each in _definitions(module, vars(value), f"{within}{name}."))
            yield from ((path, each) for path, each in nested if isinstance(each, type))
