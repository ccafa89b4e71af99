from __future__ import annotations

import io
import struct
import wave
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import (
    CONTAINERS,
    JPEG,
    MP4,
    NPY,
    WAV,
    Container,
    attach,
    container_of,
    detach,
    replace_header,
)
from reactor_runtime.wire.fragmented_mp4 import VideoConfig, VideoMessage, write_message
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader

HEADER = MediaHeader("main_video", 7, 1_000_000, 1_700_000_000_000_000, applied=3, flags=FrameFlag.HELD)

header_st = st.builds(
    MediaHeader,
    track=st.text(max_size=60),
    seq=st.integers(0, 2**32 - 1),
    pts_us=st.integers(0, 2**64 - 1),
    wall_us=st.integers(0, 2**64 - 1),
    applied=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 255),
    metadata=st.binary(max_size=300),
)


def make_jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((48, 32)).save(buffer, "JPEG")
    return buffer.getvalue()


def make_wav(samples: bytes = bytes(range(100))) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48000)
        file.writeframes(samples)
    return buffer.getvalue()


def make_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    return buffer.getvalue()


VIDEO = VideoConfig(64, 48, b"\1\x42\xc0\x1e\xff\xe1\0\0\0")
FILES = {
    "jpeg": make_jpeg(),
    "wav": make_wav(),
    "npy": make_npy(),
    "mp4 key": write_message(VideoMessage(VIDEO, b"sample"), 1, 2, 3),
    "mp4": write_message(VideoMessage(None, b"sample"), 1, 2, 3),
}
CONTAINER_OF: dict[str, Container] = {"jpeg": JPEG, "wav": WAV, "mp4 key": MP4, "mp4": MP4, "npy": NPY}


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest) -> bytes:
    return FILES[str(request.param)]


def test_fields_have_the_offsets_of_the_specification() -> None:
    metadata = b'{"a":1}'
    data = attach(replace(HEADER, metadata=metadata), FILES["jpeg"])
    assert data[0:4] == b"\xff\xd8\xff\xef"
    assert data[6:14] == b"REACTOR\0"
    assert struct.unpack(">BBIQQIB", data[14:41]) == (1, 2, 7, 1_000_000, 1_700_000_000_000_000, 3, 10)
    assert data[41:51] == b"main_video"
    length = int.from_bytes(data[4:6], "big")
    assert data[51 : 4 + length] == metadata
    assert data[4 + length :] == FILES["jpeg"][2:]


def test_wav_chunk_lies_before_the_format() -> None:
    data = attach(HEADER, FILES["wav"])
    assert data[12:16] == b"rctr"
    assert data[20 : 20 + len(HEADER.pack())] == HEADER.pack()
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert data.index(b"fmt ") == 12 + 8 + len(HEADER.pack()) + len(HEADER.pack()) % 2


@given(header_st, st.binary(max_size=50))
def test_jpeg_comes_back_byte_for_byte(header: MediaHeader, rest: bytes) -> None:
    for jpeg in (FILES["jpeg"], b"\xff\xd8" + rest):
        assert detach(attach(header, jpeg)) == (header, jpeg)


@given(header_st, st.binary(max_size=50))
def test_wav_comes_back_byte_for_byte(header: MediaHeader, samples: bytes) -> None:
    wav = make_wav(samples + samples)
    assert detach(attach(header, wav)) == (header, wav)


@given(header_st, st.binary(max_size=50), st.booleans())
def test_mp4_comes_back_byte_for_byte(header: MediaHeader, sample: bytes, key: bool) -> None:
    mp4 = write_message(VideoMessage(VIDEO if key else None, sample), 1, 2, 3)
    assert detach(attach(header, mp4)) == (header, mp4)


def test_a_file_is_video_or_sound_by_its_container_and_other_files_are_neither() -> None:
    assert container_of(b"GIF89a") is None
    header = MediaHeader("track", 1, 2, 3)
    for name, file in FILES.items():
        assert container_of(file) is container_of(attach(header, file)) is CONTAINER_OF[name]
        assert CONTAINER_OF[name].kind == ("audio" if name == "wav" else "video")


@given(header_st)
def test_other_programs_open_the_files(header: MediaHeader) -> None:
    image = Image.open(io.BytesIO(attach(header, FILES["jpeg"])))
    assert image.convert("RGB").tobytes() == Image.open(io.BytesIO(FILES["jpeg"])).convert("RGB").tobytes()
    with wave.open(io.BytesIO(attach(header, FILES["wav"]))) as sound:
        assert sound.readframes(1000) == bytes(range(100))
    assert np.load(io.BytesIO(attach(header, FILES["npy"]))).tobytes() == bytes(range(48))


def test_file_without_header_comes_back_as_it_is(file: bytes) -> None:
    assert detach(file) == (None, file)


