"""Comparison of two contracts: whether a recording fits a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

# These describe how a page shows an event.
_PRESENTATION = frozenset({"default", "description", "title", "x-reactor-bind", "x-reactor-ui"})
_MISSING = object()
MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class _Track:
    name: str
    kind: Literal["video", "audio"]
    direction: Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class _Event:
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Schema:
    events: dict[str, _Event]
    messages: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Contract:
    tracks: list[_Track]
    schema: _Schema


_CONTRACT = TypeAdapter(_Contract)


def check_contract(contract: object) -> None:
    """Raise ValueError if a recorded contract lacks what is compared here."""
    _CONTRACT.validate_python(contract)


def kinds_of(contract: Mapping[str, Any], direction: Literal["in", "out"]) -> dict[str, str]:
    """Return the kinds of the tracks in one direction, "video" or "audio", by their names."""
    return {track["name"]: track["kind"] for track in contract["tracks"] if track["direction"] == direction}


def contract_differences(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return how a model's contract differs from the recorded one in tracks, events and messages, one line each.

    Labels, descriptions, bindings and default values may differ.
    """
    old, new = _parts(recorded), _parts(current)
    return [line for kind in old for line in _differences(kind, old[kind], new[kind])]


def _parts(contract: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "track": {track["name"]: track for track in contract["tracks"]},
        "event": {name: event["parameters"] for name, event in contract["schema"]["events"].items()},
        "message": contract["schema"]["messages"],
    }


def _differences(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            yield f"{kind} {name} is gone"
        elif name not in old:
            yield f"{kind} {name} is new"
        else:
            yield from (f"{kind} {name}: {line}" for line in _changes(old[name], new[name], ""))


def _changes(old: object, new: object, path: str, *, of_names: bool = False) -> Iterator[str]:
    """Yield the differences of two JSON schemas; the keys of a mapping `of_names` are the author's, not a schema's."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if of_names or key not in _PRESENTATION:
                values = old.get(key, _MISSING), new.get(key, _MISSING)
                yield from _changes(*values, f"{path}.{key}".lstrip("."), of_names=key == "properties" and not of_names)
    elif old != new:
        yield f"{path} was {_shown(old)}, is {_shown(new)}"


def _shown(value: object) -> str:
    text = "none" if value is _MISSING else repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
