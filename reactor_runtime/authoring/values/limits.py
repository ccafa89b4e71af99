"""The limits that `InputField` sets on values, and the types that each limit applies to."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

BOUNDS = ("ge", "le", "gt", "lt", "multiple_of")
_LENGTHS = ("min_length", "max_length")


class InapplicableLimit(TypeError):
    """Report a limit that has no meaning for values of a type; `name` is the limit's."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"{name} does not apply to {kind}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold the limits of one value; None is no limit."""

    ge: float | None = None
    le: float | None = None
    gt: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    choices: Sequence[object] | None = None

    def given(self, *names: str) -> dict[str, Any]:
        """Return the limits that are set, among `names` or all."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: values[name] for name in names or values if values[name] is not None}

    def refuse_others(self, kind: str, names: Collection[str], where: str) -> None:
        """Raise InapplicableLimit if a limit is set that does not apply to values of this kind."""
        for name in self.given():
            if name not in names:
                raise InapplicableLimit(name, kind)
        if self.pattern is not None and not isinstance(self.pattern, str):
            raise TypeError(f"{where}: pattern must be a str, not {self.pattern!r}")
        if self.choices is not None and (isinstance(self.choices, str) or not list(self.choices)):
            raise TypeError(f"{where}: choices must be a list with at least one value, not {self.choices!r}")

    def bounds(self, kind: type[int] | type[float], where: str) -> dict[str, Any]:
        """Return the numeric limits as numbers of `kind`."""
        given = self.given(*BOUNDS)
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise TypeError(f"{where}: {name}={value!r} is not a finite number")
            if kind is int and value % 1:
                raise TypeError(f"{where}: {name}={value!r} of an int must be a whole number")
        if self.multiple_of is not None and self.multiple_of <= 0:
            raise TypeError(f"{where}: multiple_of={self.multiple_of!r} is not above 0")
        self._check_order(where)
        return {name: kind(value) for name, value in given.items()}

    def _check_order(self, where: str) -> None:
        for low, high in (("ge", "le"), ("ge", "lt"), ("gt", "le"), ("gt", "lt"), _LENGTHS):
            given = self.given(low, high)
            if len(given) == 2 and given[low] > given[high]:
                raise TypeError(f"{where}: no value has {low}={given[low]!r} and {high}={given[high]!r}")

    def lengths(self, where: str) -> dict[str, Any]:
        """Return the limits of the length as pydantic-core names them."""
        given = self.given(*_LENGTHS)
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
                raise TypeError(f"{where}: {name}={value!r} is not a whole number from 0")
        self._check_order(where)
        return {name: int(value) for name, value in given.items()}

    @staticmethod
    def to_json(given: dict[str, Any], length_noun: str = "Length") -> dict[str, Any]:
        """Return the limits as JSON Schema keywords; lengths end in `Length`, `Items` or `Properties`."""
        names = {**_SCHEMA_NAMES, "min_length": f"min{length_noun}", "max_length": f"max{length_noun}"}
        return {names[name]: value for name, value in given.items()}


NO_LIMITS = Limits()

_SCHEMA_NAMES = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
