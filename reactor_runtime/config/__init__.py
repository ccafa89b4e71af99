"""The config that `load()` receives: a dictionary of the file with overrides, or the path of a file.

The values of the dictionary are those of JSON.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactor_runtime.config.yamlfile import YamlFile, name_of, parse_value, read
from reactor_runtime.errors import ConfigError

# In the values of a file that only the model reads.
_FILE, _HASH = "config_path", "sha256"


@dataclass(frozen=True, slots=True)
class Override:
    """Set one value of a config, at the end of a path of keys; `written` is how it was given, for messages."""

    keys: tuple[str, ...]
    value: Any
    written: str

    @classmethod
    def parse(cls, text: str) -> Override:
        """Return the override of `--set a.b=3`, whose value is YAML. Raises ConfigError."""
        written = f"--set {text}"
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f'{written}: there is no "="', hint=f"write --set {text or 'key'}=VALUE")
        try:
            return cls(_split(key, written), parse_value(value), written)
        except ValueError as error:
            raise ConfigError(
                f"{written}: the value isn't valid YAML: {error}", hint=f"quote it: --set '{key}=\"…\"'"
            ) from None

    @classmethod
    def of(cls, key: str, value: object) -> Override:
        """Return the override of a key with dots and a value. Raises ConfigError for a value that JSON lacks."""
        written = f"set {key}={value!r}"
        try:
            return cls(_split(str(key), written), _json_value(value, f"set {key}"), written)
        except RecursionError:
            raise ConfigError(f"set {key} is nested too deeply, or contains itself") from None


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """Hold the config that a project gives to its model, as a mapping and as a file.

    `values` is None for a `file` that was not read, because it may have any content. Values that are not those of
    `file` are written to `merged` for a `load()` that takes a path.
    """

    values: dict[str, Any] | None
    file: Path | None = None
    merged: Path | None = None

    @classmethod
    def of(cls, given: GivenConfig | Mapping[str, Any] | Path | None) -> GivenConfig:
        """Return the config of a caller that has a mapping, a file, or neither."""
        if isinstance(given, GivenConfig):
            return given
        if isinstance(given, Path):
            return cls(None, given)
        return cls(copy.deepcopy(dict(given or {})))


def merged_path(file: Path) -> Path:
    """Return a name beside a config file for its values with overrides, which no other process uses."""
    return file.with_name(f"{file.stem}.set-{os.getpid()}-{secrets.token_hex(3)}{file.suffix}")


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write a config at once, as JSON if the name ends so, else as YAML that readers of 1.1 and 1.2 read alike.

    Raises ConfigError.
    """
    import yaml

    as_json = path.suffix.lower() == ".json"
    text = (
        json.dumps(values, indent=2) if as_json else yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
    )
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(3)}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(
            f"the config with the values of --set can't be written to {path}: {error.strerror}",
            hint="load() reads a file beside the config file: make its directory writable, or leave out --set",
        ) from None


def values_of_file(path: Path) -> dict[str, Any]:
    """Return what recordings and reloads know of a file that only the model reads: its name and a hash."""
    return {_FILE: path.name, _HASH: hash_of_file(path)}


def hash_of_file(path: Path | None) -> str:
    """Return a hash of a config file's content, "" without a file. Raises ConfigError if it can't be read."""
    if path is None:
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"the config file {path} can't be read: {error.strerror}") from None


def is_of_file(values: Mapping[str, Any]) -> bool:
    """Return whether these are values of `values_of_file`, which lack the content of the config."""
    return values.keys() == {_FILE, _HASH}


def load(
    path: Path | None, overrides: Sequence[Override] = (), *, warn: Callable[[str], object] | None = None
) -> dict[str, Any]:
    """Read the config file (`{}` if there is none or it is empty) and apply the overrides in order.

    `warn` receives a line for each override of a key that the file lacks if it has a similar key, and for each text
    in the file that looks like a number.
    """
    file = _read(path) if path else None
    config: dict[str, Any] = file.values if file is not None and file.values is not None else {}
    result = override(config, overrides)
    if warn is not None:
        for line in (*_misread_numbers(file), *misspelt_keys(config, overrides)):
            warn(line)
    return result


def misspelt_keys(config: Mapping[str, Any], overrides: Sequence[Override]) -> Iterator[str]:
    """Yield a warning for each override whose key `config` lacks if it has a similar key."""
    for each in overrides:
        wrong, near = _misspelt(config, each.keys)
        if near:
            yield f"{each.written}: the config has no {wrong}; did you mean {near}?"


def override(config: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """Return `config` with every override applied; missing mappings are created."""
    result = copy.deepcopy(config)
    for each in overrides:
        inner = result
        for depth, key in enumerate(each.keys[:-1], start=1):
            step = inner.get(key)
            if step is None:
                step = inner[key] = {}
            if not isinstance(step, dict):
                path = ".".join(each.keys[:depth])
                raise ConfigError(
                    f"{each.written}: {path} is {name_of(step)} ({step!r}), not a mapping",
                    hint=f"set {path} itself, or correct the key",
                )
            inner = step
        inner[each.keys[-1]] = copy.deepcopy(each.value)
    return result


def to_text(config: dict[str, Any]) -> str:
    """Return the text of a config for a recording, which is JSON; `recording.configs` reads it."""
    # The config that a class gives to `@model` may contain objects, also as keys.
    return json.dumps(config, default=str, skipkeys=True)


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two configs have equal values of equal types; for Python 1, 1.0 and True are equal."""
    return to_text(one) == to_text(other)


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


def _read(path: Path) -> YamlFile:
    if not path.is_file():
        raise ConfigError(f"the config file {path} doesn't exist")
    file = read(path, ConfigError)
    if not isinstance(file.values, dict | None):
        raise ConfigError(
            f"{path.name} is {name_of(file.values)}, not a mapping",
            where=file.root,
            hint="write it as lines of `key: value`",
        )
    return file


def _misread_numbers(file: YamlFile | None) -> Iterator[str]:
    for text, where in () if file is None else file.misread_numbers():
        place = f"{Path(where.file).name}:{where.line}"
        yield f"{place}: {text} is text; write a number as 1000, 1e-5 or 0x1f, or put quotes around text"


def _split(key: str, written: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in key.split("."))
    if not all(keys):
        raise ConfigError(f"{written}: the key has an empty part", hint="write --set key=value or --set key.sub=value")
    return keys


def _json_value(value: object, path: str) -> Any:
    """Return a copy of a value that JSON has; raise ConfigError for any other value."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_json_value(each, f"{path}[{idx}]") for idx, each in enumerate(value)]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _json_value(each, f"{path}.{key}") for key, each in value.items()}
    what = "has keys that are no text" if isinstance(value, dict) else f"is a {type(value).__name__}"
    raise ConfigError(
        f"{path} {what}, and a config has the values of JSON",
        hint="numbers, text, booleans, None, lists and dicts with text as keys",
    )
