"""PNG as a second encoding of video tracks: the container and the encoding that docs/architecture.md asks for."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reactor_runtime.server.encoding.track_encoding import Rung
from reactor_runtime.wire.media_header import MediaHeader

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The signature and the chunk IHDR, which has to be the first.
START_BYTES = 33
CHUNK = struct.Struct(">I4s")
CRC_BYTES = 4


class PngContainer:
    """A PNG; the header is a private chunk after IHDR."""

    name = "PNG"
    media_type = "image/png"
    kind: Literal["video"] = "video"

    def matches(self, data: bytes) -> bool:
        return data.startswith(SIGNATURE)

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        named = b"rcTr" + header.pack()
        chunk = struct.pack(">I", len(named) - 4) + named + struct.pack(">I", zlib.crc32(named))
        return b"".join((file[:START_BYTES], chunk, file[START_BYTES:]))

    def read(self, data: bytes) -> MediaHeader | None:
        size, name = CHUNK.unpack_from(data, START_BYTES)
        start = START_BYTES + CHUNK.size
        return MediaHeader.unpack(data[start : start + size]) if name == b"rcTr" else None

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        header = self.read(data)
        if header is None:
            return None, data
        size, _ = CHUNK.unpack_from(data, START_BYTES)
        return header, data[:START_BYTES] + data[START_BYTES + CHUNK.size + size + CRC_BYTES :]


class PngEncoding:
    """Encode each frame as a PNG without loss."""

    name = "png"
    container = PngContainer()
    rungs = (Rung(100, 1.0, 1.0),)

    def bands(self, height: int, width: int, threads: int) -> Sequence[slice]:  # noqa: ARG002
        return (slice(0, height),)

    def encode(self, pixels: NDArray[np.uint8], rung: int) -> bytes:  # noqa: ARG002
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        return file.getvalue()

    def join(self, parts: Sequence[bytes]) -> bytes:
        (file,) = parts
        return file


def decode_png(file: bytes) -> NDArray[np.uint8]:
    """Return the pixels of a PNG, as a client decodes it."""
    with Image.open(io.BytesIO(file), formats=["PNG"]) as image:
        return np.asarray(image)


PNG = PngEncoding()
