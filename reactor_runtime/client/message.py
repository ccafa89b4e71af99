"""What is said in text, as values: a model's message, the reply to an event, the description of a track."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError
from reactor_runtime.wire.protocol import RESERVED_PREFIX


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the model's, or of the protocol's."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str | int | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read one of the server's. Raises `WireError` for what is none; keys that a later version adds are ignored."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WireError(ErrorCode.INVALID_JSON, f"not JSON: {error}") from error
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise WireError(ErrorCode.INVALID_MESSAGE, "a message is an object with a type")
        data = message.get("data", {})
        if not isinstance(data, dict):
            raise WireError(ErrorCode.INVALID_MESSAGE, "a message's data is an object")
        return cls(message["type"], data, message.get("id"))


@dataclass(frozen=True, slots=True)
class Reply:
    """An event was applied, as number `n` of its session; `message` is what its handler answered, if anything.

    The first frame whose `applied` is at least `n` is the first one made with it.
    """

    n: int
    message: Message | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        said = data.get("message")
        return cls(int(data["n"]), None if said is None else Message(said["type"], said["data"]))


@dataclass(frozen=True, slots=True)
class Track:
    """One of the model's streams; `sample_rate` is None for video."""

    name: str
    kind: Literal["video", "audio"]
    direction: Literal["out", "in"]
    sample_rate: int | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read one entry of a welcome."""
        if data["kind"] not in ("video", "audio") or data["direction"] not in ("out", "in"):
            raise WireError(ErrorCode.INVALID_MESSAGE, f"a track that is {data['kind']} {data['direction']}")
        kind, direction = (
            cast("Literal['video', 'audio']", data["kind"]),
            cast("Literal['out', 'in']", data["direction"]),
        )
        return cls(str(data["name"]), kind, direction, data.get("sample_rate"))


def write(type: str, data: Mapping[str, Any], id: int | None = None) -> str:
    """Write a message to the server; NumPy's numbers and arrays become numbers and lists.

    Raises `TypeError` for a value that JSON can't hold, and `ValueError` for NaN and infinity.
    """
    message: dict[str, Any] = {"type": type, "data": data}
    if id is not None:
        message["id"] = id
    return json.dumps(message, allow_nan=False, separators=(",", ":"), default=_plain)


def write_event(event: str, data: Mapping[str, Any], id: int | None = None, *, most_bytes: int) -> str:
    """Write an event. Raises `ValueError` for a name of the protocol's or too much text, and what `write` does."""
    if event.startswith(RESERVED_PREFIX) or not event:
        raise ValueError(f'"{event}" is no event of a model')
    text = write(event, data, id)
    if len(text) > most_bytes:
        raise ValueError(f"{event} with {len(text)} bytes of data: at most {most_bytes}; a file goes through upload()")
    return text


def _plain(value: object) -> object:
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is nothing that JSON can hold: {value!r:.60}")
