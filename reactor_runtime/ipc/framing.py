"""The bytes of a message: a slot, two lengths, a JSON array of its name and its fields in order, and a file or nothing.

A message about a session has the slot of that session, of the slots of the loaded model; all others have slot 0.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, get_args

from reactor_runtime.ipc.messages import (
    Bundle,
    BundleFrame,
    BundleSound,
    ClientMedia,
    Message,
    ToEngine,
    ToServer,
    UploadedBytes,
)

HEAD = struct.Struct(">BII")

# json.dumps would create an encoder for each message, and json.loads look for the encoding of its bytes.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.JSONDecoder().decode


class Framing:
    """Split a stream of bytes, in pieces of any size, into messages of at most `most_bytes`."""

    def __init__(self, most_bytes: float = math.inf) -> None:
        self._most_bytes = most_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, Message]]:
        """Add bytes and yield every message they complete, with its slot.

        Raises ValueError at the head of a message that is too large.
        """
        pending = self._pending
        pending += data
        start = 0
        try:
            while len(pending) - start >= HEAD.size:
                slot, body_size, file_size = HEAD.unpack_from(pending, start)
                if body_size + file_size > self._most_bytes:
                    raise ValueError(f"a message of {body_size + file_size} bytes is above {self._most_bytes}")
                body = start + HEAD.size
                file = body + body_size
                if len(pending) < file + file_size:
                    break
                start = file + file_size
                yield slot, _decode(pending[body:file], pending[file:start])
        finally:
            del pending[:start]


def encode(message: Message, slot: int = 0) -> bytes:
    """Return the bytes of a message."""
    return b"".join(encode_parts(message, slot))


def encode_parts(message: Message, slot: int = 0) -> tuple[bytes, bytes]:
    """Return the bytes of a message in two parts; the second is its file, not copied, or empty."""
    kind = type(message)
    file = message.file if isinstance(message, ClientMedia | UploadedBytes) else b""
    body = _to_json([kind.__name__, *_FIELDS[kind](message)]).encode()
    return HEAD.pack(slot, len(body), len(file)) + body, file


def _decode(body: bytearray, file: bytearray) -> Message:
    name, *values = _from_json(body.decode())
    if name in _WITH_FILE:
        values.append(bytes(file))
    return _MAKERS[name](*values)


def _make_bundle(*values: Any) -> Bundle:
    *plain, frames, sounds, first, inputs, reserve_s, others = values
    shown = tuple([BundleFrame._make((*plain_frame, tuple(seqs))) for *plain_frame, seqs in frames])
    played = tuple([BundleSound._make((*plain_sound, tuple(seqs))) for *plain_sound, seqs in sounds])
    return Bundle._make((*plain, shown, played, first, tuple(inputs), reserve_s, tuple(others)))


def _media_fields(media: ClientMedia) -> tuple[Any, ...]:
    # Latin-1 gives each byte a character.
    metadata = None if media.metadata is None else media.metadata.decode("latin-1")
    return media.session, media.track, media.pts, metadata, media.capture_time_us, media.client


def _make_media(*values: Any) -> ClientMedia:
    session, track, pts, metadata, capture_time_us, client, file = values
    sent = None if metadata is None else metadata.encode("latin-1")
    return ClientMedia(session, track, file, pts, sent, capture_time_us, client)


def _plain_fields(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    # Every other message is a dataclass.
    names = list(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    # attrgetter returns a tuple only for two names and more.
    if len(names) < 2:
        return lambda message: tuple(getattr(message, name) for name in names)
    return attrgetter(*names)


_KINDS: tuple[type, ...] = (*get_args(ToEngine), *get_args(ToServer))
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    # A bundle is a tuple of its fields, and so are its frames and sounds.
    kind: tuple if kind is Bundle else _plain_fields(kind)
    for kind in _KINDS
}
_FIELDS[ClientMedia] = _media_fields
_FIELDS[UploadedBytes] = attrgetter("session", "id", "name", "content_type", "path", "client")
_WITH_FILE = (ClientMedia.__name__, UploadedBytes.__name__)
_MAKERS: dict[str, Callable[..., Message]] = {kind.__name__: kind for kind in _KINDS}
_MAKERS["Bundle"] = _make_bundle
_MAKERS["ClientMedia"] = _make_media
