"""Bytes of the seam: two lengths, a JSON array of a message's name and its fields in order, and a file or nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, get_args

from reactor_runtime.seam.messages import Media, Message, Moment, Picture, Sound, ToEngine, ToServer, Upload

LENGTHS = struct.Struct(">II")

_to_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make an encoder for each message


class Framing:
    """Cut a stream of bytes into messages, however the stream comes in pieces."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes and yield every message they complete."""
        pending = self._pending
        pending += data
        start = 0
        try:
            while len(pending) - start >= LENGTHS.size:
                body_size, file_size = LENGTHS.unpack_from(pending, start)
                body = start + LENGTHS.size
                file = body + body_size
                if len(pending) < file + file_size:
                    break
                start = file + file_size
                yield _decode(pending[body:file], pending[file:start])
        finally:
            del pending[:start]


def encode(message: Message) -> bytes:
    """Turn a message into the bytes that `Framing` cuts back into it."""
    kind = type(message)
    file = message.file if isinstance(message, Media | Upload) else b""
    body = _to_json([kind.__name__, *_FIELDS[kind](message)]).encode()
    return b"".join((LENGTHS.pack(len(body), len(file)), body, file))


def _decode(body: bytearray, file: bytearray) -> Message:
    name, *values = json.loads(body)
    if name in _WITH_FILE:
        values.append(bytes(file))
    return _MAKERS[name](*values)


def _moment_fields(moment: Moment) -> tuple[Any, ...]:
    *plain, pictures, sounds, first, inputs, nudges = _moment_plain(moment)
    shown, played = [_picture_fields(item) for item in pictures], [_sound_fields(item) for item in sounds]
    return (*plain, shown, played, first, inputs, nudges)


def _make_moment(*values: Any) -> Moment:
    *plain, pictures, sounds, first, inputs, nudges = values
    make: Callable[..., Moment] = Moment
    shown, played = tuple(Picture(*item) for item in pictures), tuple(Sound(*item) for item in sounds)
    return make(*plain, shown, played, first, tuple(inputs), nudges)


def _plain_fields(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = list(kind.__dataclass_fields__)  # type: ignore[attr-defined]  # every message is a dataclass
    if len(names) < 2:  # attrgetter gives a tuple only for two names and more
        return lambda message: tuple(getattr(message, name) for name in names)
    return attrgetter(*names)


_moment_plain = _plain_fields(Moment)
_picture_fields = _plain_fields(Picture)
_sound_fields = _plain_fields(Sound)
_KINDS: tuple[type, ...] = (*get_args(ToEngine), *get_args(ToServer))
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {kind: _plain_fields(kind) for kind in _KINDS}
_FIELDS[Moment] = _moment_fields
_FIELDS[Media] = attrgetter("session", "track")
_FIELDS[Upload] = attrgetter("session", "id", "name", "content_type", "path")
_WITH_FILE = (Media.__name__, Upload.__name__)
_MAKERS: dict[str, Callable[..., Message]] = {kind.__name__: kind for kind in _KINDS}
_MAKERS["Moment"] = _make_moment
