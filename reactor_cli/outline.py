"""The outline of a model as tables for people: its rate, tracks, events and messages."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reactor_cli.common_options import count_of
from reactor_cli.console import printable
from reactor_runtime.kinds import KINDS, kind_of

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

TITLE_WIDTH = 10


def outline_tables(outline: Mapping[str, Any]) -> Group:
    """Return the outline of `schema.outline`, and the first step if it has one, as a table for each section."""
    from rich.console import Group

    events, messages = outline["events"].items(), outline["messages"].items()
    step = outline.get("step")
    return Group(
        _section("rate", [(_rate(outline), "")]),
        *([_section("seats", [(str(outline["seats"]), "")])] if "seats" in outline else []),
        _section("tracks", [(_track(track), "") for track in outline["tracks"]]),
        _section("events", [(_call(name, each["parameters"]), _described(each)) for name, each in events]),
        _section("messages", [(_call(name, each["data"]), each["description"]) for name, each in messages]),
        *([_section("read-only", _fields(outline["state"]))] if outline.get("state") else []),
        *([_section("step", [(line, "") for line in _step(step)])] if step else []),
    )


def _described(event: Mapping[str, Any]) -> str:
    """Return the description of an event, and whether the host alone may send it."""
    return " ".join(filter(None, [event["description"], "(the host)" if event.get("host") else ""]))


def _section(title: str, rows: list[tuple[str, str]]) -> Table:
    """Return a table of signatures and descriptions, with the title before the first."""
    from rich.table import Column, Table

    # Not `width=`, which includes the padding in recent versions of Rich alone.
    table = Table.grid(Column(no_wrap=True, style="cyan"), Column(), Column(style="dim"), padding=(0, 2))
    for signature, description in rows or [("none", "")]:
        table.add_row(f"  {title:{TITLE_WIDTH - 2}}", printable(signature), printable(" ".join(description.split())))
        title = ""
    return table


def _rate(outline: Mapping[str, Any]) -> str:
    queued = f"up to {count_of(outline['buffer_size'], 'frame')} queued"
    if outline["fps"] is None:
        return f"as fast as it computes, 1 to {outline['max_fps']:g} fps; {queued}"
    return f"{outline['fps']:g} fps; {queued}"


def _track(track: Mapping[str, Any]) -> str:
    rate = f", {track['sample_rate']} Hz" if "sample_rate" in track else ""
    return f"{track['name']}: {track['kind']} {track['direction']}{rate}"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the time of the first step, and one for each track of its output."""
    yield "time not measured" if step["seconds"] is None else f"{1e3 * step['seconds']:.3g} ms"
    for track in step["tracks"]:
        if track["kind"] == "video":
            count = f"{track['frames']} frames of " if track["frames"] > 1 else ""
            yield f"{track['name']}: {count}{track['width']}x{track['height']}, {track['dtype']}"
        else:
            channels = "mono" if track["channels"] == 1 else "stereo"
            yield f"{track['name']}: {track['seconds']:.3g} s of sound, {channels}, {track['dtype']}"


def _fields(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_parameter(name, schema), schema.get("description", "")) for name, schema in state.items()]


def _call(name: str, data: Mapping[str, Any]) -> str:
    """Return an event or a message in the form of a function: `set_speed(speed: number 0 to 5 = 1)`."""
    return f"{name}({', '.join(_parameter(key, schema) for key, schema in data['properties'].items())})"


def _parameter(name: str, schema: Mapping[str, Any]) -> str:
    kind = _kind(schema)
    default = f" = {_short(schema['default'])}" if "default" in schema else ""
    return f"{name}{': ' if kind else ''}{kind}{default}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(_short(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_kind(option) for option in schema["anyOf"])
    if "prefixItems" in schema:
        return f"[{', '.join(_kind(part) or 'anything' for part in schema['prefixItems'])}]"
    if schema.get("type") == "array" and "items" in schema:
        return f"array of {_kind(schema['items']) or 'anything'}{_limits(schema)}"
    known = KINDS.get(kind_of(schema) or "")
    kind = known.noun if known else schema.get("title") or schema.get("type", "")
    return f"{kind}{_limits(schema)}"


def _limits(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        rest = [f"{_short(low)} to {_short(high)}"]
    else:
        rest = [f"{sign} {_short(limit)}" for sign, limit in ((">=", low), ("<=", high)) if limit is not None]
    named = {
        "exclusiveMinimum": "> {}",
        "exclusiveMaximum": "< {}",
        "multipleOf": "in steps of {}",
        "minLength": "of at least {} characters",
        "maxLength": "of at most {} characters",
        "minItems": "of at least {}",
        "maxItems": "of at most {}",
        "minProperties": "of at least {}",
        "maxProperties": "of at most {}",
        "pattern": "like {}",
    }
    rest += [words.format(_short(schema[key])) for key, words in named.items() if key in schema]
    return "".join(f" {each}" for each in rest)


def _short(value: object) -> str:
    return textwrap.shorten(json.dumps(value, ensure_ascii=False), 40, placeholder="…")
