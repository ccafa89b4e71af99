from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg

Frame = NDArray[np.uint8]


def gradient(height: int, width: int) -> Frame:
    rows = np.linspace(0, 255, height, dtype=np.uint8)[:, None]
    columns = np.linspace(0, 255, width, dtype=np.uint8)[None, :]
    return np.stack(np.broadcast_arrays(rows, columns, rows // 2 + columns // 2), axis=-1)


def from_pillow(mode: str = "RGB", size: tuple[int, int] = (48, 32), *, progressive: bool = False) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(gradient(size[1], size[0])).convert(mode)
    image.save(buffer, "JPEG", quality=95, progressive=progressive)
    return buffer.getvalue()


def with_sof(data: bytes, *, marker: int | None = None, size: tuple[int, int] | None = None, bits: int = 8) -> bytes:
    at = data.index(b"\xff\xc0")
    changed = bytearray(data)
    changed[at + 1] = marker or 0xC0
    changed[at + 4] = bits
    if size:
        changed[at + 5 : at + 9] = size[0].to_bytes(2, "big") + size[1].to_bytes(2, "big")
    return bytes(changed)


def mean_error(left: Frame, right: Frame) -> float:
    return float(np.abs(left.astype(int) - right.astype(int)).mean())


def test_pillow_sees_the_frame_that_was_encoded() -> None:
    frame = gradient(120, 160)
    image = Image.open(io.BytesIO(jpeg.encode(frame)))
    assert image.size == (160, 120)
    assert mean_error(np.asarray(image.convert("RGB")), frame) < 3


def test_default_is_baseline_with_halved_colour_at_quality_85() -> None:
    data = jpeg.encode(gradient(32, 32))
    at = data.index(b"\xff\xc0")
    assert data[at + 11] == 0x22
    assert len(jpeg.encode(gradient(480, 640), quality=40)) < len(jpeg.encode(gradient(480, 640)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (17, 1), (1, 17), (33, 47)], ids=str)
def test_odd_sizes_survive(shape: tuple[int, int]) -> None:
    assert jpeg.decode(jpeg.encode(gradient(*shape))).shape == (*shape, 3)


VIEWS: dict[str, Callable[[Frame], Frame]] = {
    "read-only": lambda frame: frame,
    "crop": lambda frame: frame[3:40, 5:50],
    "every second row": lambda frame: frame[::2],
    "every second column": lambda frame: frame[:, ::2],
    "upside down": lambda frame: frame[::-1],
    "mirrored": lambda frame: frame[:, ::-1],
    "channels swapped": lambda frame: frame[..., ::-1],
    "channels first in memory": lambda frame: np.ascontiguousarray(frame.transpose(2, 0, 1)).transpose(1, 2, 0),
    "one row repeated": lambda frame: np.broadcast_to(frame[:1], frame.shape),
    "one column": lambda frame: frame[:, 7:8],
    "one far pixel": lambda frame: frame[:1, ::60],
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_encodes_like_its_copy(view: str) -> None:
    frame = gradient(64, 60)
    frame.setflags(write=False)
    seen = VIEWS[view](frame)
    assert jpeg.encode(seen) == jpeg.encode(np.array(seen, order="C"))


def test_several_threads_encode_at_once() -> None:
    frames = [gradient(90 + index, 120) for index in range(4)]
    results: dict[int, set[bytes]] = {index: set() for index in range(4)}

    def encode_often(index: int) -> None:
        results[index].update(jpeg.encode(frames[index]) for _ in range(20))

    threads = [threading.Thread(target=encode_often, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {index: {jpeg.encode(frame)} for index, frame in enumerate(frames)}


@pytest.mark.parametrize(("mode", "components"), [("L", 1), ("RGB", 3), ("CMYK", 4)])
def test_gray_colour_and_cmyk_become_rgb(mode: str, components: int) -> None:
    data = from_pillow(mode)
    header = jpeg.read_header(data)
    assert (header.height, header.width, header.components) == (32, 48, components)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert mean_error(jpeg.decode(data), expected) < 2


def test_decoded_frame_can_be_changed() -> None:
    assert jpeg.decode(from_pillow()).flags.writeable


def test_what_follows_the_picture_is_ignored() -> None:
    data = from_pillow()
    assert jpeg.read_header(data + data).size_bytes == len(data)
    assert np.array_equal(jpeg.decode(data + data), jpeg.decode(data))


def test_fill_bytes_before_a_marker_are_allowed() -> None:
    data = from_pillow()
    assert np.array_equal(jpeg.decode(data[:2] + b"\xff\xff" + data[2:]), jpeg.decode(data))


def test_largest_size_is_accepted() -> None:
    assert jpeg.read_header(with_sof(from_pillow(), size=(4096, 4096))).height == 4096


REFUSED = {
    "empty": (b"", "not a JPEG"),
    "text": (b"hello", "not a JPEG"),
    "start only": (b"\xff\xd8", "truncated"),
    "no picture": (b"\xff\xd8\xff\xd9", "FF D9"),
    "junk after start": (b"\xff\xd8hello", "damaged"),
    "progressive": (from_pillow(progressive=True), "progressive"),
    "arithmetic": (with_sof(from_pillow(), marker=0xC9), "SOF9"),
    "lossless": (with_sof(from_pillow(), marker=0xC3), "SOF3"),
    "too high": (with_sof(from_pillow(), size=(4097, 16)), "at most 4096x4096"),
    "too wide": (with_sof(from_pillow(), size=(16, 65535)), "at most 4096x4096"),
    "no height": (with_sof(from_pillow(), size=(0, 16)), "without a size"),
    "12 bits": (with_sof(from_pillow(), bits=12), "12 bits"),
    "two frame headers": (from_pillow().replace(b"\xff\xc4", from_pillow()[158:177] + b"\xff\xc4", 1), "two frame"),
    "segment of length 0": (b"\xff\xd8\xff\xe0\0\0", "truncated"),
    "endless segments": (b"\xff\xd8" + b"\xff\xfe\0\2" * 100_000, "more than 1024 segments"),
    "no frame header": (b"\xff\xd8" + from_pillow()[from_pillow().index(b"\xff\xda") :], "without a frame header"),
    "no end": (from_pillow()[:-2], "truncated"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_header_is_refused_with_its_reason(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(WireError, match=reason) as caught:
        jpeg.read_header(data)
    assert caught.value.code == "bad_media"


def test_scans_beyond_the_components_are_refused() -> None:
    data = from_pillow()
    at = data.index(b"\xff\xda")
    scan = data[at : at + 14]
    with pytest.raises(WireError, match="more scans"):
        jpeg.read_header(data[:at] + scan * 4 + data[at:])


def test_scans_hidden_behind_a_false_end_never_reach_the_decoder() -> None:
    data = from_pillow()
    at = data.index(b"\xff\xda")
    comment_with_end = b"\xff\xfe\0\6\xff\xd9\0\0"
    hidden = data[:-2] + comment_with_end + data[at : at + 14] * 1000 + b"\xff\xd9"
    assert jpeg.read_header(hidden).size_bytes < len(data) + 8


def test_damaged_picture_is_refused() -> None:
    data = from_pillow(size=(480, 320))
    at = data.index(b"\xff\xda") + 40
    with pytest.raises(WireError, match="damaged") as caught:
        jpeg.decode(data[:at] + b"\xff\xd9")
    assert caught.value.code == "bad_media"


def outcome(data: bytes) -> str:
    try:
        jpeg.decode(data)
    except WireError as error:
        return error.code
    return "decoded"


@given(position=st.integers(0, 10_000), value=st.integers(0, 255), keep=st.integers(0, 10_000))
def test_whatever_is_damaged_only_wire_error_comes_out(position: int, value: int, keep: int) -> None:
    data = bytearray(from_pillow())
    data[position % len(data)] = value
    assert outcome(bytes(data[: max(keep, len(data) // 2)])) in ("decoded", "bad_media")


@given(st.binary(max_size=200))
def test_junk_is_always_bad_media(junk: bytes) -> None:
    for data in (junk, b"\xff\xd8" + junk):
        assert outcome(data) == "bad_media"


segments_st = st.builds(
    lambda marker, length, content: b"\xff" + bytes([marker]) + length.to_bytes(2, "big") + content,
    st.sampled_from([0x01, 0xC0, 0xC2, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xE0, 0xEF, 0xFF]),
    st.integers(0, 40),
    st.binary(max_size=40),
)


@given(st.lists(st.one_of(segments_st, st.binary(max_size=8)), max_size=6), st.booleans())
def test_whatever_the_segments_are_a_header_is_read_or_it_is_bad_media(segments: list[bytes], ended: bool) -> None:
    data = b"\xff\xd8" + b"".join(segments) + b"\xff\xd9" * ended
    with contextlib.suppress(WireError):
        header = jpeg.read_header(data)
        assert 0 < header.height <= jpeg.MAX_SIDE
        assert 0 < header.width <= jpeg.MAX_SIDE
        assert header.size_bytes <= len(data)
    assert outcome(data) in ("decoded", "bad_media")


@given(st.lists(st.sampled_from([0xFF, 0xD9, 0xDA, 0xD8, 0xDB, 0x00, 0x41]), max_size=60).map(bytes))
def test_end_and_scans_are_those_a_plain_search_finds(scan: bytes) -> None:
    file = from_pillow()
    start = file.index(b"\xff\xda") + 14
    data = file[:start] + scan
    end = data.find(b"\xff\xd9", start)
    if end < 0 or data.count(b"\xff\xda", start, end) > 2:
        assert outcome(data) == "bad_media"
    else:
        assert jpeg.read_header(data).size_bytes == end + 2
