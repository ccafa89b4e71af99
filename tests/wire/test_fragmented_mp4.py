from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import MP4
from reactor_runtime.wire.fragmented_mp4 import (
    VideoConfig,
    VideoMessage,
    boxes,
    byte_stream_of,
    config_of,
    nal_units,
    parameter_sets_of,
    read_message,
    sample_of,
    write_message,
)
from reactor_runtime.wire.media_header import MediaHeader

WIDTH, HEIGHT = 64, 48
INTERVAL_US = 40_000
CONFIG = VideoConfig(WIDTH, HEIGHT, b"\1\x42\xc0\x1e\xff\xe1\0\4\x67\x42\xc0\x1e\1\0\2\x68\xce")
# Whatever a decoder gets, no unit of a byte stream has three of these zeros, or ends with one.
units_st = st.lists(
    st.binary(min_size=1, max_size=40).filter(lambda unit: b"\0\0" not in unit and unit[-1]), max_size=6
)


def encoded(keys: Sequence[bool]) -> list[bytes]:
    """Return packets of x264 for frames that get lighter; a frame is a key where `keys` says so."""
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    encoder.time_base = Fraction(1, 1000)
    encoder.options = {"tune": "zerolatency", "profile": "baseline", "forced-idr": "1", "threads": "1"}
    packets = []
    for number, key in enumerate(keys):
        frame = av.VideoFrame.from_ndarray(np.full((HEIGHT, WIDTH, 3), 20 * number, np.uint8), format="rgb24")
        frame.pts = number
        frame.pict_type = av.video.frame.PictureType.I if key else av.video.frame.PictureType.NONE
        packets.append(b"".join(bytes(packet) for packet in encoder.encode(frame)))
    return packets


def messages(packets: Sequence[bytes], first_pts_us: int = 0) -> list[bytes]:
    """Return the messages of a stream, with headers."""
    made = []
    for number, packet in enumerate(packets):
        units = nal_units(packet)
        message = VideoMessage(config_of(units, WIDTH, HEIGHT), sample_of(units))
        pts_us = first_pts_us + number * INTERVAL_US
        piece = write_message(message, number, pts_us, INTERVAL_US)
        made.append(MP4.attach(MediaHeader("main_video", number, pts_us, 5, metadata=b"{}"), piece))
    return made


def opened(file: bytes) -> list[tuple[int, int, bool]]:
    """Return time in µs, lightness and whether it is a key of each frame that a program sees in a file."""
    with av.open(io.BytesIO(file), "r") as container:
        (stream,) = container.streams.video
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", WIDTH, HEIGHT)
        assert stream.time_base is not None
        return [
            (
                round(frame.pts * stream.time_base * 1_000_000),
                int(frame.to_ndarray(format="gray").mean()),
                frame.key_frame,
            )
            for frame in container.decode(stream)
            if frame.pts is not None
        ]


def test_a_key_message_is_a_file_by_itself() -> None:
    (key,) = messages(encoded([True]), first_pts_us=7_000_000)
    assert [box.name for box in boxes(key)] == [b"ftyp", b"moov", b"uuid", b"moof", b"mdat"]
    assert [(at, is_key) for at, _, is_key in opened(key)] == [(7_000_000, True)]


def test_messages_one_after_the_other_are_a_file() -> None:
    made = messages(encoded([True, False, False, True, False]), first_pts_us=1_000_000)
    assert [box.name for box in boxes(made[1])] == [b"uuid", b"moof", b"mdat"]
    for first in (0, 3):
        frames = opened(b"".join(made[first:]))
        assert [at for at, _, _ in frames] == [1_000_000 + n * INTERVAL_US for n in range(first, 5)]
        assert [is_key for _, _, is_key in frames] == [n in (0, 3) for n in range(first, 5)]
        assert [lightness for _, lightness, _ in frames] == sorted({lightness for _, lightness, _ in frames})


def test_messages_decode_to_the_frames_of_their_packets() -> None:
    packets = encoded([True, False, False, True, False])
    expected = av.CodecContext.create("h264", "r")
    decoder = av.CodecContext.create("h264", "r")
    for packet, data in zip(packets, messages(packets), strict=True):
        message = read_message(data)
        assert (message.config is not None) == (b"\0\0\1\x67" in packet)
        if message.config is not None:
            assert message.config.codec == f"avc1.{packet[packet.index(b'g') + 1 :][:3].hex()}"
            decoder = av.CodecContext.create("h264", "r")
            decoder.extradata = message.config.avcc
        (image,), (other,) = decoder.decode(av.Packet(message.sample)), expected.decode(av.Packet(packet))
        assert np.array_equal(image.to_ndarray(), other.to_ndarray())


