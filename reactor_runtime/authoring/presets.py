"""Checks the presets of reactor.yaml against the events of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.config.yamlfile import read
from reactor_runtime.errors import InvalidEvent, Location, ManifestError

Presets = Mapping[str, Mapping[str, Any]]
NO_PRESETS: Presets = {}
_MANIFEST = "reactor.yaml"


def check_presets(contract: Contract, presets: Presets, project: Path) -> None:
    """Check the values of all presets; raise ManifestError at the line of the project's reactor.yaml."""
    events = setters(contract)
    for preset, values in presets.items():
        for field, value in values.items():
            message, hint = _problem(events, field, value, contract.model.__name__)
            if field in contract.read_only:
                message, hint = f'sets "{field}", which is read_only', "leave it out: the model alone sets it"
            if message:
                where = _place(project / _MANIFEST, preset, field)
                raise ManifestError(f'the preset "{preset}" {message}', hint=hint, where=where)


def _place(manifest: Path, preset: str, field: str) -> Location | None:
    try:
        return read(manifest, ManifestError).key_place("presets", preset, field)
    except ManifestError:
        return None


def setters(contract: Contract) -> dict[str, EventSpec]:
    """Return the events that have a live control, by the name of what they set."""
    found: dict[str, EventSpec] = {}
    for event in contract.events.values():
        if len(event.arguments.names) != 1:
            continue
        [argument] = event.arguments.names
        if event.field or event.name == f"set_{argument}":
            found[event.field or argument] = event
    return found


def _problem(setters: Mapping[str, EventSpec], field: str, value: object, model: str) -> tuple[str, str]:
    """Return what is wrong with a value, and the fix; two empty texts if nothing is."""
    event = setters.get(field)
    if event is None:
        near = get_close_matches(field, setters, n=1)
        known = f"the fields are {', '.join(setters)}" if setters else "declare it as a field of the model's state"
        return f'sets "{field}", which {model} does not have', f'did you mean "{near[0]}"?' if near else known
    try:
        event.validate(json.dumps({event.arguments.names[0]: value}))
    except InvalidEvent as error:
        problems = "; ".join(each.message for each in error.fields)
        return f'has a wrong value for "{field}": {problems}', f"change it, or what {event.name} accepts"
    return "", ""
