"""Comparison of two contracts: whether a recording fits a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# These describe how a page shows an event.
_PRESENTATION = frozenset({"default", "description", "title", "x-reactor-bind", "x-reactor-ui"})
_MISSING = object()


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
        was, now = ("none" if value is _MISSING else repr(value) for value in (old, new))
        yield f"{path} was {was}, is {now}"
