"""How clients show a value that the model sets, a field of a message or a read-only one, checked against its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from reactor_runtime.authoring.values.presentation import KEYWORD
from reactor_runtime.kinds import KINDS, kind_of, without_null

Display = Literal["value", "bar", "light", "clock"]

_KINDS = {
    display: tuple(name for name, kind in KINDS.items() if display in kind.displays)
    for display in dict.fromkeys(display for kind in KINDS.values() for display in kind.displays)
}
_WITH_UNIT = ("value", "bar")


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold the options that describe how a value is shown."""

    widget: str | None = None
    label: str = ""
    unit: str = ""

    def to_json(self, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the keyword for the value's JSON Schema; raise TypeError if an option does not fit the type."""
        kind = kind_of(without_null(schema))
        self._check(kind, where)
        given = {name: text for name in ("label", "unit") if (text := getattr(self, name))}
        return {KEYWORD: {"widget": self.widget, **given}} if self.widget else {}

    def or_default(self, schema: Mapping[str, Any]) -> Shown:
        """Return these options with the usual widget of the type, if none is given and the type has one."""
        kind = kind_of(without_null(schema))
        usual = KINDS[kind].displays[:1] if kind else ()
        return self if self.widget or not usual else Shown(usual[0], self.label, self.unit)

    def _check(self, kind: str | None, where: str) -> None:
        for name in ("label", "unit"):
            text = getattr(self, name)
            if not isinstance(text, str) or (text and not text.isprintable()):
                raise TypeError(f"{where}: {name} must be one line of text, not {text!r}")
            if text and self.widget is None:
                raise TypeError(f'{where}: {name} needs a widget, such as widget="value"')
        if self.widget is None:
            return
        if self.widget not in _KINDS:
            near = get_close_matches(str(self.widget), _KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_KINDS)}"
            raise TypeError(f"{where}: no widget {self.widget!r} shows a value; {hint}")
        if kind not in _KINDS[self.widget]:
            types = " and ".join(KINDS[name].type for name in _KINDS[self.widget])
            raise TypeError(f"{where}: the widget {self.widget!r} shows {types}")
        if self.unit and (kind not in ("int", "float") or self.widget not in _WITH_UNIT):
            raise TypeError(f"{where}: unit applies to int and float that are shown as {' or '.join(_WITH_UNIT)}")
