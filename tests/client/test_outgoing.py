from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client.message import Track
from reactor_runtime.client.outgoing import MOST_SOUNDS, OutgoingFile, SendQueue
from reactor_runtime.media import jpeg, wav
from reactor_runtime.wire.media_header import detach

CAMERA, SIDE = Track("camera", "video", "in"), Track("side", "video", "in")
MICROPHONE = Track("mic", "audio", "in", 16_000)


def gray(level: int) -> Any:
    return np.full((8, 8, 3), level, np.uint8)


def taken(outbox: SendQueue) -> list[str | OutgoingFile]:
    return list(iter(outbox.next, None))


def test_the_newest_picture_replaces_one_that_has_not_gone() -> None:
    outbox = SendQueue()
    for track, level in ((CAMERA, 1), (SIDE, 2), (CAMERA, 3)):
        outbox.put(track, gray(level), 0.0)
    first, second = taken(outbox)
    assert isinstance(first, OutgoingFile)
    assert isinstance(second, OutgoingFile)
    assert (first.track, first.seq, second.track) == (CAMERA, 1, SIDE)
    header, file = detach(first.encode())
    assert header is not None
    assert header.track == "camera"
    assert jpeg.decode(file).mean() == pytest.approx(3, abs=1)


def test_sound_goes_in_order_and_the_oldest_is_dropped() -> None:
    outbox = SendQueue()
    for number in range(MOST_SOUNDS + 2):
        outbox.put(MICROPHONE, np.full(160, number, np.int16), 0.0)
    pieces = taken(outbox)
    assert [piece.seq for piece in pieces if isinstance(piece, OutgoingFile)] == list(range(2, MOST_SOUNDS + 2))
    assert isinstance(pieces[0], OutgoingFile)
    _, file = detach(pieces[0].encode())
    assert wav.read_header(file).sample_rate == 16_000
    assert wav.decode(file).tolist() == [[2] * 160]


def test_everybody_is_told_once_whether_theirs_has_gone() -> None:
    outbox = SendQueue()
    told: list[tuple[int, bool]] = []

    def put(track: Track, content: Any, number: int) -> None:
        outbox.put(track, content, 0.0, told=lambda gone: told.append((number, gone)))

    for number in range(3):
        put(CAMERA, gray(number), number)
    for number in range(3, MOST_SOUNDS + 4):
        put(MICROPHONE, np.zeros(1, np.int16), number)
    assert told == [(0, False), (1, False), (3, False)]
    first = outbox.next()
    assert isinstance(first, OutgoingFile)
    first.told(True)
    outbox.clear()
    outbox.clear()
    assert not outbox.waits
    assert told[3:] == [(4, True), (2, False), *((number, False) for number in range(5, MOST_SOUNDS + 4))]


def test_an_array_may_be_changed_after_it_was_published() -> None:
    outbox, picture = SendQueue(), gray(200)
    outbox.put(CAMERA, picture, 0.0)
    picture[:] = 0
    outgoing = outbox.next()
    assert isinstance(outgoing, OutgoingFile)
    assert jpeg.decode(outgoing.encode()).mean() > 190


def test_what_is_small_goes_first_and_an_acknowledgement_is_said_once() -> None:
    outbox = SendQueue()
    outbox.put(CAMERA, gray(1), 0.0)
    outbox.say("a")
    outbox.say("b")
    outbox.acknowledge("main", 3)
    outbox.acknowledge("main", 4)
    acknowledgement, *rest = taken(outbox)
    assert isinstance(acknowledgement, str)
    assert json.loads(acknowledgement) == {"type": "reactor.ack", "data": {"track": "main", "seq": 4}}
    assert rest[:2] == ["a", "b"]
    outbox.acknowledge("main", 4)
    assert outbox.next() is None
    outbox.clear()
    outbox.acknowledge("main", 4)
    assert outbox.next() is not None


def test_a_file_goes_as_it_is() -> None:
    outbox = SendQueue()
    outbox.put(CAMERA, jpeg.encode(gray(9)), 0.0)
    outgoing = outbox.next()
    assert isinstance(outgoing, OutgoingFile)
    assert detach(outgoing.encode())[1] == jpeg.encode(gray(9))


@pytest.mark.parametrize(
    ("track", "content"),
    [
        (CAMERA, np.zeros((8, 8, 3))),
        (CAMERA, np.zeros((2, 8, 8, 3), np.uint8)),
        (CAMERA, "a.jpg"),
        (CAMERA, b"RIFF"),
        (MICROPHONE, np.zeros(8)),
        (MICROPHONE, b"\xff\xd8"),
    ],
)
def test_what_a_track_cannot_take_is_refused(track: Track, content: object) -> None:
    outbox = SendQueue()
    with pytest.raises((TypeError, ValueError), match=track.name):
        outbox.put(track, content, 0.0)
    assert outbox.next() is None
