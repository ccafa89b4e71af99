"""Events as people type them, `set_prompt prompt="a fox" strength=0.5`, read and completed by the model's schema."""

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
class Spoken:
    """One event; `files` are the parameters whose values are files to upload first."""

    event: str
    data: dict[str, Any]
    files: dict[str, Path] = field(default_factory=dict)


def split(line: str) -> tuple[str, list[str]]:
    """Split a line into its event and the words after it. Raises `UsageError` for quotes left open, and for nothing."""
    try:
        event, *words = shlex.split(line)
    except ValueError as error:
        why = "there is no event in it" if "unpack" in str(error) else str(error).lower()
        raise UsageError(f"{line!r}: {why}", hint=EXAMPLE) from None
    return event, words


def read(line: str, schema: Mapping[str, Any]) -> Spoken:
    """Read an event: its name, then `parameter=value`.

    Values are JSON where they can be, text otherwise; where the schema wants text they are text, and `@path` is a file
    where it wants one. A single value without a name is that of the event's only parameter. An event that the model
    does not have is read without such values: the server refuses it by its name. Raises `UsageError`.
    """
    event, words = split(line)
    parameters, is_known = parameters_of(event, schema), event in schema.get("events", {})
    data: dict[str, Any] = {}
    files: dict[str, Path] = {}
    for word in words:
        name, is_named, value = word.partition("=")
        if not is_named or not name.isidentifier():
            if not is_known:
                continue
            if len(words) > 1 or len(parameters) != 1:
                raise UsageError(f"{word!r} in {line!r} is no parameter=value", hint=EXAMPLE)
            name, value = next(iter(parameters)), word
        wanted = parameters.get(name, {})
        if value.startswith("@") and _is_file(wanted):
            files[name] = Path(value[1:])
        else:
            data[name] = value if _is_text(wanted) else _value(value)
    return Spoken(event, data, files)


def parameters_of(event: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the JSON Schemas of an event's parameters by name; none for an event that isn't there."""
    spec = schema.get("events", {}).get(event, {})
    parameters: Mapping[str, Any] = spec.get("parameters", {}).get("properties", {})
    return parameters


def suggestion(event: str, schema: Mapping[str, Any]) -> str:
    """Return a question that names the event most like this one, empty where there is none."""
    near = difflib.get_close_matches(event, schema.get("events", {}), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def completions(line: str, schema: Mapping[str, Any]) -> list[str]:
    """List what the last word of a line may become: events, then parameters, then values to choose from."""
    before, _, word = line.rpartition(" ")
    if not before.strip():
        return [f"{event} " for event in schema.get("events", {}) if event.startswith(word)]
    parameters = parameters_of(before.split()[0], schema)
    name, is_named, value = word.partition("=")
    if is_named:
        choices = [_shown(choice) for choice in _choices(parameters.get(name, {}))]
        return [f"{name}={choice} " for choice in choices if choice.startswith(value)]
    given = {each.partition("=")[0] for each in before.split()[1:]}
    return [f"{each}=" for each in parameters if each.startswith(word) and each not in given]


def _choices(parameter: Mapping[str, Any]) -> list[Any]:
    if parameter.get("type") == "boolean":
        return [True, False]
    if "const" in parameter:
        return [parameter["const"]]
    return [*parameter.get("enum", ()), *(c for each in parameter.get("anyOf", ()) for c in _choices(each))]


def _shown(value: Any) -> str:
    return shlex.quote(value) if isinstance(value, str) else json.dumps(value)


def _is_text(parameter: Mapping[str, Any]) -> bool:
    """Whether a value can only be text; where it may be something else too, what looks like that is that."""
    enum = parameter.get("enum")
    return parameter.get("type") == "string" or (enum is not None and all(isinstance(each, str) for each in enum))


def _is_file(parameter: Mapping[str, Any]) -> bool:
    """Whether a value may be a file, by itself."""
    return parameter.get("format") == "upload" or any(_is_file(each) for each in parameter.get("anyOf", ()))


def _value(text: str) -> Any:
    """Read JSON, or text: NaN and Infinity are none, though Python would read them."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)
