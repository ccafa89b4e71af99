"""The dictionary that `load(config)` receives: the config file with `--set` overrides."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reactor_runtime.errors import ConfigError
from reactor_runtime.yamlfile import name_of, parse_value, read


def load(
    path: Path | None, overrides: Sequence[str] = (), *, warn: Callable[[str], object] | None = None
) -> dict[str, Any]:
    """Read the config file (`{}` if there is none or it is empty) and apply `--set` texts such as `a.b=3` in order.

    `warn` receives a line for each override of a key that the file lacks if it has a similar key.
    """
    config = _read(path) if path else {}
    result = override(config, overrides)
    if warn is not None:
        for line in misspelt_keys(config, overrides):
            warn(line)
    return result


def misspelt_keys(config: Mapping[str, Any], assignments: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each `--set` text whose key `config` lacks if it has a similar key."""
    for assignment in assignments:
        keys, _ = _parse(assignment)
        wrong, near = _misspelt(config, keys)
        if near:
            yield f"--set {assignment}: the config has no {wrong}; did you mean {near}?"


def override(config: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return `config` with every `key.sub=value` applied; values are YAML, missing mappings are created."""
    result = copy.deepcopy(config)
    for assignment in assignments:
        keys, value = _parse(assignment)
        inner = result
        for depth, key in enumerate(keys[:-1], start=1):
            step = inner.get(key)
            if step is None:
                step = inner[key] = {}
            if not isinstance(step, dict):
                raise ConfigError(
                    f"--set {assignment}: {'.'.join(keys[:depth])} is {name_of(step)} ({step!r}), not a mapping",
                    hint=f"set {'.'.join(keys[:depth])} itself, or correct the key",
                )
            inner = step
        inner[keys[-1]] = value
    return result


def laid_over(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`: mappings key by key, other values replaced; return a new dict."""
    result = copy.deepcopy(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = laid_over(below, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _misspelt(config: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, str]:
    """Return the dotted path of the first missing key and of the most similar existing one; "" if there is none."""
    inner: Any = config
    for depth, key in enumerate(keys):
        if not isinstance(inner, dict):
            break
        if key not in inner:
            near = difflib.get_close_matches(key, [each for each in inner if isinstance(each, str)], n=1)
            return ".".join(keys[: depth + 1]), ".".join([*keys[:depth], *near]) if near else ""
        inner = inner[key]
    return "", ""


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"the config file {path} doesn't exist")
    file = read(path, ConfigError)
    if file.values is None:
        return {}
    if not isinstance(file.values, dict):
        raise ConfigError(
            f"{path.name} is {name_of(file.values)}, not a mapping",
            where=file.root,
            hint="write it as lines of `key: value`",
        )
    return file.values


def _parse(assignment: str) -> tuple[list[str], Any]:
    key, equals, text = assignment.partition("=")
    if not equals:
        raise ConfigError(f'--set {assignment}: there is no "="', hint=f"write --set {assignment or 'key'}=VALUE")
    keys = [part.strip() for part in key.split(".")]
    if not all(keys):
        raise ConfigError(
            f"--set {assignment}: the key has an empty part", hint="write --set key=value or --set key.sub=value"
        )
    try:
        return keys, parse_value(text)
    except ValueError as error:
        raise ConfigError(
            f"--set {assignment}: the value isn't valid YAML: {error}", hint=f"quote it: --set '{key}=\"…\"'"
        ) from None