@pytest.mark.parametrize("name", FILES)
def test_a_header_is_read_without_the_file_and_replaced(name: str) -> None:
    container = CONTAINER_OF[name]
    file = FILES[name]
    assert container.read(file) is None
    data = container.attach(HEADER, file)
    assert container.read(data) == HEADER
    other = replace(HEADER, seq=8)
    assert replace_header(container, other, data) == container.attach(other, file)


def test_a_file_matches_one_container_alone() -> None:
    for file in FILES.values():
        assert sum(container.matches(file) for container in CONTAINERS) == 1


def test_another_programs_app15_is_left_alone() -> None:
    data = b"\xff\xd8\xff\xef\0\x10someone else's" + FILES["jpeg"][2:]
    assert detach(data) == (None, data)


def test_the_same_fields_in_another_segment_box_chunk_or_file_are_left_alone() -> None:
    comment = b"\xff\xd8\xff\xfe" + attach(HEADER, FILES["jpeg"])[4:]
    assert detach(comment) == (None, comment)
    box = struct.pack(">I", 24) + b"uuid" + b"someone else's  " + FILES["mp4"]
    assert container_of(box) is None
    short = b"\x93NUMPYREACTOR\0"
    assert detach(short) == (None, short)
    inner = b"\0\0\0\x08ftyp" + box
    assert detach(inner) == (None, inner)


def test_a_header_after_the_first_sample_is_left_alone() -> None:
    chunk, box = attach(HEADER, FILES["wav"])[12 : 20 + len(HEADER.pack()) + 1], user_box(HEADER.pack())
    wav = FILES["wav"][:4] + struct.pack("<I", len(FILES["wav"]) + len(chunk) - 8) + FILES["wav"][8:] + chunk
    for file in (wav, FILES["mp4"] + box):
        assert detach(file) == (None, file)


def test_a_wav_of_the_largest_size_takes_no_header() -> None:
    header = replace(HEADER, track="abc")
    chunk = 8 + len(header.pack()) + len(header.pack()) % 2
    largest = FILES["wav"][:4] + struct.pack("<I", 0xFFFFFFFF - chunk) + FILES["wav"][8:]
    assert attach(header, largest)[4:8] == b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="WAV too long"):
        attach(header, FILES["wav"][:4] + struct.pack("<I", 0xFFFFFFFF - chunk + 1) + FILES["wav"][8:])


def test_a_header_at_the_end_of_a_wav_is_read() -> None:
    fields = HEADER.pack()
    assert WAV.read(wav_chunk(fields + b"\0", len(fields), riff=12 + len(fields) + 1)) == HEADER


@pytest.mark.parametrize("chunks", [63, 64])
def test_a_wav_chunk_is_found_among_the_first_64(chunks: int) -> None:
    junk, chunk = b"junk\0\0\0\0" * chunks, wav_chunk(HEADER.pack() + b"\0", len(HEADER.pack()))[12:]
    data = b"RIFF\xff\xff\0\0WAVE" + junk + chunk
    if chunks < 64:
        assert WAV.read(data) == HEADER
        return
    with pytest.raises(WireError, match="more than 64 chunks"):
        WAV.read(data)


def test_wav_chunk_is_found_behind_another() -> None:
    odd = b"LIST\3\0\0\0abc\0"
    wav = FILES["wav"]
    longer = wav[:4] + struct.pack("<I", len(wav) - 8 + len(odd)) + wav[8:12] + odd + wav[12:]
    data = attach(HEADER, longer)
    chunk = data[12 : len(data) - len(longer) + 12]
    moved = data[:12] + odd + chunk + data[12 + len(chunk) + len(odd) :]
    assert detach(moved) == (HEADER, longer)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (replace(HEADER, track="x" * 256), "track name of 256 bytes"),
        (replace(HEADER, track="é" * 128), "track name of 256 bytes"),
        (replace(HEADER, metadata=b"x" * 65536), "metadata of 65536 bytes: at most 65488"),
        (replace(HEADER, seq=-1), "doesn't fit"),
        (replace(HEADER, seq=2**32), "doesn't fit"),
        (replace(HEADER, pts_us=-1), "doesn't fit"),
        (replace(HEADER, flags=256), "doesn't fit"),
        (replace(HEADER, track="\ud800"), "surrogates"),
    ],
    ids=["long name", "long encoded name", "metadata", "seq < 0", "seq", "pts", "flags", "surrogate"],
)
def test_fields_that_do_not_fit_are_refused(header: MediaHeader, reason: str, file: bytes) -> None:
    with pytest.raises(ValueError, match=reason):
        attach(header, file)


def test_the_longest_name_fits(file: bytes) -> None:
    header = replace(HEADER, track="x" * 255)
    assert detach(attach(header, file)) == (header, file)


def test_largest_metadata_fits_exactly(file: bytes) -> None:
    header = replace(HEADER, metadata=b"x" * 65488)
    assert detach(attach(header, file)) == (header, file)
    with pytest.raises(ValueError, match="at most 65488"):
        attach(replace(header, metadata=b"x" * 65489), file)


