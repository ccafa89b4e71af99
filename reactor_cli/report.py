"""The output of `reactor connect`: text, with or without a `TerminalScreen`, or one JSON object per line."""

from __future__ import annotations

import json
from typing import Any, Literal

from reactor_cli import console
from reactor_cli.terminal import TerminalScreen

Kind = Literal["status", "message", "reply", "refusal", "state", "contract", "reload", "figures", "saved"]

_RESULTS = ("message", "reply", "refusal", "state")


class ConnectReport:
    """Print facts as JSON, or their text if they have one; without a screen, results to stdout, the rest to stderr."""

    def __init__(self, *, as_json: bool, screen: TerminalScreen | None) -> None:
        self._as_json = as_json
        self._screen = screen

    def print_fact(self, kind: Kind, text: str, /, **facts: Any) -> None:
        if self._as_json:
            console.out(json.dumps({"kind": kind, **facts}, ensure_ascii=False))
        elif not text:
            return
        elif self._screen is not None:
            self._screen.print_lines(text)
        elif kind in _RESULTS:
            console.out(text)
        else:
            console.err(text)


def legible(text: str) -> str:
    """Return text from a server on one line, with control characters escaped as in error messages."""
    return console.printable(text).replace("\t", "\\t").replace("\n", "\\n")


def format_values(data: dict[str, Any]) -> str:
    """Return values as they are typed: `step=3 name="x"`."""
    return legible(" ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in data.items()))


def format_metrics(metrics: dict[str, Any]) -> str:
    """Return the known metrics in one line."""
    parts = [f"{fps:.0f} fps {legible(track)}" for track, fps in metrics["fps"].items()]
    for name, text in (("delay_ms", "delay"), ("input_delay_ms", "input to frame"), ("rtt_ms", "round trip")):
        if metrics[name] is not None:
            parts.append(f"{text} {metrics[name]:.1f} ms")
    if metrics["skipped"]:
        parts.append(f"skipped {metrics['skipped']}")
    return " · ".join(parts) or "no frame yet"
