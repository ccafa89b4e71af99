"""Code in the objects of a model that a reload replaces, and that it does not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from reactor_runtime.engine.reload.migration import Migration, outdated_attributes

SLOTS = """
from enum import Enum

class Kind(Enum):
    A = 1

class Part:
    __slots__ = ("kind", "unset")

    def __init__(self):
        object.__setattr__(self, "kind", Kind.A)

    def __setattr__(self, *_):
        raise AttributeError("frozen")

    def level(self):
        return LEVEL if self.kind is Kind.A else 0

make = Part
"""
METACLASS = """
class Kinds(type):
    pass

class Part(metaclass=Kinds):
    def level(self):
        return LEVEL if type(type(self)) is Kinds else 0

class More(Part):
    pass

make = More
"""
METHODS = """
class Part:
    class Inner:
        @staticmethod
        def one():
            return LEVEL

    @classmethod
    def other(cls):
        return LEVEL if cls is Part else 0

    def level(self):
        return (self.function() + self.method()) // 2

def make():
    part = Part()
    part.function, part.method = Part.Inner.one, Part.other
    return part
"""
ENUM_OF_CLASSES = """
from enum import Enum

class Net:
    level = LEVEL

class Kind(Enum):
    NET = Net
    OTHER = 1

class Part:
    def level(self):
        return self.kind.value.level if self.kind is Kind.NET else 0

def make():
    part = Part()
    part.kind = Kind.NET
    return part
"""


@pytest.mark.parametrize(
    "text",
    [SLOTS, METACLASS, METHODS, ENUM_OF_CLASSES],
    ids=["slots", "metaclass", "static and class methods", "enum of classes"],
)
def test_objects_run_the_new_code_until_it_is_undone(text: str) -> None:
    old, new = _module(text, 1), _module(text, 2)
    part = old.make()
    migration = Migration({"parts": old}, {"parts": new})
    assert part.level() == 1
    migration.apply()
    assert part.level() == 2
    migration.undo()
    assert part.level() == 1


def _module(text: str, level: int) -> Any:
    module = ModuleType("parts")
    exec(text.replace("LEVEL", str(level)), vars(module))
    return module


class Model:
    """A model whose attributes another thread may set."""


def growing(items: dict[str, Any]) -> object:
    """Return an object that adds an item to a dict each time it is compared, as another thread may."""

    def grow(_: object) -> type:
        items[f"more {len(items)}"] = None
        return object

    # isinstance() reads `__class__`.
    return type("Growing", (), {"__class__": property(grow)})()


def test_attributes_may_change_while_they_are_compared() -> None:
    model = Model()
    values: dict[str, Any] = {}
    vars(model).update(growing=growing(vars(model)), values=values)
    values.update(growing=growing(values), other=1)
    assert outdated_attributes(model, {}, {}) == []
    assert len(vars(model)) > 2
    assert len(values) > 2
