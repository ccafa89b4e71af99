"""How controls show a value: its label, group, widget and the like, checked against the value's type.

Nothing here limits a value. Clients that draw controls find it in the schema; others ignore it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Literal

from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.authoring.values.typespec import TypeSpec
from reactor_runtime.kinds import KINDS, kind_of, without_null

KEYWORD = "x-reactor-ui"

Widget = Literal[
    "slider", "number", "seed", "angle", "text", "multiline", "password", "color", "select", "radio", "xy", "range",
    "image", "file",
]  # fmt: skip

_NUMBERS = ("int", "float")
# The kinds of values that a widget is for.
_WIDGETS = {
    widget: tuple(name for name, kind in KINDS.items() if widget in kind.widgets)
    for widget in dict.fromkeys(widget for kind in KINDS.values() for widget in kind.widgets)
}
_NEED_ENDS = ("slider", "xy", "range")
_LINES = ("placeholder", "unit")
_COLOR = re.compile("#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Presentation:
    """Hold the arguments of `InputField` that describe the control of a value."""

    label: str = ""
    group: str = ""
    widget: str | None = None
    step: float | None = None
    placeholder: str = ""
    order: int | None = None
    examples: Sequence[object] | None = None
    prominent: bool = False
    unit: str = ""

    def to_json(self, spec: TypeSpec, default: object, where: str) -> dict[str, Any]:
        """Return the keywords for the value's JSON Schema; raise TypeError if one does not fit the type."""
        schema = without_null(spec.json)
        kind = kind_of(schema)
        self._check_texts(kind, where)
        self._check_order_and_step(kind, where)
        if self.widget is not None:
            self._check_widget(self.widget, schema, where)
        if self.widget == "color" and isinstance(default, str) and not _COLOR.fullmatch(default):
            raise TypeError(f'{where}: the widget "color" sets values like "#ff8800"; the default is {default!r}')
        texts = {name: value for name in ("label", "group", "widget", *_LINES) if (value := getattr(self, name))}
        numbers = {
            name: to_json(value, where) for name in ("step", "order") if (value := getattr(self, name)) is not None
        }
        given = {**texts, **numbers, **({"prominent": True} if self.prominent else {})}
        return {**self._examples(spec, kind, where), **({KEYWORD: given} if given else {})}

    def completed_by(self, other: Presentation, spec: TypeSpec, default: object) -> Presentation:
        """Return these options, and those of `other` that are not given here and fit the type."""
        complete = self
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                continue
            candidate = replace(complete, **{option.name: getattr(other, option.name)})
            try:
                candidate.to_json(spec, default, option.name)
            except TypeError:
                continue
            complete = candidate
        return complete

    def _check_texts(self, kind: str | None, where: str) -> None:
        for name in ("label", "group", *_LINES):
            text = getattr(self, name)
            if not isinstance(text, str) or (text and not text.isprintable()):
                raise TypeError(f"{where}: {name} must be one line of text, not {text!r}")
        for name in ("placeholder", "prominent"):
            if getattr(self, name) and kind != "str":
                raise TypeError(f"{where}: {name} applies to str without choices only")
        if self.unit and kind not in (*_NUMBERS, "pair"):
            raise TypeError(f"{where}: unit applies to int, float and pairs of them only")

    def _check_order_and_step(self, kind: str | None, where: str) -> None:
        # NumPy's scalars are numbers, but no int or float.
        order: Any = self.order
        step: Any = self.step
        if order is not None and (isinstance(order, bool) or not isinstance(order, Integral)):
            raise TypeError(f"{where}: order={order!r} is not a whole number")
        if step is None:
            return
        if kind not in (*_NUMBERS, "pair"):
            raise TypeError(f"{where}: step applies to int, float and pairs of them only")
        if isinstance(step, bool) or not isinstance(step, Real) or not math.isfinite(step) or step <= 0:
            raise TypeError(f"{where}: step={step!r} is not a number above 0")
        if kind == "int" and step % 1:
            raise TypeError(f"{where}: step={step!r} of an int must be a whole number")

    def _check_widget(self, widget: str, schema: Mapping[str, Any], where: str) -> None:
        kinds = _WIDGETS.get(widget)
        if kinds is None:
            near = get_close_matches(str(widget), _WIDGETS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_WIDGETS)}"
            raise TypeError(f"{where}: there is no widget {widget!r}; {hint}")
        if kind_of(schema) not in kinds:
            raise TypeError(f"{where}: the widget {widget!r} is for {' and '.join(KINDS[kind].type for kind in kinds)}")
        if widget in _NEED_ENDS and not all(map(_has_ends, schema.get("prefixItems", [schema]))):
            raise TypeError(f"{where}: the widget {widget!r} needs the ends of the range: give ge and le")

    def _examples(self, spec: TypeSpec, kind: str | None, where: str) -> dict[str, Any]:
        if self.examples is None:
            return {}
        if isinstance(self.examples, str) or not self.examples:
            raise TypeError(f"{where}: examples must be a list with at least one value, not {self.examples!r}")
        if kind == "file":
            raise TypeError(f"{where}: examples does not apply to UploadedFile")
        values = [spec.convert(example, f"{where}: examples") for example in self.examples]
        return {"examples": [to_json(value, where) for value in values]}


def _has_ends(schema: Mapping[str, Any]) -> bool:
    low, high = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    return not low.isdisjoint(schema) and not high.isdisjoint(schema)
