"""Typed events, such as `set_prompt prompt="a fox" strength=0.5`: parsed and completed with the model's schema."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reactor_runtime.errors import UsageError

EXAMPLE = "as in: set_prompt prompt='a fox' strength=0.5"


@dataclass(frozen=True, slots=True)
class TypedEvent:
    """An event; `files` maps parameters to files that have to be uploaded first."""

    event: str
    data: dict[str, Any]
    files: dict[str, Path] = field(default_factory=dict)


def split_event(line: str) -> tuple[str, list[str]]:
    """Return the event and the words after it. Raises `UsageError` for an open quote and for an empty line."""
    try:
        event, *words = shlex.split(line)
    except ValueError as error:
        why = "it contains no event" if "unpack" in str(error) else str(error).lower()
        raise UsageError(f"{line!r}: {why}", hint=EXAMPLE) from None
    return event, words


def parse_event(line: str, schema: Mapping[str, Any]) -> TypedEvent:
    """Parse an event: its name, then `parameter=value`.

    A value is JSON if it parses, text otherwise; text where the schema requires text, and `@path` is a file where the
    schema accepts one. A single value without a name is for the event's only parameter. An unknown event is returned
    without such a value: the server refuses it by its name. Raises `UsageError`.
    """
    event, words = split_event(line)
    parameters, is_known = parameters_of(event, schema), event in schema.get("events", {})
    data: dict[str, Any] = {}
    files: dict[str, Path] = {}
    for word in words:
        name, is_named, value = word.partition("=")
        if not is_named or not name.isidentifier():
            if not is_known:
                continue
            if len(words) > 1 or len(parameters) != 1:
                raise UsageError(f"{word!r} in {line!r} is not parameter=value", hint=EXAMPLE)
            name, value = next(iter(parameters)), word
        wanted = parameters.get(name, {})
        if value.startswith("@") and _is_file(wanted):
            files[name] = Path(value[1:])
        else:
            data[name] = value if _is_text(wanted) else _json_or_text(value)
    return TypedEvent(event, data, files)


def parameters_of(event: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON Schemas of an event's parameters by name; none for an unknown event."""
    spec = schema.get("events", {}).get(event, {})
    parameters: Mapping[str, Any] = spec.get("parameters", {}).get("properties", {})
    return parameters


def similar_event(event: str, schema: Mapping[str, Any]) -> str | None:
    """Return the event with the most similar name, None if there is no similar one."""
    near = difflib.get_close_matches(event, schema.get("events", {}), n=1)
    return near[0] if near else None


def complete_event(line: str, schema: Mapping[str, Any]) -> list[str]:
    """Return the completions of the last word of a line: events, then parameters, then values."""
    before, _, word = line.rpartition(" ")
    if not before.strip():
        return [f"{event} " for event in schema.get("events", {}) if event.startswith(word)]
    parameters = parameters_of(before.split()[0], schema)
    name, is_named, value = word.partition("=")
    if is_named:
        choices = [_quoted(choice) for choice in _choices(parameters.get(name, {}))]
        return [f"{name}={choice} " for choice in choices if choice.startswith(value)]
    used = {each.partition("=")[0] for each in before.split()[1:]}
    return [f"{each}=" for each in parameters if each.startswith(word) and each not in used]


def _choices(parameter: Mapping[str, Any]) -> list[Any]:
    if parameter.get("type") == "boolean":
        return [True, False]
    if "const" in parameter:
        return [parameter["const"]]
    return [*parameter.get("enum", ()), *(c for each in parameter.get("anyOf", ()) for c in _choices(each))]


def _quoted(value: Any) -> str:
    return shlex.quote(value) if isinstance(value, str) else json.dumps(value)


def _is_text(parameter: Mapping[str, Any]) -> bool:
    """Return whether only text is valid; otherwise a value that parses as JSON is taken as JSON."""
    enum = parameter.get("enum")
    return parameter.get("type") == "string" or (enum is not None and all(isinstance(each, str) for each in enum))


def _is_file(parameter: Mapping[str, Any]) -> bool:
    """Return whether a file is valid as the whole value."""
    return parameter.get("format") == "upload" or any(_is_file(each) for each in parameter.get("anyOf", ()))


def _json_or_text(text: str) -> Any:
    """Return the JSON value, or the text itself; NaN and Infinity are text, although Python parses them."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)