@pytest.mark.parametrize("data", [b"", b"\xff", b"GIF89a", b"RIFF", b"RIFF\0\0\0\0AVI "], ids=str)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="neither JPEG nor WAV nor MP4") as caught:
        detach(data)
    assert caught.value.code == "bad_media"
    with pytest.raises(ValueError, match="neither JPEG nor WAV nor MP4"):
        attach(HEADER, data)


def segment(payload: bytes, length: int | None = None) -> bytes:
    size = 2 + 8 + len(payload) if length is None else length
    return b"\xff\xd8\xff\xef" + size.to_bytes(2, "big") + b"REACTOR\0" + payload


def wav_chunk(payload: bytes, length: int | None = None, riff: int = 10_000) -> bytes:
    size = len(payload) if length is None else length
    return b"RIFF" + struct.pack("<I", riff) + b"WAVErctr" + struct.pack("<I", size) + payload


def user_box(payload: bytes, length: int | None = None) -> bytes:
    size = 8 + 16 + len(payload) if length is None else length
    return struct.pack(">I", size) + b"uuid" + b"REACTOR\0" + bytes(8) + payload


def npy_with(payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return FILES["npy"] + payload + struct.pack(">I", size) + b"REACTOR\0"


FIELDS = HEADER.pack()
HOSTILE = {
    "segment longer than the file": segment(FIELDS, 60_000),
    "segment of length 0": segment(FIELDS, 0),
    "segment shorter than the magic": segment(FIELDS, 9),
    "segment shorter than the magic, with fields": segment(FIELDS, 9) + FILES["jpeg"],
    "segment without fields": segment(b""),
    "fields cut off": segment(FIELDS[:26]),
    "version 0": segment(b"\0" + FIELDS[1:]),
    "version 2": segment(b"\2" + FIELDS[1:]),
    "name longer than the segment": segment(FIELDS[:26] + b"\xff" + FIELDS[27:]),
    "name not UTF-8": segment(FIELDS[:27] + b"\xff" * 10),
    "chunk longer than the file": wav_chunk(FIELDS, 0xFFFFFFFF),
    "chunk a little longer than the file": wav_chunk(FIELDS, len(FIELDS) + 20),
    "chunk a little longer than the RIFF": wav_chunk(FIELDS + b"\0", len(FIELDS), riff=12 + len(FIELDS)),
    "chunk longer than the RIFF": wav_chunk(FIELDS, riff=10),
    "chunk of an even size longer than the RIFF": wav_chunk(FIELDS + b" ", riff=10),
    "chunk without fields": wav_chunk(b""),
    "chunk name not UTF-8": wav_chunk(FIELDS[:27] + b"\xff" * 11),
    "user box longer than the file": user_box(FIELDS, 0xFFFFFFFF),
    "user box shorter than its type": user_box(FIELDS, 23),
    "user box of 0 bytes": user_box(FIELDS, 0),
    "user box without fields": user_box(b""),
    "user box with fields cut off": user_box(FIELDS[:26]),
    "endless boxes": (b"\0\0\0\x08ftyp" + b"\0\0\0\x08free" * 100_000),
    "trailer longer than the array": npy_with(FIELDS, 60_000),
    "trailer without fields": npy_with(b""),
    "trailer of version 2": npy_with(b"\2" + FIELDS[1:]),
    "more metadata than a JPEG holds, in an array": npy_with(FIELDS + bytes(65_489)),
    "trailer with the magic of the array": npy_with(b"", len(FILES["npy"]) - 5),
    "trailer longer than the file": npy_with(FIELDS, 0xFFFFFFFF),
    "endless chunks": b"RIFF\xff\xff\xff\xffWAVE" + b"junk\0\0\0\0" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_header_is_bad_media(name: str) -> None:
    with pytest.raises(WireError) as caught:
        detach(HOSTILE[name])
    assert caught.value.code == "bad_media"


def outcome(data: bytes) -> str:
    try:
        detach(data)
    except WireError as error:
        return error.code
    return "detached"


@given(st.binary(max_size=80), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF))
def test_any_junk_is_a_file_or_a_wire_error(junk: bytes, length: int, size: int) -> None:
    for data in (
        junk,
        b"\xff\xd8" + junk,
        segment(junk, length),
        wav_chunk(junk, size),
        wav_chunk(junk, riff=size),
        user_box(junk, size),
        user_box(junk),
        npy_with(junk, size),
        npy_with(junk),
    ):
        assert outcome(data) in ("detached", "bad_media")


@given(st.integers(0, 200), st.integers(0, 255), st.integers(0, 200))
def test_damaged_files_give_a_file_or_a_wire_error(position: int, value: int, keep: int) -> None:
    for file in FILES.values():
        data = bytearray(attach(HEADER, file))
        data[position % len(data)] = value
        for damaged in (bytes(data), bytes(data[:keep])):
            assert outcome(damaged) in ("detached", "bad_media")
