"""H.264 in the Python client: what it decodes, and what it requests after errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client import Frame, connect
from reactor_runtime.client.streams import SessionStreams
from reactor_runtime.client.video import VideoError, VideoStreams
from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg
from tests.client.fake_server import WELCOME, FakeServer
from tests.timeouts import TIMEOUT_S
from tests.video import VideoStream, number_in
from tests.video import jpeg as jpeg_message

pytestmark = pytest.mark.anyio


def welcome(*encodings: str, session: str = "s-1") -> str:
    data = {**WELCOME, "upload_key": None, "session": session, "encodings": ["jpeg", *encodings]}
    return json.dumps({"type": "reactor.welcome", "data": data})


def sent(streams: SessionStreams) -> list[tuple[str, Any]]:
    """Take what waits to be sent: types and data."""
    items = []
    while isinstance(text := streams.send_queue.take_next(), str):
        message = json.loads(text)
        items.append((message["type"], message["data"]))
    return items


def corrupt(message: bytes) -> bytes:
    at = message.rindex(b"mdat") + 4
    return message[:at] + b"\xff" * (len(message) - at)


def newest(streams: SessionStreams) -> Frame:
    frame = streams.frames.newest("main_video")
    assert frame is not None
    return frame


@pytest.fixture
def streams() -> SessionStreams:
    """A client that has been welcomed by a server with H.264."""
    made = SessionStreams("controller")
    made.receive(welcome("h264"), 0.0, 0.0)
    assert sent(made) == [("reactor.view", {"codecs": ["h264"]})]
    return made


async def test_a_key_begins_with_the_type_of_a_file_and_other_pieces_do_not(streams: SessionStreams) -> None:
    stream = VideoStream()
    types = []
    for seq, is_key in enumerate((True, False, True, False)):
        await streams.receive_video(stream.message(seq, key=is_key), 0.0, 0.0)
        types.append(newest(streams).data[4:8])
    assert types == [b"ftyp", b"uuid", b"ftyp", b"uuid"]


def test_only_a_server_with_video_is_asked_for_it() -> None:
    streams = SessionStreams("controller")
    streams.receive(welcome(), 0.0, 0.0)
    streams.set_view({"paused": True})
    assert sent(streams) == [("reactor.view", {"paused": True})]


def test_a_client_without_pyav_asks_for_none() -> None:
    streams = SessionStreams("controller", video=VideoStreams(is_installed=False))
    streams.receive(welcome("h264"), 0.0, 0.0)
    assert sent(streams) == []


def test_a_stepped_session_needs_all_frames_as_files() -> None:
    streams = SessionStreams("controller")
    stepped = json.loads(welcome("h264"))
    stepped["data"]["generation"] = "stepped"
    streams.receive(json.dumps(stepped), 0.0, 0.0)
    assert sent(streams) == []


def test_a_view_keeps_the_codecs_and_a_new_connection_gets_both(streams: SessionStreams) -> None:
    streams.set_view({"max_fps": 5})
    view = ("reactor.view", {"max_fps": 5, "codecs": ["h264"]})
    assert sent(streams) == [view]
    streams.on_redirected()
    streams.receive(welcome("h264"), 0.0, 0.0)
    assert sent(streams)[-1] == view


async def test_each_message_becomes_a_frame_with_pixels_and_a_jpeg(streams: SessionStreams) -> None:
    stream = VideoStream(97, 241)
    for seq in range(5):
        message = stream.message(seq)
        await streams.receive_video(message, 1.0, 1.5)
        frame = newest(streams)
        assert (frame.seq, frame.data) == (seq, message)
        assert frame.delay_ms == pytest.approx(500 - 40 * seq)
        assert frame.array.shape == (97, 241, 3)
        assert number_in(frame.array) == number_in(jpeg.decode(frame.jpeg)) == seq
    assert sent(streams) == []


async def test_colours_are_those_of_the_frames(streams: SessionStreams) -> None:
    colours = [(220, 30, 30), (30, 200, 40), (40, 40, 220), (240, 240, 240), (128, 128, 128), (200, 160, 60)]
    pixels = np.repeat(np.array([colours], np.uint8), 96, axis=0).repeat(40, axis=1)
    await streams.receive_video(VideoStream(96, 240).message(0, pixels), 0.0, 0.0)
    assert np.abs(newest(streams).array[48, 20::40].astype(int) - colours).max() <= 6


async def test_jpegs_beside_the_start_of_a_stream_are_not_shown_again(streams: SessionStreams) -> None:
    stream = VideoStream()
    streams.receive(jpeg_message(0), 0.0, 0.0)
    await streams.receive_video(stream.message(1), 0.0, 0.0)
    streams.receive(jpeg_message(1), 0.0, 0.0)
    assert newest(streams).seq == 1
    streams.receive(jpeg_message(2), 0.0, 0.0)
    await streams.receive_video(stream.message(2), 0.0, 0.0)
    assert newest(streams).data[:2] == b"\xff\xd8"
    await streams.receive_video(stream.message(3), 0.0, 0.0)
    assert streams.frames.arrived["main_video"] == 4
    assert number_in(newest(streams).array) == 3


async def test_a_message_that_cannot_be_decoded_is_followed_by_one_request(
    streams: SessionStreams, caplog: pytest.LogCaptureFixture
) -> None:
    stream = VideoStream()
    await streams.receive_video(stream.message(0), 0.0, 0.0)
    await streams.receive_video(corrupt(stream.message(1)), 0.1, 0.0)
    await streams.receive_video(stream.message(2), 0.2, 0.0)
    assert "a frame of video can't be decoded track=main_video" in caplog.text
    assert sent(streams) == [("reactor.key", {"track": "main_video"})]
    assert newest(streams).seq == 0
    await streams.receive_video(stream.message(3, key=True), 0.3, 0.0)
    assert number_in(newest(streams).array) == 3


async def test_after_a_second_error_in_a_minute_the_session_has_jpegs_and_the_next_one_video(
    streams: SessionStreams,
) -> None:
    stream = VideoStream()
    for second in (0.0, 60.0, 119.0):
        await streams.receive_video(stream.message(2, key=True), second, 0.0)
        await streams.receive_video(corrupt(stream.message(1)), second, 0.0)
    key = ("reactor.key", {"track": "main_video"})
    assert sent(streams) == [key, key, ("reactor.view", {"codecs": []})]
    await streams.receive_video(stream.message(3), 120.0, 0.0)
    assert sent(streams) == [("reactor.view", {"codecs": []})]
    streams.receive(welcome("h264", session="s-2"), 0.0, 0.0)
    assert sent(streams) == [("reactor.view", {"codecs": ["h264"]})]


async def test_messages_of_another_connection_need_a_key(streams: SessionStreams) -> None:
    stream = VideoStream()
    await streams.receive_video(stream.message(0), 0.0, 0.0)
    streams.on_redirected()
    await streams.receive_video(stream.message(1), 0.0, 0.0)
    assert newest(streams).seq == 0
    assert ("reactor.key", {"track": "main_video"}) in sent(streams)


def test_a_stream_is_requested_again_if_no_key_comes() -> None:
    video = VideoStreams()
    stream = VideoStream()
    stream.message(0)
    requested = []
    for now in (0.0, 1.9, 2.0):
        with pytest.raises(VideoError, match="does not begin with a key") as raised:
            video.decode(stream.message(1))
        requested.append(video.must_request(raised.value, now))
    assert requested == [True, False, True]


def test_after_a_malformed_message_a_key_is_needed() -> None:
    video = VideoStreams()
    stream = VideoStream()
    video.decode(stream.message(0))
    with pytest.raises(WireError):
        video.decode(stream.message(1)[:-5])
    with pytest.raises(VideoError):
        video.decode(stream.message(2))
    assert video.decode(stream.message(3, key=True)).header.seq == 3


async def test_a_session_shows_the_frames_of_a_stream() -> None:
    server = FakeServer(media=VideoStream().message(7))
    async with server.open() as url, connect(url) as session, asyncio.timeout(TIMEOUT_S):
        frame = await session.frame()
        assert number_in(frame.array) == frame.seq == 7
        await server.received.wait()
    assert server.texts == ["reactor.ack"]
