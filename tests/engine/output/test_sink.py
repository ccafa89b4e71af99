from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.output.sink import Black, IpcSink, OutgoingBundle, Piece
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.encode_hint import SIZE, EncodeHint, EncodeHinter, HintedBand
from reactor_runtime.ipc.messages import Bundle, Message
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory
from reactor_runtime.media.bands import bands

VIDEO = TrackSpec("main_video", "video", "out", None)


@dataclass
class Ends:
    """The server's ends of everything a sink writes to."""

    messages: Iterator[Message]
    hints: socket.socket
    ring: RingReader
    sink: IpcSink


@pytest.fixture
def ends() -> Iterator[Ends]:
    memory = create_memory()
    ours, theirs = socket.socketpair()
    hints, nudging = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs, hints, nudging:
        sink = IpcSink(Channel(theirs), RingWriter(memory), EncodeHinter(nudging, 5))
        yield Ends(iter(Channel(ours)), hints, RingReader(memory), sink)
    os.close(memory)


def outgoing(number: int, *payloads: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | Black) -> OutgoingBundle:
    pieces = tuple(Piece(VIDEO, number, payload, 0.0) for payload in payloads)
    return OutgoingBundle("s-1", number, 0.0, 0.1, 0.0, 0, 0, 0.0, pieces)


def hints(ends: Ends, count: int) -> list[EncodeHint]:
    return [EncodeHint.from_bytes(ends.hints.recv(SIZE)) for _ in range(count)]


def moment_of(ends: Ends) -> Bundle:
    bundle = next(ends.messages)
    assert isinstance(bundle, Bundle)
    return bundle


def test_a_moment_that_cannot_be_sent_keeps_no_memory(ends: Ends) -> None:
    frame = np.full((8, 10, 3), 9, np.uint8)
    unsendable = replace(outgoing(1, frame), due=np.float32(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float32"):
        ends.sink.send_bundle(unsendable)
    ends.sink.send_bundle(outgoing(2, frame))
    assert moment_of(ends).frames[0].offset == 0


def test_a_bundle_has_the_number_of_encode_hints_sent(ends: Ends) -> None:
    frame = np.full((8, 10, 3), 9, np.uint8)
    ends.sink.send_bundle(outgoing(1, frame, Black(4, 6)))
    picture, black = hints(ends, 2)
    assert picture[:3] == (5, 1, 0)
    assert (ends.ring.frame(*picture.place) == frame).all()
    assert black == EncodeHint(5, 1, 1, HintedBand(-1, 4, 6))
    assert moment_of(ends).hints == 2


@pytest.mark.parametrize("turned", [False, True])
def test_a_large_picture_is_given_to_several_threads(ends: Ends, turned: bool) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (720, 1280, 3), np.uint8)
    frame = frame[::-1] if turned else frame
    ends.sink.send_bundle(outgoing(1, frame))
    bundle = moment_of(ends)
    found = [ends.ring.frame(*notify_input.place) for notify_input in hints(ends, bundle.hints)]
    assert len(found) == len(bands(720, 1280)) > 1
    assert np.array_equal(np.concatenate(found), frame)
    (picture,) = bundle.frames
    assert np.array_equal(ends.ring.frame(picture.offset, 720, 1280), frame)


def test_a_bundle_is_sent_when_no_encode_hint_could_be(ends: Ends) -> None:
    ends.hints.close()
    frame = np.full((720, 1280, 3), 7, np.uint8)
    ends.sink.send_bundle(outgoing(1, frame))
    bundle = moment_of(ends)
    assert not bundle.hints
    assert (ends.ring.frame(bundle.frames[0].offset, 720, 1280) == 7).all()
