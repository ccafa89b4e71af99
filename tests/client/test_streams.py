"""Whatever a server sends: the client goes on, and says so where it can't be understood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.client.errors import ConnectionLost
from reactor_runtime.client.streams import SessionStreams
from reactor_runtime.media import jpeg
from reactor_runtime.wire.media_header import MediaHeader, attach
from tests.client.test_outgoing import gray

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
def test_nothing_that_a_server_sends_raises(items: list[str | bytes]) -> None:
    exchange = SessionStreams("controller")
    for item in items:
        exchange.receive(item, 1.0, 1000.0)
        conversation = exchange.conversation
        assert str(conversation.status)
        assert conversation.ready in (True, False)
        assert conversation.welcome.max_text_bytes >= 0
        assert conversation.welcome.resume_grace_s is None or conversation.welcome.resume_grace_s >= 0


def test_a_file_without_a_header_is_logged_and_the_next_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    exchange = SessionStreams("viewer")
    file = jpeg.encode(gray(9))
    exchange.receive(file, 1.0, 1000.0)
    exchange.receive(attach(MediaHeader("main", 4, 2_000_000, 999_900_000), file), 1.0, 1000.0)
    assert "a file without a reactor header" in caplog.text
    frame = exchange.pictures.newest("main")
    assert frame is not None
    assert (frame.seq, frame.pts_s) == (4, 2.0)
    assert frame.delay_ms == pytest.approx(100)


def test_a_polled_track_is_acknowledged_as_its_frames_come() -> None:
    exchange = SessionStreams("viewer")
    file = jpeg.encode(gray(9))
    assert exchange.poll("main") is None
    for seq in (1, 2):
        exchange.receive(attach(MediaHeader("main", seq, 0, 0), file), 1.0, 1000.0)
    said = exchange.outbox.next()
    assert isinstance(said, str)
    assert json.loads(said)["data"] == {"track": "main", "seq": 2}


def test_nothing_is_left_of_the_pictures_of_another_session() -> None:
    exchange = SessionStreams("viewer")
    file = attach(MediaHeader("main", 0, 0, 0), jpeg.encode(gray(9)))
    for session in ("first", "second"):
        started = {"type": "reactor.session", "data": {"phase": "started", "session": session}}
        exchange.receive(json.dumps(started), 1.0, 1000.0)
        assert exchange.pictures.newest("main") is None
        exchange.receive(file, 1.0, 1000.0)
        frame = exchange.poll("main")
        assert frame is not None
        exchange.acknowledge(frame)
        said = exchange.outbox.next()
        assert isinstance(said, str), "a number that was acknowledged in the session before"
        exchange.receive(json.dumps({"type": "reactor.stats", "data": {}}), 1.0, 1000.0)
        assert exchange.pictures.newest("main") is frame


def test_what_a_client_wants_to_see_is_said_again_after_a_break() -> None:
    exchange = SessionStreams("viewer")
    exchange.view("view")
    assert exchange.outbox.next() == "view"
    exchange.say("an event of before")
    exchange.broken(ConnectionLost("lost"))
    assert [exchange.outbox.next(), exchange.outbox.next()] == ["view", None]
