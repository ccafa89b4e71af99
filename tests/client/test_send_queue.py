from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client.messages import Track
from reactor_runtime.client.send_queue import MAX_SOUNDS, OutgoingMedia, SendQueue
from reactor_runtime.media import jpeg, wav
from reactor_runtime.wire.containers import detach

CAMERA, SIDE = Track("camera", "video", "in"), Track("side", "video", "in")
MICROPHONE = Track("mic", "audio", "in", 16_000)


def gray(level: int) -> Any:
    return np.full((8, 8, 3), level, np.uint8)


def drain(queue: SendQueue) -> list[str | OutgoingMedia]:
    return list(iter(queue.take_next, None))


def test_a_newer_frame_replaces_an_unsent_one_of_its_track() -> None:
    queue = SendQueue()
    for track, level in ((CAMERA, 1), (SIDE, 2), (CAMERA, 3)):
        queue.put_media(track, gray(level), 0.0)
    first, second = drain(queue)
    assert isinstance(first, OutgoingMedia)
    assert isinstance(second, OutgoingMedia)
    assert (first.track, first.seq, second.track) == (CAMERA, 1, SIDE)
    header, file = detach(first.encode())
    assert header is not None
    assert header.track == "camera"
    assert jpeg.decode(file).mean() == pytest.approx(3, abs=1)


def test_sound_is_sent_in_order_and_a_full_queue_drops_the_oldest() -> None:
    queue = SendQueue()
    for number in range(MAX_SOUNDS + 2):
        queue.put_media(MICROPHONE, np.full(160, number, np.int16), 0.0)
    pieces = drain(queue)
    assert [piece.seq for piece in pieces if isinstance(piece, OutgoingMedia)] == list(range(2, MAX_SOUNDS + 2))
    assert isinstance(pieces[0], OutgoingMedia)
    _, file = detach(pieces[0].encode())
    assert wav.read_header(file).sample_rate == 16_000
    assert wav.decode(file).tolist() == [[2] * 160]


def test_each_item_is_reported_once_as_sent_or_dropped() -> None:
    queue = SendQueue()
    reports: list[tuple[int, bool]] = []

    def put(track: Track, content: Any, number: int) -> None:
        queue.put_media(track, content, 0.0, on_done=lambda gone: reports.append((number, gone)))

    for number in range(3):
        put(CAMERA, gray(number), number)
    for number in range(3, MAX_SOUNDS + 4):
        put(MICROPHONE, np.zeros(1, np.int16), number)
    assert reports == [(0, False), (1, False), (3, False)]
    first = queue.take_next()
    assert isinstance(first, OutgoingMedia)
    first.on_done(True)
    queue.clear()
    queue.clear()
    assert queue.is_empty
    assert reports[3:] == [(4, True), (2, False), *((number, False) for number in range(5, MAX_SOUNDS + 4))]


def test_an_array_may_change_after_it_was_published() -> None:
    queue, pixels = SendQueue(), gray(200)
    queue.put_media(CAMERA, pixels, 0.0)
    pixels[:] = 0
    outgoing = queue.take_next()
    assert isinstance(outgoing, OutgoingMedia)
    assert jpeg.decode(outgoing.encode()).mean() > 190


def test_small_items_go_first_and_an_acknowledgement_is_sent_once() -> None:
    queue = SendQueue()
    queue.put_media(CAMERA, gray(1), 0.0)
    queue.put_text("a")
    queue.put_text("b")
    queue.put_ack("main", 3)
    queue.put_ack("main", 4)
    acknowledgement, *rest = drain(queue)
    assert isinstance(acknowledgement, str)
    assert json.loads(acknowledgement) == {"type": "reactor.ack", "data": {"track": "main", "seq": 4}}
    assert rest[:2] == ["a", "b"]
    queue.put_ack("main", 4)
    assert queue.take_next() is None
    queue.clear()
    queue.put_ack("main", 4)
    assert queue.take_next() is not None


def test_a_file_is_sent_unchanged() -> None:
    queue = SendQueue()
    queue.put_media(CAMERA, jpeg.encode(gray(9)), 0.0)
    outgoing = queue.take_next()
    assert isinstance(outgoing, OutgoingMedia)
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
def test_content_that_does_not_fit_the_track_is_refused(track: Track, content: object) -> None:
    queue = SendQueue()
    with pytest.raises((TypeError, ValueError), match=track.name):
        queue.put_media(track, content, 0.0)
    assert queue.take_next() is None
