"""Code of a model that a reload does not replace."""

from __future__ import annotations

from typing import Any

from reactor_runtime.engine.reload.migration import outdated_attributes


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
