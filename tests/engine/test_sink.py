from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reactor_runtime.authoring.tracks import TrackSpec
from reactor_runtime.engine.sink import Black, Outgoing, Piece, SeamSink
from reactor_runtime.media.bands import bands
from reactor_runtime.seam.channel import Channel
from reactor_runtime.seam.messages import Message, Moment
from reactor_runtime.seam.nudge import SIZE, Nudge, Nudger, Place
from reactor_runtime.seam.ring import RingReader, RingWriter, create_memory

VIDEO = TrackSpec("main_video", "video", "out", None)


@dataclass
class Ends:
    """The server's ends of everything a sink writes to."""

    messages: Iterator[Message]
    nudges: socket.socket
    ring: RingReader
    sink: SeamSink


@pytest.fixture
def ends() -> Iterator[Ends]:
    memory = create_memory()
    ours, theirs = socket.socketpair()
    nudges, nudging = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs, nudges, nudging:
        sink = SeamSink(Channel(theirs), RingWriter(memory), Nudger(nudging, 5))
        yield Ends(iter(Channel(ours)), nudges, RingReader(memory), sink)
    os.close(memory)


def outgoing(number: int, *payloads: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | Black) -> Outgoing:
    pieces = tuple(Piece(VIDEO, number, payload, 0.0) for payload in payloads)
    return Outgoing("s-1", number, 0.0, 0.1, 0.0, 0, 0, 0.0, pieces)


def nudges(ends: Ends, count: int) -> list[Nudge]:
    return [Nudge.from_bytes(ends.nudges.recv(SIZE)) for _ in range(count)]


def moment_of(ends: Ends) -> Moment:
    moment = next(ends.messages)
    assert isinstance(moment, Moment)
    return moment


def test_a_moment_that_cannot_be_sent_keeps_no_memory(ends: Ends) -> None:
    frame = np.full((8, 10, 3), 9, np.uint8)
    unsendable = replace(outgoing(1, frame), due=np.float32(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float32"):
        ends.sink.show(unsendable)
    ends.sink.show(outgoing(2, frame))
    assert moment_of(ends).pictures[0].offset == 0


def test_encoder_threads_are_nudged_and_the_moment_says_so(ends: Ends) -> None:
    frame = np.full((8, 10, 3), 9, np.uint8)
    ends.sink.show(outgoing(1, frame, Black(4, 6)))
    picture, black = nudges(ends, 2)
    assert picture[:3] == (5, 1, 0)
    assert (ends.ring.picture(*picture.place) == frame).all()
    assert black == Nudge(5, 1, 1, Place(-1, 4, 6))
    assert moment_of(ends).nudges == 2


@pytest.mark.parametrize("turned", [False, True])
def test_a_large_picture_is_given_to_several_threads(ends: Ends, turned: bool) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (720, 1280, 3), np.uint8)
    frame = frame[::-1] if turned else frame
    ends.sink.show(outgoing(1, frame))
    moment = moment_of(ends)
    found = [ends.ring.picture(*nudge.place) for nudge in nudges(ends, moment.nudges)]
    assert len(found) == len(bands(720, 1280)) > 1
    assert np.array_equal(np.concatenate(found), frame)
    (picture,) = moment.pictures
    assert np.array_equal(ends.ring.picture(picture.offset, 720, 1280), frame)


def test_a_moment_nobody_could_be_nudged_for_is_sent_all_the_same(ends: Ends) -> None:
    ends.nudges.close()
    frame = np.full((720, 1280, 3), 7, np.uint8)
    ends.sink.show(outgoing(1, frame))
    moment = moment_of(ends)
    assert not moment.nudges
    assert (ends.ring.picture(moment.pictures[0].offset, 720, 1280) == 7).all()
