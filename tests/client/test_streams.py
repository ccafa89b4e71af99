"""Any input from a server: the client continues, and logs malformed messages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.client.errors import ConnectionLost
from reactor_runtime.client.media import DECODERS
from reactor_runtime.client.streams import SessionStreams
from reactor_runtime.media import jpeg
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from tests.client.test_send_queue import gray
from tests.server.encoding.png_encoding import PNG, decode_png

TYPES = ["welcome", "state", "reply", "error", "session", "queue", "stats", "pong", "of_a_later_version"]
KEYS = [
    "phase",
    "reason",
    "session",
    "seconds",
    "state",
    "tracks",
    "limits",
    "schema",
    "model",
    "role",
    "n",
    "t",
    "code",
]
WELCOME: dict[str, Any] = {
    "model": "m", "role": "controller", "session": "s", "tracks": [], "schema": {"events": {}, "messages": {}},
    "state": {}, "limits": {}, "resume": None, "upload_key": None,
}  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=8,
)
phases = st.sampled_from(["loading", "started", "ended", "ending", "idle", "away", "resumed", "stopping", "failed"])
some = st.dictionaries(st.sampled_from(KEYS), values)
data = some | st.builds(lambda some, phase: {**some, "phase": phase}, some, phases)
broken = st.builds(lambda key, value: {**WELCOME, key: value}, st.sampled_from(list(WELCOME)), values)
texts = st.text() | st.builds(
    lambda kind, data: json.dumps({"type": f"reactor.{kind}", "data": data, "id": 1}),
    st.sampled_from(TYPES),
    data | broken,
)


@given(st.lists(texts | st.binary(max_size=80), max_size=8))
def test_no_input_from_a_server_raises(items: list[str | bytes]) -> None:
    streams = SessionStreams("controller")
    for item in items:
        streams.receive(item, 1.0, 1000.0)
        protocol = streams.protocol
        assert str(protocol.status)
        assert protocol.ready in (True, False)
        assert protocol.welcome.max_text_bytes >= 0
        assert protocol.welcome.resume_grace_s is None or protocol.welcome.resume_grace_s >= 0


def test_media_without_a_header_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    streams = SessionStreams("viewer")
    file = jpeg.encode(gray(9))
    streams.receive(file, 1.0, 1000.0)
    streams.receive(attach(MediaHeader("main", 4, 2_000_000, 999_900_000), file), 1.0, 1000.0)
    assert "a file without a reactor header" in caplog.text
    frame = streams.frames.newest("main")
    assert frame is not None
    assert (frame.seq, frame.pts_s) == (4, 2.0)
    assert frame.delay_ms == pytest.approx(100)


def test_a_frame_of_another_encoding_is_decoded() -> None:
    streams = SessionStreams("viewer", decoders={**DECODERS, PNG.container: decode_png})
    pixels = np.random.default_rng(5).integers(0, 256, (16, 24, 3), np.uint8)
    file = PNG.container.attach(MediaHeader("main", 4, 0, 0), PNG.encode(pixels, 0))
    other = attach(MediaHeader("main", 5, 0, 0), jpeg.encode(gray(9)))
    for number, data, expected in ((4, file, pixels), (5, other, jpeg.decode(jpeg.encode(gray(9))))):
        streams.receive(data, 1.0, 1000.0)
        frame = streams.poll_frame("main")
        assert frame is not None
        assert frame.seq == number
        assert np.array_equal(frame.array, expected)


def test_frames_of_a_polled_track_are_acknowledged_on_arrival() -> None:
    streams = SessionStreams("viewer")
    file = jpeg.encode(gray(9))
    assert streams.poll_frame("main") is None
    for seq in (1, 2):
        streams.receive(attach(MediaHeader("main", seq, 0, 0), file), 1.0, 1000.0)
    text = streams.send_queue.take_next()
    assert isinstance(text, str)
    assert json.loads(text)["data"] == {"track": "main", "seq": 2, "held_ms": 0}


def test_frames_and_acknowledgements_of_the_last_session_are_dropped() -> None:
    streams = SessionStreams("viewer")
    file = attach(MediaHeader("main", 0, 0, 0), jpeg.encode(gray(9)))
    for session in ("first", "second"):
        started = {"type": "reactor.session", "data": {"phase": "started", "session": session}}
        streams.receive(json.dumps(started), 1.0, 1000.0)
        assert streams.frames.newest("main") is None
        streams.receive(file, 1.0, 1000.0)
        frame = streams.poll_frame("main")
        assert frame is not None
        streams.acknowledge(frame)
        text = streams.send_queue.take_next()
        assert isinstance(text, str), "the number was acknowledged in the session before"
        streams.receive(json.dumps({"type": "reactor.stats", "data": {}}), 1.0, 1000.0)
        assert streams.frames.newest("main") is frame


def test_the_newest_frame_that_is_sent_again_after_a_break_is_acknowledged_and_not_new() -> None:
    streams = SessionStreams("controller")
    file = jpeg.encode(gray(9))
    streams.receive(attach(MediaHeader("main", 4, 0, 0), file), 1.0, 1000.0)
    for seq, new in ((4, False), (5, True), (5, False)):
        before = streams.frames.arrived["main"]
        streams.receive(attach(MediaHeader("main", seq, 0, 0, flags=FrameFlag.HELD), file), 1.0, 1000.0)
        assert streams.frames.arrived["main"] - before == new
        assert (streams.send_queue.take_next() is None) == new


def test_frames_of_a_session_that_has_ended_are_over() -> None:
    streams = SessionStreams("viewer")
    file = attach(MediaHeader("main", 0, 0, 0), jpeg.encode(gray(9)))
    streams.receive(session_phase("started", session="first"), 1.0, 1000.0)
    streams.receive(file, 1.0, 1000.0)
    assert streams.frames.over == {}
    streams.receive(session_phase("ended", reason="left"), 1.0, 1000.0)
    assert streams.frames.over == {"main": 1}
    assert streams.frames.newest("main") is not None


def test_a_controller_whose_session_was_lost_has_no_frame_until_the_next_session() -> None:
    streams = SessionStreams("controller")
    streams.receive(json.dumps({"type": "reactor.welcome", "data": WELCOME}), 1.0, 1000.0)
    streams.receive(attach(MediaHeader("main", 0, 0, 0), jpeg.encode(gray(9))), 1.0, 1000.0)
    streams.receive(session_phase("ended", reason="model_error"), 1.0, 1000.0)
    assert streams.frames.newest("main") is not None
    streams.on_reconnected()
    assert streams.frames.newest("main") is None


def session_phase(phase: str, **data: str) -> str:
    return json.dumps({"type": "reactor.session", "data": {"phase": phase, **data}})


def test_the_view_is_sent_again_after_a_break() -> None:
    streams = SessionStreams("viewer")
    streams.set_view({"paused": True})
    view = '{"type":"reactor.view","data":{"paused":true}}'
    assert streams.send_queue.take_next() == view
    streams.send_text("an earlier event")
    streams.on_connection_lost(ConnectionLost("lost"))
    assert [streams.send_queue.take_next(), streams.send_queue.take_next()] == [view, None]


def test_an_acknowledgement_has_the_time_that_its_frame_was_held() -> None:
    streams = SessionStreams("viewer")
    streams.receive(attach(MediaHeader("main", 1, 0, 0), jpeg.encode(gray(9))), 1.0, 1000.0)
    frame = streams.frames.newest("main")
    assert frame is not None
    streams.acknowledge(frame, 1.25)
    text = streams.send_queue.take_next()
    assert isinstance(text, str)
    assert json.loads(text)["data"] == {"track": "main", "seq": 1, "held_ms": 250}


def test_frames_of_another_seat_of_the_session_are_dropped() -> None:
    streams = SessionStreams("controller")
    for seat in (0, 1):
        welcome = {"type": "reactor.welcome", "data": {**WELCOME, "seat": seat}}
        streams.receive(json.dumps(welcome), 1.0, 1000.0)
        streams.receive(session_phase("started", session="s"), 1.0, 1000.0)
        assert streams.frames.newest("main") is None
        streams.receive(attach(MediaHeader("main", 1, 0, 0), jpeg.encode(gray(9))), 1.0, 1000.0)
        assert streams.frames.newest("main") is not None


def test_a_view_without_a_seat_is_sent_with_the_last_one() -> None:
    streams = SessionStreams("viewer")
    streams.set_view({"seat": 1})
    streams.set_view({"paused": False, "max_fps": 5})
    seats = []
    while isinstance(text := streams.send_queue.take_next(), str):
        seats.append(json.loads(text)["data"]["seat"])
    assert seats == [1, 1]


def test_nothing_is_sent_after_the_end_of_a_client() -> None:
    streams = SessionStreams("controller")
    streams.send_text("an event")
    streams.end_client(ConnectionLost("lost"))
    assert streams.send_queue.take_next() is None
