"""What `reactor connect` says: lines for people, on a screen or not, or an object a line for programs."""

from __future__ import annotations

import json
from typing import Any, Literal

from reactor_cli import console
from reactor_cli.screen import TerminalScreen

Kind = Literal["status", "message", "reply", "refusal", "state", "figures", "saved"]

_RESULTS = ("message", "reply", "refusal", "state")


class ConnectReport:
    """Say things one after the other: facts as JSON, or as text; what is no result goes to stderr."""

    def __init__(self, *, as_json: bool, screen: TerminalScreen | None) -> None:
        self._as_json = as_json
        self._screen = screen

    def say(self, kind: Kind, text: str, **facts: Any) -> None:
        if self._as_json:
            console.out(json.dumps({"kind": kind, **facts}, ensure_ascii=False))
        elif self._screen is not None:
            self._screen.say(text)
        elif kind in _RESULTS:
            console.out(text)
        else:
            console.err(text)


def legible(text: str) -> str:
    """Show what a server said without what a terminal would obey."""
    return "".join(character if character.isprintable() else "�" for character in text)


def shown(data: dict[str, Any]) -> str:
    """Write values as people type them: `step=3 name="x"`."""
    return legible(" ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in data.items()))


def figures_line(figures: dict[str, Any]) -> str:
    """Write the figures that are known in one line."""
    parts = [f"{fps:.0f} fps {legible(track)}" for track, fps in figures["fps"].items()]
    for name, text in (("delay_ms", "delay"), ("input_delay_ms", "input to picture"), ("rtt_ms", "round trip")):
        if figures[name] is not None:
            parts.append(f"{text} {figures[name]:.1f} ms")
    if figures["skipped"]:
        parts.append(f"skipped {figures['skipped']}")
    return " · ".join(parts) or "no picture yet"
