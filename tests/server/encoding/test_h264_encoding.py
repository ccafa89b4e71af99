from __future__ import annotations

import io
import subprocess
import sys

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.serving import photo_like
from reactor_runtime.server.encoding.h264_encoding import H264, is_installed
from reactor_runtime.server.encoding.video_encoding import VideoEncoder
from reactor_runtime.wire.containers import MP4
from reactor_runtime.wire.fragmented_mp4 import read_message
from reactor_runtime.wire.media_header import MediaHeader

HEIGHT, WIDTH = 96, 128
BITS = 60_000
NOISE = np.random.default_rng(5).integers(0, 256, (8, HEIGHT, WIDTH, 3), np.uint8)


def encode(encoder: VideoEncoder, seq: int, pixels: NDArray[np.uint8], *, bits: int = BITS, key: bool = False) -> bytes:
    header = MediaHeader("main_video", seq, seq * 40_000, 5)
    return encoder.encode(pixels, header, 0.04, bits=bits, key=key)


def grey(seq: int, height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.uint8]:
    return np.full((height, width, 3), 10 * seq, np.uint8)


def is_key(file: bytes) -> bool:
    return read_message(file).config is not None


@pytest.mark.parametrize("threads", [1, 2])
def test_each_frame_is_one_message_with_its_header_and_no_delay(threads: int) -> None:
    encoder = H264.open(threads)
    files = [encode(encoder, seq, grey(seq), key=seq == 3) for seq in range(1, 9)]
    headers = [MP4.read(file) for file in files]
    assert [header.seq for header in headers if header] == list(range(1, 9))
    assert [is_key(file) for file in files] == [seq in (1, 3) for seq in range(1, 9)]
    with av.open(io.BytesIO(b"".join(files)), "r") as container:
        shown = [(frame.pts, int(frame.to_ndarray(format="rgb24").mean())) for frame in container.decode(video=0)]
    assert [pts for pts, _ in shown] == [seq * 40_000 for seq in range(1, 9)]
    assert all(abs(mean - 10 * seq) < 4 for seq, (_, mean) in enumerate(shown, 1))


def test_another_size_or_number_of_bits_begins_with_a_key() -> None:
    encoder = H264.open(1)
    assert [is_key(encode(encoder, seq, grey(seq))) for seq in (1, 2)] == [True, False]
    larger = encode(encoder, 3, grey(3, HEIGHT * 2))
    config = read_message(larger).config
    assert config is not None
    assert (config.height, config.width) == (HEIGHT * 2, WIDTH)
    assert [is_key(encode(encoder, 4, grey(4, HEIGHT * 2), bits=bits)) for bits in (BITS // 2, BITS // 2)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("bits", [30_000, 90_000])
def test_a_frame_has_about_the_bits_given_for_it_and_so_has_a_key(bits: int) -> None:
    encoder = H264.open(1)
    sizes = [8 * len(encode(encoder, n, NOISE[n % 8], bits=bits, key=n in (0, 20))) for n in range(40)]
    assert 0.6 * bits < sum(sizes[10:]) / 30 < 1.1 * bits
    assert max(sizes[10:]) < 1.5 * bits


def test_few_bits_are_enough_for_a_simple_picture() -> None:
    pixels = np.full((HEIGHT, WIDTH, 3), 20, np.uint8)
    pixels[:, ::16] = 235
    with av.open(io.BytesIO(encode(H264.open(1), 0, pixels, bits=1)), "r") as container:
        shown = next(container.decode(video=0)).to_ndarray(format="rgb24").astype(int)
    assert np.abs(shown - pixels).mean() < 40


@pytest.mark.parametrize(("height", "width"), [(480, 640), (720, 1280), (1072, 1920)])
def test_the_fewest_bits_show_the_frame_in_place_of_grey(height: int, width: int) -> None:
    encoder = H264.open(1)
    pixels = photo_like(width, height, 1)[0]
    files = [encode(encoder, seq, np.roll(pixels, seq, axis=1), bits=1) for seq in range(3)]
    with av.open(io.BytesIO(b"".join(files)), "r") as container:
        shown = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    assert len(shown) == len(files)
    for luma in shown:
        assert np.abs(luma.astype(int) - 128).mean() > 10


def test_a_still_frame_costs_next_to_nothing() -> None:
    encoder = H264.open(1)
    sizes = [len(encode(encoder, seq, NOISE[0] // 4 + 90, bits=400_000)) for seq in range(30)]
    assert max(sizes[15:]) < 600


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (20, 200, 90), (255, 255, 255), (0, 0, 0)])
def test_colours_come_back(colour: tuple[int, int, int]) -> None:
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:] = colour
    with av.open(io.BytesIO(encode(H264.open(1), 0, pixels)), "r") as container:
        frame = next(container.decode(video=0))
    assert (frame.colorspace, frame.color_range) == (6, 1)
    assert np.abs(frame.to_ndarray(format="rgb24").astype(int) - pixels).max() <= 6


@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
def test_the_colours_of_neighbours_are_averaged(axis: int) -> None:
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:] = (200, 90, 60)
    pixels.swapaxes(0, axis)[::2] = (60, 90, 200)
    with av.open(io.BytesIO(encode(H264.open(1), 0, pixels)), "r") as container:
        shown = next(container.decode(video=0)).to_ndarray(format="rgb24").astype(int)
    # Their brightness differs, so red and blue of each pair are compared.
    red_less_blue = shown[..., 0] - shown[..., 2]
    assert np.abs(red_less_blue[4:-4, 4:-4]).max() <= 6


def test_sizes_that_can_be_subsampled_are_accepted() -> None:
    assert H264.accepts(720, 1280)
    assert H264.accepts(16, 16)
    assert not H264.accepts(721, 1280)
    assert not H264.accepts(720, 1281)
    assert not H264.accepts(14, 64)
    assert not H264.accepts(8192, 8192)


def test_the_library_is_imported_with_the_first_frame_alone() -> None:
    program = """
import sys
from reactor_runtime.server.encoding.h264_encoding import is_installed
is_installed()
print("av" in sys.modules)
"""
    assert is_installed()
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )
