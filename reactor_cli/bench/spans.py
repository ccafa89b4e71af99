"""The spans of a trace that `reactor run --trace` has written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

STAGES = ("arrive", "queue", "encode", "back", "hold", "late")


class Span(NamedTuple):
    """Hold the start of a span on the monotonic clock, and the time of work in it, in seconds.

    `has_frame` is whether a bundle with a frame of the model was handed over in it.
    """

    began: float
    length: float
    has_frame: bool = False


def read_spans(path: Path) -> dict[str, list[Span]]:
    """Return the spans of a complete trace by name, each list in order of the starts."""
    return spans_of(json.loads(path.read_text()))


def spans_of(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Span]]:
    """Return the spans among events of the Trace Event Format by name, each list in order of the starts."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    begun: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for event in events:
        match event["ph"]:
            case "X":
                # Waiting for an input is not work of the step.
                args = event["args"]
                length = event["dur"] / 1e6 - args.get("waited_ms", 0.0) / 1e3
                found[event["name"]].append(Span(event["ts"] / 1e6, length, args.get("has_frame", False)))
            case "b":
                begun[event["cat"], event["id"], event["name"]] = event
            case "e":
                first = begun.pop((event["cat"], event["id"], event["name"]), None)
                if first is not None:
                    length = (event["ts"] - first["ts"]) / 1e6
                    found[event["name"]].append(Span(first["ts"] / 1e6, length))
    return {name: sorted(spans, key=lambda span: span.began) for name, spans in found.items()}
