"""Replaces classes, functions and enum members of old code in the objects of a running model."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from reactor_runtime.engine.reload.modules import Source

# A list may have millions of items.
MOST_ITEMS = 1000


class LayoutChanged(Exception):
    """Report that an object can't get its new class, because `__slots__` or a built-in base class differ."""


class Migration:
    """Replace classes and functions of old modules by those of the new ones, in objects that exist; `undo` reverts it.

    An object whose class was defined at the top of a module, or in such a class, gets the class of the same name. In
    the attributes of these objects functions, classes, enum members and bound methods are replaced too. Objects in
    other places, such as functions inside a list, stay as they are.
    """

    def __init__(self, old: Mapping[str, ModuleType], new: Mapping[str, ModuleType]) -> None:
        self._new: dict[type | FunctionType, Any] = {}
        self._undo: list[Callable[[], object]] = []
        self._slots: dict[type, list[MemberDescriptorType]] = {}
        for name, module in old.items():
            replacements: dict[str, Any] = dict(_definitions(name, vars(new[name]))) if name in new else {}
            for path, value in _definitions(name, vars(module)):
                # A class may have a metaclass of the project.
                if isinstance(replacements.get(path), type if isinstance(value, type) else FunctionType):
                    self._new[value] = replacements[path]

    def replace_class(self, old: type, new: type) -> None:
        """Replace a class by one that is not found by its name, such as one defined in a notebook."""
        self._new[old] = new

    def apply(self) -> None:
        """Replace classes and functions; raise LayoutChanged, with nothing replaced, if a class does not fit."""
        classes = [each for each in self._new if isinstance(each, type)]
        # An object refers to its class; this is one pass over all objects.
        found = [each for each in gc.get_referrers(*classes) if type(each) in self._new] if classes else []
        # Members of enums, and classes with a metaclass, have counterparts in the new code.
        found = [each for each in found if not isinstance(each, Enum | type)]
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
        places = [(value, partial(attributes.__setitem__, name)) for name, value in list(attributes.items())]
        for slot in self._slots_of(type(instance)):
            # A slot without a value raises.
            with contextlib.suppress(AttributeError):
                places.append((slot.__get__(instance), partial(slot.__set__, instance)))
        for value, replace in places:
            new = self._current(value)
            if new is not value:
                replace(new)
                self._undo.append(partial(replace, value))

    def _slots_of(self, kind: type) -> list[MemberDescriptorType]:
        if kind not in self._slots:
            members = [member for each in kind.__mro__ for member in vars(each).values()]
            self._slots[kind] = [member for member in members if isinstance(member, MemberDescriptorType)]
        return self._slots[kind]

    def _current(self, value: Any) -> Any:
        """Return the counterpart of a value in the new code; the value itself if there is none."""
        if isinstance(value, MethodType):
            return self._current_method(value)
        if isinstance(value, type | FunctionType):
            return self._new.get(value, value)
        kind = self._new.get(type(value))
        if isinstance(value, Enum) and kind is not None:
            return kind.__members__.get(value.name, value)
        return value

    def _current_method(self, value: MethodType) -> Any:
        if isinstance(value.__self__, type):
            return getattr(self._new.get(value.__self__), value.__name__, value)
        owner = type(value.__self__)
        replaced = owner in self._new.values() and isinstance(value.__func__, FunctionType)
        method = vars(owner).get(value.__func__.__name__) if replaced else None
        return MethodType(method, value.__self__) if isinstance(method, FunctionType) else value


def outdated_attributes(model: object, old: Mapping[str, Source], new: Mapping[str, Source]) -> list[str]:
    """Return the attributes of a model with code that is not in the new sources any more, such as changed closures.

    Considers functions, and methods of classes that a function has defined, in the attributes and in the first items of
    lists, tuples and dicts there. Other threads may change all of these meanwhile.
    """
    files = {source.file: new[name].data if name in new else b"" for name, source in old.items()}
    found = [(attribute, code) for attribute, value in list(vars(model).items()) for code in _codes_of(value)]
    found = [(attribute, code) for attribute, code in found if code.co_filename in files]
    texts = {file: _texts_in(file, files[file]) for file in {code.co_filename for _, code in found}}
    return list(dict.fromkeys(name for name, code in found if _text_of(code) not in texts[code.co_filename]))


def _codes_of(value: object, *, nested: bool = False) -> Iterator[CodeType]:
    if isinstance(value, FunctionType):
        yield value.__code__
    elif isinstance(value, list | tuple | dict) and not nested:
        for each in list(islice(value.values() if isinstance(value, dict) else value, MOST_ITEMS)):
            yield from _codes_of(each, nested=True)
    elif "<locals>" in (kind := value if isinstance(value, type) else type(value)).__qualname__:
        yield from (each.__code__ for each in list(vars(kind).values()) if isinstance(each, FunctionType))


def _texts_in(file: str, source: bytes) -> set[Hashable]:
    return {_text_of(code) for code in _nested(compile(source, file, "exec", dont_inherit=True))}


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _text_of(code: CodeType) -> Hashable:
    """Return the content of code, without line numbers."""
    constants = tuple(_text_of(each) if isinstance(each, CodeType) else (type(each), each) for each in code.co_consts)
    return code.co_qualname, code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _definitions(
    module: str, members: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, type | FunctionType]]:
    """Yield the classes and functions that a module defines, also in classes, with their names."""
    for name, value in list(members.items()):
        if isinstance(value, staticmethod):
            value = value.__func__
        if not isinstance(value, type | FunctionType) or value.__module__ != module:
            continue
        # Another name of a class or function is skipped.
        if value.__qualname__ != within + name:
            continue
        yield within + name, value
        if isinstance(value, type):
            yield from _definitions(module, vars(value), f"{within}{name}.")
