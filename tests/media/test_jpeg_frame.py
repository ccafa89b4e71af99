"""Frames that are JPEGs already: which files are taken, and what is said of the others."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from reactor_runtime.media import jpeg
from reactor_runtime.media.jpeg_frame import JpegFrame, pixels_of
from tests.media.test_jpeg import from_pillow, gradient

FILE = jpeg.encode(gradient(32, 48))


def png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(gradient(8, 8)).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_file_has_the_shape_that_it_states() -> None:
    frame = JpegFrame.of("main_video", FILE)
    assert (frame.shape, frame.ndim, frame.data) == ((32, 48, 3), 3, FILE)
    assert frame.data is FILE


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_taken(kind: type) -> None:
    assert JpegFrame.of("main_video", kind(FILE)).data == FILE


def test_what_a_camera_pads_a_file_with_is_removed() -> None:
    assert JpegFrame.of("main_video", FILE + bytes(500)).data == FILE


def test_pixels_are_decoded_once_and_read_only() -> None:
    frame = JpegFrame.of("main_video", FILE)
    assert np.array_equal(frame.pixels, jpeg.decode(FILE))
    assert frame.pixels is pixels_of(frame) is frame.pixels
    assert not frame.pixels.flags.writeable


def test_a_gray_file_becomes_rgb() -> None:
    assert JpegFrame.of("main_video", from_pillow("L")).pixels.shape == (32, 48, 3)


def test_a_file_that_is_damaged_behind_its_headers_is_decoded_as_far_as_it_goes() -> None:
    data = jpeg.encode(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8))
    middle = len(data) // 2
    damaged = data[:middle] + bytes(40) + data[middle + 40 :]
    assert JpegFrame.of("main_video", damaged).pixels.shape == (64, 64, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes can't be shown: not a JPEG"),
        (png(), "not a JPEG: it does not start with FF D8"),
        (FILE[:-2], "truncated JPEG"),
        (FILE[:100], "truncated JPEG"),
        (from_pillow(progressive=True), "progressive JPEG; send a baseline one"),
        (from_pillow("CMYK"), "JPEG in CMYK"),
    ],
    ids=["nothing", "PNG", "without its end", "cut off", "progressive", "CMYK"],
)
def test_other_bytes_are_refused_with_the_track_and_the_form_of_a_frame(data: bytes, reason: str) -> None:
    with pytest.raises(
        ValueError, match=r"^depth: \d+ bytes can't be shown: .*; a frame is a whole baseline JPEG"
    ) as error:
        JpegFrame.of("depth", data)
    assert reason in str(error.value)
