"""The config in a recording: read with limits, compared with that of a project, and used in a replay."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reactor_runtime.config import laid_over
from reactor_runtime.yamlfile import parse_value

# PyYAML takes a few hundred bytes for each byte.
MOST_BYTES = 256 << 10
MOST_VALUES = 10_000
MOST_LEVELS = 64
MOST_CHARACTERS = 80
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Hold the config with which a replay loads the model; with `over_recorded` it overrides the recorded config."""

    values: Mapping[str, Any]
    over_recorded: bool = False

    def of(self, recorded: str) -> dict[str, Any]:
        """Return the config for a load that had this config in the recording."""
        values = dict(self.values)
        return laid_over(parse_config(recorded), values) if self.over_recorded else copy.deepcopy(values)


def parse_config(text: str) -> dict[str, Any]:
    """Return the config of a recording, which `config.to_text` wrote; raise ValueError for one that no project has."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"the config has more than {MOST_BYTES >> 10} KiB")
    try:
        values = json.loads(text)
    # Earlier versions wrote YAML.
    except (ValueError, RecursionError):
        # No version wrote merge keys, and a few hundred bytes with them take minutes in some releases of PyYAML.
        if "<<" in text:
            raise ValueError("the config has a merge key") from None
        values = parse_value(text)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError("the config is not a mapping")
    # An alias repeats a value: a few lines may describe more values than fit in memory.
    for count, _ in enumerate(_values(values, 0)):
        if count == MOST_VALUES:
            raise ValueError(f"the config has more than {MOST_VALUES:,} values")
    return values


def config_differences(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return how a recorded config differs from the current one, a line for each value."""
    return list(_differences(recorded, current, ""))


def _values(value: object, level: int) -> Iterator[None]:
    if level > MOST_LEVELS:
        raise ValueError(f"the config has more than {MOST_LEVELS} levels")
    yield
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    for each in inner:
        yield from _values(each, level + 1)


def _differences(old: Mapping[Any, Any], new: Mapping[Any, Any], path: str) -> Iterator[str]:
    for key in [*old, *(key for key in new if key not in old)]:
        was, now = old.get(key, _MISSING), new.get(key, _MISSING)
        place = f"{path}.{key}" if path else str(key)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from _differences(was, now, place)
        # Compare texts: those of NaN are equal, and those of 1 and True differ.
        elif repr(was) != repr(now):
            yield f"{place} was {_shown(was)}, is {_shown(now)}"


def _shown(value: object) -> str:
    text = "missing" if value is _MISSING else repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
