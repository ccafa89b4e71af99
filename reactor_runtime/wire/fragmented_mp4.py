"""Fragmented MP4 (ISO/IEC 14496-12 and -15): a message of a video stream as boxes, and what a decoder needs of it.

A key message begins with `ftyp moov`, the others have `moof mdat` alone, so that messages one after the other from a
key on are an MP4 file. The place of the media header is left to `containers.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

# Times are in microseconds, as in the media header.
_TIMESCALE = 1_000_000
_BOX = struct.Struct(">I4s")
_TRACK_ID = 1
_LANGUAGE_UNDETERMINED = 0x55C4
_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_DPI_72 = 0x480000
# ISO/IEC 14496-12, 8.8.3.1: depends on no other sample; depends on others, and is no sync sample.
_KEY_FLAGS, _DEPENDENT_FLAGS = 0x02000000, 0x01010000
_SPS, _PPS = 7, 8
# Of which decoding needs none: supplemental information, delimiters, and the parameter sets, which are in `avcC`.
_LEFT_OUT = frozenset((6, _SPS, _PPS, 9))
_START_CODE = b"\0\0\0\1"
# The start of a box `avc1`, up to the boxes in it.
_AVC1 = struct.Struct(">6xH16xHHII4xH32xHh")
_BOX_PATH = (b"trak", b"mdia", b"minf", b"stbl", b"stsd")
_STSD_BYTES = 8
# A file of empty boxes must cost no more time than a valid one.
_MOST_BOXES = 16


class Box(NamedTuple):
    """A box of a file: `start` to `end` with its head, `content` the start of what is in it."""

    name: bytes
    start: int
    content: int
    end: int


class VideoConfig(NamedTuple):
    """The size of a video stream, and the AVCDecoderConfigurationRecord: `extradata`, or `description` of WebCodecs."""

    width: int
    height: int
    avcc: bytes

    @property
    def codec(self) -> str:
        """Return the name by RFC 6381, as in `avc1.42c01f`."""
        return f"avc1.{self.avcc[1:4].hex()}"


class VideoMessage(NamedTuple):
    """A message of a video stream: `config` of a key, None of another; `sample` has NAL units with their lengths."""

    config: VideoConfig | None
    sample: bytes


def read_message(data: bytes) -> VideoMessage:
    """Read a message, with or without a media header. Raises `WireError` with BAD_MEDIA for another file."""
    found = {box.name: box for box in boxes(data)}
    if b"mdat" not in found:
        raise _bad("a piece of MP4 without a sample")
    moov = found.get(b"moov")
    config = None if moov is None else _read_config(data, moov)
    return VideoMessage(config, data[found[b"mdat"].content : found[b"mdat"].end])


def boxes(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Box]:
    """Return the boxes between two places of a file. Raises `WireError` with BAD_MEDIA where they don't fit."""
    end = len(data) if end is None else end
    for _ in range(_MOST_BOXES):
        if start == end:
            return
        if start + _BOX.size > end:
            break
        size, name = _BOX.unpack_from(data, start)
        if not _BOX.size <= size <= end - start:
            break
        yield Box(name, start, start + _BOX.size, start + size)
        start += size
    raise _bad("a truncated piece of MP4")


def _read_config(data: bytes, moov: Box) -> VideoConfig:
    box = moov
    for name in _BOX_PATH:
        box = _find(data, name, box.content, box.end)
    entry = _find(data, b"avc1", box.content + _STSD_BYTES, box.end)
    if entry.end - entry.content < _AVC1.size:
        raise _bad("a truncated piece of MP4")
    _, width, height, *_ = _AVC1.unpack_from(data, entry.content)
    avcc = _find(data, b"avcC", entry.content + _AVC1.size, entry.end)
    config = VideoConfig(width, height, data[avcc.content : avcc.end])
    if not width or not height or len(config.avcc) < len(_avcc_head(b"\0\0\0\0")):
        raise _bad("a piece of MP4 that describes no video")
    return config


def _find(data: bytes, name: bytes, start: int, end: int) -> Box:
    for box in boxes(data, start, end):
        if box.name == name:
            return box
    raise _bad(f"a piece of MP4 without the box {name.decode()}")


def write_message(message: VideoMessage, seq: int, pts_us: int, duration_us: int) -> bytes:
    """Return the boxes of a message; `seq` grows from message to message."""
    start = b"" if message.config is None else _start(message.config)
    flags = _DEPENDENT_FLAGS if message.config is None else _KEY_FLAGS
    # The sample's place counts from the start of `moof`, so that other boxes may be inserted before that.
    place = len(_moof(0, 0, 0, 0, 0, 0)) + _BOX.size
    moof = _moof(seq, pts_us, duration_us, len(message.sample), flags, place)
    return b"".join((start, moof, _BOX.pack(_BOX.size + len(message.sample), b"mdat"), message.sample))


def config_of(units: list[bytes], width: int, height: int) -> VideoConfig | None:
    """Return the config for the parameter sets among NAL units; None if there are none, as between keys."""
    sps = next((unit for unit in units if _kind(unit) == _SPS), None)
    pps = next((unit for unit in units if _kind(unit) == _PPS), None)
    if sps is None or pps is None:
        return None
    return VideoConfig(width, height, b"".join((_avcc_head(sps), _sized(sps), b"\1", _sized(pps))))


