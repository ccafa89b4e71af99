from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.media import wav

Samples = NDArray[np.int16]
samples_st = arrays.arrays(np.int16, st.tuples(st.integers(1, 2), st.integers(1, 50)))


def tone(channels: int = 1, count: int = 480) -> Samples:
    return np.arange(channels * count, dtype=np.int16).reshape(channels, count)


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def form(tag: int = 1, channels: int = 1, rate: int = 8000, bits: int = 16) -> bytes:
    block = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits))


def riff(*chunks: bytes) -> bytes:
    content = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(content)) + content


def sized(size: int, data: bytes) -> bytes:
    """Give the file another size in its header."""
    return data[:4] + size.to_bytes(4, "little") + data[8:]


@given(samples_st, st.integers(1, wav.MAX_SAMPLE_RATE))
def test_decode_gives_back_what_was_encoded(samples: Samples, sample_rate: int) -> None:
    file = wav.encode(samples, sample_rate)
    decoded, header = wav.decode(file), wav.read_header(file)
    assert (header.channels, header.sample_rate) == (samples.shape[0], sample_rate)
    assert decoded.dtype == np.int16
    assert np.array_equal(decoded, samples)


@given(samples_st)
def test_the_standard_library_reads_what_was_encoded(samples: Samples) -> None:
    with wave.open(io.BytesIO(wav.encode(samples, 44100))) as file:
        assert file.getparams()[:4] == (samples.shape[0], 2, 44100, samples.shape[1])
        interleaved = np.frombuffer(file.readframes(samples.shape[1]), "<i2")
    assert np.array_equal(interleaved.reshape(-1, samples.shape[0]).T, samples)


def test_a_view_is_encoded_like_its_copy() -> None:
    samples = tone(2, 100)[:, 10:90:2]
    assert wav.encode(samples, 48000) == wav.encode(samples.copy(), 48000)


def test_sizes_in_the_header_are_those_of_the_file() -> None:
    data = wav.encode(tone(2), 48000)
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert int.from_bytes(data[40:44], "little") == len(data) - 44


def test_other_chunks_and_their_padding_are_passed_over() -> None:
    sound = tone().tobytes()
    data = riff(chunk(b"LIST", b"odd"), form(), chunk(b"fact", b"\0\0\0"), chunk(b"data", sound), chunk(b"id3 ", b"x"))
    assert np.array_equal(wav.decode(data), tone())


def test_extensible_format_with_pcm_inside_is_understood() -> None:
    subformat = bytes.fromhex("0100000000001000800000aa00389b71")
    extensible = struct.pack("<HHIIHHHHI", 0xFFFE, 2, 48000, 192000, 4, 16, 22, 16, 3) + subformat
    data = riff(chunk(b"fmt ", extensible), chunk(b"data", np.ascontiguousarray(tone(2).T).tobytes()))
    assert np.array_equal(wav.decode(data), tone(2))


def test_decoded_samples_can_be_changed_and_lie_channel_by_channel() -> None:
    decoded = wav.decode(wav.encode(tone(2), 48000))
    assert decoded.flags.writeable
    assert decoded.flags.c_contiguous


SOUND = chunk(b"data", b"\1\0\2\0")
REFUSED = {
    "empty": (b"", "not a WAV"),
    "text": (b"hello, this is text", "not a WAV"),
    "other RIFF": (b"RIFF\4\0\0\0AVI ", "not a WAV"),
    "header only": (riff(), "without samples"),
    "no data": (riff(form()), "without samples"),
    "data first": (riff(SOUND, form()), "before their format"),
    "float": (riff(form(tag=3, bits=32), SOUND), "16-bit PCM"),
    "8 bits": (riff(form(bits=8), SOUND), "16-bit PCM"),
    "extensible without subformat": (riff(form(tag=0xFFFE), SOUND), "16-bit PCM"),
    "no channels": (riff(form(channels=0), SOUND), "0 channels"),
    "six channels": (riff(form(channels=6), SOUND), "6 channels"),
    "rate 0": (riff(form(rate=0), SOUND), "0 Hz"),
    "absurd rate": (riff(form(rate=4_000_000), SOUND), "4000000 Hz"),
    "float as 16 bits": (riff(form(tag=3)), "format 3 and 16 bits"),
    "24 bits": (riff(form(bits=24), SOUND), "24 bits a sample"),
    "odd bytes": (riff(form(), chunk(b"data", b"\1\0\2")), "3 bytes of samples"),
    "a RIFF size too large": (sized(255, riff(form(), SOUND)), "it should have 263 bytes and has 48"),
    "written as a stream": (sized(0xFFFFFFFF, riff(form(), SOUND)), "as a stream"),
    "a RIFF size too small": (sized(38, riff(form(), SOUND)), "a chunk of 4 bytes does not fit"),
    "half a frame": (riff(form(channels=2), chunk(b"data", b"\1\0")), "2 bytes of samples"),
    "no sound": (riff(form(), chunk(b"data", b"")), "0 bytes of samples"),
    "short format": (riff(chunk(b"fmt ", b"\1\0\1\0"), SOUND), "truncated"),
    "data longer than the file": (riff(form(), b"data\xff\xff\xff\xff\0\0"), "truncated"),
    "cut off": (wav.encode(tone(), 8000)[:-1], "truncated"),
    "endless chunks": (riff(*[chunk(b"junk", b"")] * 100_000), "more than 64 chunks"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_reason(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(WireError, match=reason) as caught:
        wav.decode(data)
    assert caught.value.code == "bad_media"


def outcome(data: bytes) -> str:
    try:
        wav.decode(data)
    except WireError as error:
        return error.code
    return "decoded"


@given(st.integers(0, 60), st.integers(0, 255), st.integers(12, 64))
def test_whatever_is_damaged_only_wire_error_comes_out(position: int, value: int, keep: int) -> None:
    data = bytearray(wav.encode(tone(2, 5), 48000))
    data[position] = value
    assert outcome(bytes(data[:keep])) in ("decoded", "bad_media")


chunks_st = st.lists(
    st.one_of(
        st.builds(form, tag=st.sampled_from([1, 3, 0xFFFE]), channels=st.integers(0, 3), bits=st.sampled_from([8, 16])),
        st.builds(chunk, st.sampled_from([b"data", b"LIST", b"rctr"]), st.binary(max_size=9)),
        st.binary(max_size=12),
    ),
    max_size=5,
)


@given(chunks_st, st.integers(-3, 3))
def test_whatever_the_chunks_are_it_is_sound_or_bad_media(chunks: list[bytes], size_error: int) -> None:
    data = riff(*chunks)
    data = sized(len(data) - 8 + size_error, data)
    if outcome(data) == "decoded":
        header = wav.read_header(data)
        assert wav.decode(data).nbytes == header.size_bytes > 0
        assert data[header.start - 8 : header.start - 4] == b"data"


@given(st.binary(max_size=80))
def test_junk_is_always_bad_media(junk: bytes) -> None:
    for data in (junk, riff(junk), riff(form(), junk)):
        assert outcome(data) in ("decoded", "bad_media") if b"data" in junk else outcome(data) == "bad_media"
