"""Converts an author's values to JSON values; errors name the path of a value that can't be converted or is too large.

The result shares no lists or dicts with the author's value, so later changes do not affect it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from reactor_runtime.authoring.values.upload import UploadedFile

# A server with several sessions needs about 10 ms of its event loop for a message of this size.
MOST_JSON_BYTES = 1 << 20

_MOST_NESTED = 100
_to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Python does not print integers with more digits, and clients can't send them.
_TOO_LARGE = 10**4300


def to_json(value: object, path: str) -> Any:
    """Convert `value`; raise TypeError that names `path`, such as `Progress.step`, if JSON can't express it."""
    return _convert(value, path, 0)


def is_same_json(one: object, other: object) -> bool:
    """Return whether two JSON values are the same in JSON, where 1, 1.0 and true differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return one == other


def check_size(values: Mapping[str, Any], owner: str) -> None:
    """Raise ValueError if the JSON `values` of `owner` have more than 1 MiB together; it names the largest."""
    if _size_bytes(values) <= MOST_JSON_BYTES:
        return
    largest = max(values, key=lambda name: _size_bytes(values[name]))
    field = f"{owner}.{largest} has {_megabytes(_size_bytes(values[largest]))} as JSON"
    everything = "" if len(values) == 1 else f", {owner} {_megabytes(_size_bytes(values))}"
    raise ValueError(
        f"{field}{everything}; at most {_megabytes(MOST_JSON_BYTES)} can be sent at once: "
        "yield images and sound as output, and send large values in parts"
    )


def _size_bytes(value: object) -> int:
    text = _to_text(value)
    return len(text) if text.isascii() else len(text.encode())


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.3g} MB"


def _convert(value: object, path: str, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > _MOST_NESTED:
        raise TypeError(f"{path[:200]}…: nested more than {_MOST_NESTED} deep")
    match value:
        case Enum():
            return _convert(value.value, path, depth + 1)
        case str():
            return _text(value, path)
        case int():
            return _whole(value, path)
        case float() | np.floating():
            return _number(value, path)
        case np.generic():
            return _convert(value.item(), path, depth + 1)
        case np.ndarray():
            return _convert(value.tolist(), path, depth + 1)
        case datetime() if (value.utcoffset() or timedelta()) % timedelta(minutes=1):
            # RFC 3339 has no seconds in an offset, which zones had before 1972.
            return value.astimezone(UTC).isoformat()
        case date() | time():
            return value.isoformat()
        case UploadedFile():
            return {"upload": value.id}
        case PurePath():
            return _text(str(value), path)
        case list() | tuple():
            return [_convert(item, f"{path}.{index}", depth + 1) for index, item in enumerate(value)]
        case Mapping():
            return {_key(key, path): _convert(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: _convert(getattr(value, name), f"{path}.{name}", depth + 1) for name in names}
        case _ if _is_tensor(value):
            tensor: Any = value
            return _convert(tensor.detach().tolist(), path, depth + 1)
    raise TypeError(
        f"{path}: {type(value).__name__} can't be sent as JSON; "
        "use numbers, str, bool, None, dates, times, paths, lists, dicts, Enum, dataclasses, arrays or tensors"
    )


def _is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of torch, which is not imported here: a tensor exists only if it was."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _text(value: str, path: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise TypeError(f"{path}: half a surrogate pair at position {error.start} can't be sent") from error
    return str.__str__(value)


def _whole(value: int, path: str) -> int:
    if abs(value) >= _TOO_LARGE:
        raise TypeError(f"{path}: an integer of {value.bit_length()} bits is too large to be sent")
    return int(value)


def _number(value: float | np.floating[Any], path: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise TypeError(f"{path}: {number} can't be sent as JSON; use None for a value that isn't there")
    return number


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{path}: the key {key!r} is {type(key).__name__}; JSON objects have str keys")
    return _text(key, path)
