"""The config in a recording: read with limits, compared with that of a project, and used in a replay."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactor_runtime.config import GivenConfig, is_of_file, laid_over, values_of_file
from reactor_runtime.config import load as load_values
from reactor_runtime.config.yamlfile import parse_value
from reactor_runtime.errors import UsageError

# PyYAML takes a few hundred bytes for each byte.
MOST_BYTES = 256 << 10
MOST_VALUES = 10_000
MOST_LEVELS = 64
MOST_CHARACTERS = 80
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Hold the config with which a replay loads the model; with `over_recorded` it overrides the recorded config.

    See `GivenConfig` for `file` and `merged`, and for values that are None.
    """

    values: Mapping[str, Any] | None
    over_recorded: bool = False
    file: Path | None = None
    merged: Path | None = None

    def of(self, recorded: str) -> GivenConfig:
        """Return the config for a load that had this config in the recording.

        Raises UsageError if the recording does not have the content of a config file that only the model read.
        """
        values = None if self.values is None else copy.deepcopy(dict(self.values))
        if not self.over_recorded:
            return GivenConfig(values, self.file, self.merged)
        recorded_values = parse_config(recorded)
        if is_of_file(recorded_values):
            raise UsageError(
                "the recording has a hash of its config file, not the content: load() read the file itself",
                hint="--config-from project loads the model with the config file of the project",
            )
        return GivenConfig(laid_over(recorded_values, values or {}))


def comparable(given: GivenConfig, recorded: str) -> dict[str, Any]:
    """Return the values of a project's config in the form of those in a recording, to be compared."""
    if given.values is not None:
        return given.values
    assert given.file is not None, "a config without values is that of a file"
    if is_of_file(parse_config(recorded)):
        return values_of_file(given.file)
    return load_values(given.file)


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
