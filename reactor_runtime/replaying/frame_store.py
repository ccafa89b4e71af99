"""The frames that a replay has made, in a temporary file: images as JPEG with their metadata, sound as its samples."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.tracks.track_payload import TrackPayload
from reactor_runtime.media import jpeg

MOST_BYTES = 2 << 30
QUALITY = 90
NO_METADATA: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Stored:
    offset: int
    size_bytes: int
    # Of sound; an image has its own.
    channels: int = 0
    # The length of the JSON text of the metadata, after the image.
    metadata_bytes: int = 0


class FrameStore:
    """Append frames on one thread, and read those appended on any.

    Holds at most 2 GiB. When that or the disk is full, `full` has the reason, and later frames are not stored.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        # It has no name, so that nothing is left of it when the process is killed.
        self._file = tempfile.TemporaryFile(prefix="reactor-replay-")  # noqa: SIM115  (the store closes it)
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._frames: list[dict[str, _Stored]] = []
        self.full = ""

    def __len__(self) -> int:
        return len(self._frames)

    def append(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any] = NO_METADATA) -> None:
        """Append a frame: the images, with the metadata of some or all, and the sound of its tracks, by name."""
        if self.full:
            return
        try:
            frame = {track: self._store(array, metadata.get(track)) for track, array in arrays.items()}
        except OSError as error:
            self.full = f"the temporary file can't be written: {error.strerror}"
            return
        if self._size_bytes > self._most_bytes:
            self.full = f"they would take more than {self._most_bytes / (1 << 30):g} GiB"
            return
        self._frames.append(frame)

    def read(self, number: int) -> dict[str, TrackPayload]:
        """Return the images, with their metadata, and the sound of a frame."""
        return {track: self._load(stored) for track, stored in self._frames[number].items()}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def _store(self, array: NDArray[Any], metadata: object) -> _Stored:
        is_image = array.ndim == 3
        text = b"" if metadata is None else json.dumps(metadata).encode()
        content = (jpeg.encode(array, quality=QUALITY) if is_image else np.ascontiguousarray(array).tobytes()) + text
        stored = _Stored(self._size_bytes, len(content), 0 if is_image else array.shape[0], len(text))
        self._size_bytes += len(content)
        if self._size_bytes <= self._most_bytes:
            _write(self._file.fileno(), content, stored.offset)
        return stored

    def _load(self, stored: _Stored) -> TrackPayload:
        content = os.pread(self._file.fileno(), stored.size_bytes, stored.offset)
        if stored.channels:
            return TrackPayload(np.frombuffer(content, np.int16).reshape(stored.channels, -1))
        end = len(content) - stored.metadata_bytes
        metadata = json.loads(content[end:]) if stored.metadata_bytes else None
        return TrackPayload(jpeg.decode(content[:end]), metadata=metadata)


def _write(fd: int, content: bytes, offset: int) -> None:
    # A disk that is almost full takes a part.
    while content:
        written = os.pwrite(fd, content, offset)
        content, offset = content[written:], offset + written