def sample_of(units: list[bytes]) -> bytes:
    """Return the sample for NAL units: each with its length, without those that decoding does not need."""
    kept = (unit for unit in units if _kind(unit) not in _LEFT_OUT)
    return b"".join(part for unit in kept for part in (struct.pack(">I", len(unit)), unit))


def nal_units(annexb: bytes) -> list[bytes]:
    """Split a byte stream (ITU-T H.264, annex B), as encoders return it."""
    units = []
    at = annexb.find(b"\0\0\1")
    while at >= 0:
        following = annexb.find(b"\0\0\1", at + 3)
        end = len(annexb) if following < 0 else following
        # A start code may have a zero byte before it; a unit never ends with one.
        unit = annexb[at + 3 : end].rstrip(b"\0")
        if unit:
            units.append(unit)
        at = following
    return units


def parameter_sets_of(config: VideoConfig) -> bytes:
    """Return the parameter sets of a stream as a byte stream. Raises `WireError` with BAD_MEDIA if there are none."""
    avcc = config.avcc
    at = len(_avcc_head(b"\0\0\0\0"))
    sets = []
    for _ in (_SPS, _PPS):
        size = int.from_bytes(avcc[at : at + 2], "big")
        unit = avcc[at + 2 : at + 2 + size]
        if not unit or len(unit) != size:
            raise _bad("a piece of MP4 that describes no video")
        sets.append(unit)
        # Between the two is the number of PPS.
        at += 2 + size + 1
    return b"".join(_START_CODE + unit for unit in sets)


def byte_stream_of(sample: bytes) -> bytes:
    """Return a sample as a byte stream. Raises `WireError` with BAD_MEDIA for units that don't fit."""
    parts = []
    at = 0
    while at < len(sample):
        size = int.from_bytes(sample[at : at + 4], "big")
        parts += [_START_CODE, sample[at + 4 : at + 4 + size]]
        at += 4 + size
    if at != len(sample):
        raise _bad("a sample whose units do not fit")
    return b"".join(parts)


def _kind(unit: bytes) -> int:
    return unit[0] & 31


def _avcc_head(sps: bytes) -> bytes:
    # Version 1, profile, constraints and level, lengths of four bytes, one SPS.
    return b"".join((b"\1", sps[1:4], b"\xff\xe1"))


def _sized(unit: bytes) -> bytes:
    return struct.pack(">H", len(unit)) + unit


def _box(name: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return _BOX.pack(_BOX.size + len(content), name) + content


def _full_box(name: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(name, struct.pack(">I", version << 24 | flags), *parts)


def _start(config: VideoConfig) -> bytes:
    """Return `ftyp moov` of a file whose samples are all in fragments."""
    avc1 = _AVC1.pack(1, config.width, config.height, _DPI_72, _DPI_72, 1, 24, -1)
    stbl = _box(
        b"stbl",
        _full_box(b"stsd", 0, 0, struct.pack(">I", 1), _box(b"avc1", avc1, _box(b"avcC", config.avcc))),
        _full_box(b"stts", 0, 0, bytes(4)),
        _full_box(b"stsc", 0, 0, bytes(4)),
        _full_box(b"stsz", 0, 0, bytes(8)),
        _full_box(b"stco", 0, 0, bytes(4)),
    )
    dref = _full_box(b"dref", 0, 0, struct.pack(">I", 1), _full_box(b"url ", 0, 1))
    minf = _box(b"minf", _full_box(b"vmhd", 0, 1, bytes(8)), _box(b"dinf", dref), stbl)
    mdia = _box(
        b"mdia",
        _full_box(b"mdhd", 0, 0, struct.pack(">IIIIHH", 0, 0, _TIMESCALE, 0, _LANGUAGE_UNDETERMINED, 0)),
        _full_box(b"hdlr", 0, 0, bytes(4), b"vide", bytes(12), b"\0"),
        minf,
    )
    # The size is a fixed-point number with 16 bits of fraction.
    size = struct.pack(">II", config.width << 16, config.height << 16)
    tkhd = _full_box(b"tkhd", 0, 3, struct.pack(">IIIII", 0, 0, _TRACK_ID, 0, 0), bytes(16), _MATRIX, size)
    mvhd = struct.pack(">IIIIIH", 0, 0, _TIMESCALE, 0, 0x10000, 0x100)
    moov = _box(
        b"moov",
        _full_box(b"mvhd", 0, 0, mvhd, bytes(10), _MATRIX, bytes(24), struct.pack(">I", _TRACK_ID + 1)),
        _box(b"trak", tkhd, mdia),
        _box(b"mvex", _full_box(b"trex", 0, 0, struct.pack(">IIIII", _TRACK_ID, 1, 0, 0, 0))),
    )
    return _box(b"ftyp", b"iso5", struct.pack(">I", 0x200), b"iso5iso6mp41") + moov


def _moof(seq: int, pts_us: int, duration_us: int, size: int, flags: int, place: int) -> bytes:
    # The flags say which fields follow: default-base-is-moof; place, duration, size and flags of the sample.
    traf = _box(
        b"traf",
        _full_box(b"tfhd", 0, 0x20000, struct.pack(">I", _TRACK_ID)),
        _full_box(b"tfdt", 1, 0, struct.pack(">Q", pts_us)),
        _full_box(b"trun", 0, 0x701, struct.pack(">IiIII", 1, place, duration_us, size, flags)),
    )
    return _box(b"moof", _full_box(b"mfhd", 0, 0, struct.pack(">I", seq)), traf)


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