def test_the_header_is_in_a_box_of_its_own_before_the_fragment() -> None:
    (data,) = messages(encoded([True]))
    box = next(box for box in boxes(data) if box.name == b"uuid")
    assert data[box.content : box.content + 16] == b"REACTOR\0" + bytes(8)
    header = MP4.read(data)
    assert header is not None
    assert data[box.content + 16 : box.end] == header.pack()


def test_a_message_between_keys_has_at_most_200_bytes_besides_its_sample_and_header() -> None:
    piece = write_message(VideoMessage(None, b""), 0, 0, 0)
    assert len(piece) + 24 <= 200


@given(
    st.one_of(st.none(), st.builds(VideoConfig, st.integers(1, 4096), st.integers(1, 4096), st.just(CONFIG.avcc))),
    st.binary(max_size=100),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
)
def test_a_message_comes_back(
    config: VideoConfig | None, sample: bytes, seq: int, pts_us: int, duration_us: int
) -> None:
    message = VideoMessage(config, sample)
    assert read_message(write_message(message, seq, pts_us, duration_us)) == message


@given(units_st, st.booleans())
def test_units_of_a_byte_stream_come_back(units: list[bytes], long: bool) -> None:
    code = b"\0\0\0\1" if long else b"\0\0\1"
    assert nal_units(b"".join(code + unit for unit in units)) == units


def test_parameter_sets_and_remarks_are_not_in_the_sample() -> None:
    sps, pps, sei, slice_ = b"\x67\x42\xc0\x1e\xda", b"\x68\xce\x3c", b"\x06\x05\xff", b"\x65\x88"
    assert sample_of([sps, pps, sei, slice_]) == b"\0\0\0\2\x65\x88"
    config = config_of([sps, pps, sei, slice_], 64, 48)
    assert config == VideoConfig(64, 48, b"\1\x42\xc0\x1e\xff\xe1\0\5" + sps + b"\1\0\3" + pps)
    assert config_of([slice_], 64, 48) is None


KEY = write_message(VideoMessage(CONFIG, b"abc"), 0, 0, 0)
HOSTILE = {
    "empty": b"",
    "no sample": KEY[: -8 - 3],
    "cut off": KEY[:-1],
    "a box of 0 bytes": struct.pack(">I4s", 0, b"moof"),
    "a box longer than the file": struct.pack(">I4s", 9, b"mdat"),
    "endless boxes": struct.pack(">I4s", 8, b"free") * 100_000,
    "no size": KEY.replace(struct.pack(">HHI", 64, 48, 0x480000), bytes(4) + struct.pack(">I", 0x480000)),
    "a track without a description": KEY.replace(b"stsd", b"skip"),
    "another codec": KEY.replace(b"avc1", b"hvc1"),
    "no decoder configuration": KEY.replace(b"avcC", b"free"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_piece_that_is_no_message_is_bad_media(name: str) -> None:
    with pytest.raises(WireError) as caught:
        read_message(HOSTILE[name])
    assert caught.value.code == "bad_media"


@given(st.integers(0, len(KEY) - 1), st.integers(0, 255), st.integers(0, len(KEY)))
def test_damaged_messages_are_read_or_bad_media(position: int, value: int, keep: int) -> None:
    data = bytearray(KEY)
    data[position] = value
    for damaged in (bytes(data), bytes(data[:keep])):
        with contextlib.suppress(WireError):
            read_message(damaged)


def test_a_message_is_a_byte_stream_with_its_parameter_sets_apart() -> None:
    (packet,) = encoded([True])
    message = read_message(messages([packet])[0])
    assert message.config is not None
    kept = [unit for unit in nal_units(packet) if unit[0] & 31 in (5, 7, 8)]
    assert nal_units(parameter_sets_of(message.config) + byte_stream_of(message.sample)) == kept


@pytest.mark.parametrize("sample", [b"\0\0\0\5abc", b"\0\0\0\1ab", b"\0\0"], ids=["short", "rest", "no length"])
def test_units_that_do_not_fit_are_refused(sample: bytes) -> None:
    with pytest.raises(WireError):
        byte_stream_of(sample)


def test_a_config_without_parameter_sets_is_refused() -> None:
    with pytest.raises(WireError):
        parameter_sets_of(VideoConfig(WIDTH, HEIGHT, CONFIG.avcc[:9]))
