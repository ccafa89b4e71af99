from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client.messages import Track
from reactor_runtime.client.send_queue import MAX_SOUNDS, OutgoingMedia, SendQueue
from reactor_runtime.media import jpeg, wav
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import MediaHeader

CAMERA, SIDE = Track("camera", "video", "in"), Track("side", "video", "in")
MICROPHONE = Track("mic", "audio", "in", 16_000)


def gray(level: int) -> Any:
    return np.full((8, 8, 3), level, np.uint8)


def drain(queue: SendQueue) -> list[str | bytes | OutgoingMedia]:
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
    queue.put_ack("main", 4, 0.02)
    acknowledgement, *rest = drain(queue)
    assert isinstance(acknowledgement, str)
    assert json.loads(acknowledgement) == {
        "type": "reactor.ack",
        "data": {"track": "main", "seq": 4, "held_ms": 20},
    }
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


def header_of(outgoing: str | bytes | OutgoingMedia | None) -> MediaHeader:
    assert isinstance(outgoing, OutgoingMedia)
    header, _ = detach(outgoing.encode())
    assert header is not None
    return header


@pytest.mark.parametrize(
    ("metadata", "sent"),
    [
        ({"pose": [1, 2.5], "name": "é"}, b'{"pose":[1,2.5],"name":"\\u00e9"}'),
        (MappingProxyType({"left": True}), b'{"left":true}'),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"raw"), b"raw"),
        (None, b""),
    ],
    ids=["dict", "mapping", "bytes", "bytearray", "none"],
)
@pytest.mark.parametrize(("track", "content"), [(CAMERA, gray(1)), (MICROPHONE, np.zeros(8, np.int16))])
def test_times_and_metadata_go_with_frames_and_sound(track: Track, content: Any, metadata: Any, sent: bytes) -> None:
    queue = SendQueue()
    queue.put_media(track, content, 1.5, metadata=metadata, capture_time_us=1_700_000_000_000_000)
    header = header_of(queue.take_next())
    assert (header.pts_us, header.wall_us, header.metadata) == (1_500_000, 1_700_000_000_000_000, sent)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"at": object()}, "camera: metadata that is not JSON: Object of type object"),
        ({"at": float("nan")}, "camera: metadata that is not JSON: Out of range"),
        ("text", "camera: metadata is a dict or bytes, not str: 'text'"),
        ([{}], "camera: metadata is a dict or bytes, not list"),
        (bytes(65_493), "camera: metadata of 65493 bytes; at most 65492 go with a frame"),
        ({"x": "y" * 65_485}, "camera: metadata of 65493 bytes; at most 65492 go with a frame"),
    ],
)
def test_metadata_that_can_not_be_sent_is_refused(metadata: Any, why: str) -> None:
    queue = SendQueue()
    with pytest.raises(ValueError, match=re.escape(why)):
        queue.put_media(CAMERA, gray(1), 0.0, metadata=metadata)
    assert queue.take_next() is None


def test_metadata_of_the_largest_size_fits_the_header() -> None:
    queue = SendQueue()
    queue.put_media(CAMERA, gray(1), 0.0, metadata=bytes(65_492))
    assert header_of(queue.take_next()).metadata == bytes(65_492)


def test_a_time_that_has_no_place_in_the_header_is_refused() -> None:
    for time_us in (-1, 2**64):
        with pytest.raises(ValueError, match="camera: capture_time_us is microseconds since the epoch"):
            SendQueue().put_media(CAMERA, gray(1), 0.0, capture_time_us=time_us)


def test_metadata_counts_for_the_size_of_a_message() -> None:
    queue, file = SendQueue(), b"\xff\xd8" + bytes(5000)
    queue.put_media(CAMERA, file, 0.0, max_bytes=6100)
    with pytest.raises(ValueError, match="camera: 5002 bytes at once are too many; at most 4976"):
        queue.put_media(CAMERA, file, 0.0, metadata=bytes(100), max_bytes=6100)
