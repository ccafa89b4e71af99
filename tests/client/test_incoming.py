from __future__ import annotations

import numpy as np

from reactor_runtime.client.incoming import NewestFrames, ReceivedSound
from reactor_runtime.client.media import Frame, Sound


def frame(seq: int, track: str = "main") -> Frame:
    return Frame(track, seq, 0.0, 0, False, False, 0.0, b"")


def sound(seq: int, seconds: float = 1.0, *, after_flush: bool = False) -> Sound:
    return Sound("a", seq, 0.0, 0, after_flush, 0.0, 100, np.zeros((1, int(100 * seconds)), np.int16), b"")


def test_only_the_newest_picture_of_a_track_waits() -> None:
    pictures = NewestFrames()
    assert pictures.newest("main") is None
    for each in (frame(0), frame(1), frame(9, "side")):
        pictures.put(each)
    assert pictures.newest("main") == frame(1)
    assert pictures.newest("side") == frame(9, "side")


def test_a_picture_is_new_once_whatever_its_number() -> None:
    pictures = NewestFrames()
    pictures.put(frame(70))
    seen = pictures.arrived["main"]
    assert pictures.newest("main", after=seen) is None
    pictures.put(frame(0))  # of the next session
    assert pictures.newest("main", after=seen) == frame(0)


def test_sound_is_taken_in_order() -> None:
    sounds = ReceivedSound()
    for seq in range(3):
        sounds.put(sound(seq))
    assert [piece.seq for _ in range(3) if (piece := sounds.take("a"))] == [0, 1, 2]
    assert sounds.take("a") is None
    assert sounds.take("b") is None


def test_pieces_of_sound_can_be_told_apart_and_put_in_a_set() -> None:
    one, other = sound(0), sound(0)
    assert one != other
    assert one in {one}


def test_over_five_seconds_the_oldest_sound_goes() -> None:
    sounds = ReceivedSound()
    for seq in range(8):
        sounds.put(sound(seq))
    piece = sounds.take("a")
    assert piece is not None
    assert piece.seq == 3


def test_one_piece_is_kept_however_long() -> None:
    sounds = ReceivedSound()
    sounds.put(sound(0, 60))
    assert sounds.take("a") is not None


def test_sound_after_a_flush_replaces_what_waits() -> None:
    sounds = ReceivedSound()
    sounds.put(sound(0, 4))
    sounds.put(sound(1, 4, after_flush=True))
    assert [piece.seq for _ in range(2) if (piece := sounds.take("a"))] == [1]
