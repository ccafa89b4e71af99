from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.client.media import (
    DECODERS,
    Frame,
    NewestFrames,
    ReceivedSound,
    Sound,
    read_frame,
    read_header,
)
from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import JPEG, attach, required_container_of
from reactor_runtime.wire.media_header import MediaHeader


def frame(seq: int, track: str = "main") -> Frame:
    return Frame(track, seq, 0.0, 0, False, False, 0.0, b"")


def sound(seq: int, seconds: float = 1.0, *, after_flush: bool = False) -> Sound:
    return Sound("a", seq, 0.0, 0, after_flush, 0.0, 100, np.zeros((1, int(100 * seconds)), np.int16), b"")


def test_a_newer_frame_replaces_one_of_its_track() -> None:
    frames = NewestFrames()
    assert frames.newest("main") is None
    for each in (frame(0), frame(1), frame(9, "side")):
        frames.put_frame(each)
    assert frames.newest("main") == frame(1)
    assert frames.newest("side") == frame(9, "side")


def test_a_frame_of_the_next_session_is_new_despite_its_lower_number() -> None:
    frames = NewestFrames()
    frames.put_frame(frame(70))
    seen = frames.arrived["main"]
    assert frames.newest("main", after=seen) is None
    frames.put_frame(frame(0))
    assert frames.newest("main", after=seen) == frame(0)


def test_pieces_of_sound_are_taken_in_order() -> None:
    sounds = ReceivedSound()
    for seq in range(3):
        sounds.put_sound(sound(seq))
    assert [piece.seq for _ in range(3) if (piece := sounds.take_sound("a"))] == [0, 1, 2]
    assert sounds.take_sound("a") is None
    assert sounds.take_sound("b") is None


def test_pieces_of_sound_are_compared_by_identity_and_hashable() -> None:
    one, other = sound(0), sound(0)
    assert one != other
    assert one in {one}


def test_above_five_seconds_the_oldest_sound_is_dropped() -> None:
    sounds = ReceivedSound()
    for seq in range(8):
        sounds.put_sound(sound(seq))
    piece = sounds.take_sound("a")
    assert piece is not None
    assert piece.seq == 3


def test_a_single_piece_is_kept_whatever_its_length() -> None:
    sounds = ReceivedSound()
    sounds.put_sound(sound(0, 60))
    assert sounds.take_sound("a") is not None


def test_sound_after_a_flush_replaces_earlier_pieces() -> None:
    sounds = ReceivedSound()
    sounds.put_sound(sound(0, 4))
    sounds.put_sound(sound(1, 4, after_flush=True))
    assert [piece.seq for _ in range(2) if (piece := sounds.take_sound("a"))] == [1]


def received(metadata: bytes) -> Frame:
    return read_frame(MediaHeader("main", 1, 2, 3, metadata=metadata), b"", DECODERS[JPEG], delay_s=0.0)


def test_a_frame_has_the_metadata_of_its_header() -> None:
    assert received(b"").metadata is None
    assert received(b"{}").metadata == {}
    assert received(b'{"pose":[1,2.5],"name":"\\u00e9"}').metadata == {"pose": [1, 2.5], "name": "é"}
    assert len({received(b'{"a":1}'), received(b"")}) == 2


@pytest.mark.parametrize("metadata", [b"{", b"\xff", b"[1]", b"7", b"null", b"[" * 60_000], ids=repr)
def test_malformed_metadata_is_a_malformed_message(metadata: bytes) -> None:
    with pytest.raises(WireError, match="a frame with metadata that is"):
        received(metadata)


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 120))
def test_any_bytes_are_read_as_a_frame_or_refused(junk: bytes, metadata: bytes, keep: int) -> None:
    file = attach(MediaHeader("main", 1, 2, 3, metadata=metadata + b'{"a":1}'), b"\xff\xd8\xff\xd9")
    for data in (file[:keep], file[:keep] + junk, junk + file, b"\xff\xd8\xff\xef" + junk, file):
        try:
            container = required_container_of(data)
            frame = read_frame(read_header(container, data), data, DECODERS[JPEG], delay_s=0.0)
        except WireError:
            continue
        assert frame.metadata is None or isinstance(frame.metadata, dict)
