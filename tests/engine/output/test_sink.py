from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.output.sink import Black, IpcSink, OutgoingBundle, Piece
from reactor_runtime.engine.session_log import OnFile
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.messages import Bundle, Message
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory, room_for
from reactor_runtime.media import jpeg
from reactor_runtime.media.jpeg_frame import JpegFrame

VIDEO = TrackSpec("main_video", "video", "out", None)


@dataclass
class Ends:
    """The server's ends of everything a sink writes to."""

    messages: Iterator[Message]
    ring: RingReader
    sink: IpcSink


@pytest.fixture
def ends() -> Iterator[Ends]:
    memory = create_memory()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Ends(
            (message for _, message in Channel(ours)), RingReader(memory), IpcSink(Channel(theirs), RingWriter(memory))
        )
    os.close(memory)


def outgoing(number: int, *payloads: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | Black) -> OutgoingBundle:
    pieces = tuple(Piece(VIDEO, number, payload, 0.0) for payload in payloads)
    return OutgoingBundle("s-1", number, 0.0, 0.1, 0.0, 0, (0,), 0.0, pieces)


def bundle_of(ends: Ends) -> Bundle:
    bundle = next(ends.messages)
    assert isinstance(bundle, Bundle)
    return bundle


def test_a_bundle_that_cannot_be_sent_keeps_no_memory(ends: Ends) -> None:
    frame = np.full((8, 10, 3), 9, np.uint8)
    unsendable = replace(outgoing(1, frame), due=np.float32(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float32"):
        ends.sink.send_bundle(unsendable)
    ends.sink.send_bundle(outgoing(2, frame))
    assert bundle_of(ends).frames[0].offset == 0


@pytest.mark.parametrize("turned", [False, True])
def test_a_bundle_has_the_places_of_its_frames(ends: Ends, turned: bool) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (720, 1280, 3), np.uint8)
    frame = frame[::-1] if turned else frame
    ends.sink.send_bundle(outgoing(1, frame, Black(4, 6)))
    picture, black = bundle_of(ends).frames
    assert np.array_equal(ends.ring.frame(picture.offset, 720, 1280), frame)
    assert (black.offset, black.height, black.width) == (-1, 4, 6)


def test_a_frame_that_is_a_jpeg_is_its_bytes(ends: Ends) -> None:
    file = jpeg.encode(np.full((24, 32, 3), 90, np.uint8))
    pieces = (Piece(VIDEO, 1, JpegFrame.of("main_video", file), 0.0),)
    ends.sink.send_bundle(replace(outgoing(1), pieces=pieces))
    (picture,) = bundle_of(ends).frames
    assert (picture.height, picture.width, picture.jpeg_bytes) == (24, 32, len(file))
    assert ends.ring.file(picture.offset, picture.jpeg_bytes) == file


def test_a_frame_s_metadata_goes_with_its_place(ends: Ends) -> None:
    frame = np.zeros((2, 2, 3), np.uint8)
    pieces = tuple(Piece(VIDEO, number, frame, 0.0, text) for number, text in enumerate(("", '{"a":"\\u00e9"}')))
    ends.sink.send_bundle(replace(outgoing(1), pieces=pieces))
    assert [each.metadata for each in bundle_of(ends).frames] == ["", '{"a":"\\u00e9"}']


def test_the_files_of_frames_are_passed_on_when_their_bundle_is_released(ends: Ends) -> None:
    files: list[tuple[int, bytes]] = []
    frame = np.zeros((8, 10, 3), np.uint8)

    def on_file(number: int) -> OnFile | None:
        return None if number == 1 else lambda file, _: files.append((number, file))

    pieces = tuple(Piece(VIDEO, number, frame, 0.0, on_file=on_file(number)) for number in range(4))
    ends.sink.send_bundle(replace(outgoing(7), pieces=pieces))
    rooms = [frame.room for frame in bundle_of(ends).frames]
    assert rooms[1] == -1
    for number in (0, 3):
        ends.ring.put_file(rooms[number], b"%d" % number, room_for(8, 10))
    assert files == []
    for _ in range(2):
        ends.sink.release(7)
    assert files == [(0, b"0"), (2, b""), (3, b"3")]
