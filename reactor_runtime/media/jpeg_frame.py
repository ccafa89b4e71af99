"""A frame that a model has encoded as JPEG already. It is decoded only where its pixels are needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg

FORM = "a frame is a whole baseline JPEG, gray or in colour, or uint8 (height, width, 3)"
_CMYK = 4


class JpegFrame:
    """Hold the file of one frame, with the size that it states; immutable, any thread."""

    # The same as of an array.
    ndim = 3

    def __init__(self, data: bytes, height: int, width: int) -> None:
        self.data = data
        self.shape = (height, width, 3)

    @classmethod
    def of(cls, track: str, data: bytes | bytearray | memoryview) -> Self:
        """Check a file by its markers, and copy it without what follows the image.

        Raises ValueError that names the track, what is wrong and the form of a frame.
        """
        file = bytes(data)
        try:
            header = jpeg.read_header(file)
        except WireError as error:
            raise ValueError(f"{track}: {len(file)} bytes can't be shown: {error}; {FORM}") from error
        if header.components == _CMYK:
            raise ValueError(f"{track}: {len(file)} bytes can't be shown: JPEG in CMYK; {FORM}")
        return cls(file[: header.size_bytes], header.height, header.width)

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """Return the frame as read-only RGB `(height, width, 3)`; damaged parts are gray, or as the decoder guesses."""
        pixels = jpeg.decode(self.data, strict=False)
        pixels.flags.writeable = False
        return pixels


Payload = NDArray[Any] | JpegFrame


def pixels_of(payload: Payload) -> NDArray[Any]:
    """Return the array of a payload: that of a JPEG is decoded."""
    return payload.pixels if isinstance(payload, JpegFrame) else payload
