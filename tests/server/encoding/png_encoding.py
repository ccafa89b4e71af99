"""PNG as a second encoding of video tracks: the module that the recipe in docs/architecture.md asks for."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reactor_runtime.server.encoding.track_encoding import Rung
from reactor_runtime.wire.media_header import MediaHeader

# The signature and the chunk IHDR, which has to be the first.
START_BYTES = 33


class PngEncoding:
    """Encode each frame as a PNG without loss; the media header is a private chunk after IHDR."""

    name = "png"
    media_type = "image/png"
    is_stateless = True
    rungs = (Rung(100, 1.0, 1.0),)

    def for_client(self) -> PngEncoding:
        return self

    def bands(self, height: int, width: int, threads: int) -> Sequence[slice]:  # noqa: ARG002
        return (slice(0, height),)

    def encode(self, pixels: NDArray[np.uint8], rung: int) -> bytes:  # noqa: ARG002
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        return file.getvalue()

    def to_file(self, header: MediaHeader, parts: Sequence[bytes]) -> bytes:
        (file,) = parts
        return b"".join((file[:START_BYTES], _chunk(header.pack()), file[START_BYTES:]))

    def replace_header(self, header: MediaHeader, file: bytes) -> bytes:
        end = START_BYTES + len(_chunk(read_header(file).pack()))
        return self.to_file(header, (file[:START_BYTES] + file[end:],))


def read_header(file: bytes) -> MediaHeader:
    """Return the header of a PNG of the server."""
    size, name = struct.unpack_from(">I4s", file, START_BYTES)
    assert name == b"rcTr"
    start = START_BYTES + 8
    return MediaHeader.unpack(file[start : start + size])


def _chunk(fields: bytes) -> bytes:
    named = b"rcTr" + fields
    return struct.pack(">I", len(fields)) + named + struct.pack(">I", zlib.crc32(named))


PNG = PngEncoding()
