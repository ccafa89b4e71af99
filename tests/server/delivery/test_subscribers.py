from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reactor_runtime.media import jpeg
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, MediaFile, Snapshot
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, HandEncoder, jpeg_frame, settle
from tests.server.admission_fixture import drain, told
from tests.server.fanout_fixture import FanoutFixture


def frame(seq: int, track: str = "left") -> EncodedFrame:
    return jpeg_frame(seq, track)


def viewer(subscribers: Subscribers) -> Client:
    client = Client(Role.VIEWER, "127.0.0.1", ClientOptions(FakeClock()))
    subscribers.join(client)
    return client


async def seen(client: Client) -> list[tuple[str, int, bool]]:
    """Take the frames that wait for a client: track, number, and whether the frame was held."""
    headers = [detach(item)[0] for item in await drain(client.outbox) if isinstance(item, bytes)]
    return [(header.track, header.seq, bool(header.flags & FrameFlag.HELD)) for header in headers if header]


async def test_a_new_client_gets_the_latest_frame_of_each_track() -> None:
    subscribers = Subscribers()
    for each in (frame(1), frame(2), frame(5, "right")):
        subscribers.show_frame(each)
    client = viewer(subscribers)
    assert await seen(client) == [("left", 2, True), ("right", 5, True)]
    subscribers.show_frame(frame(3))
    assert await seen(client) == [("left", 3, False)]


async def test_the_latest_frame_is_the_newest_of_its_track() -> None:
    subscribers = Subscribers()
    assert await subscribers.snapshot("left") is None
    subscribers.show_frame(frame(1))
    subscribers.show_frame(frame(2))
    assert await subscribers.snapshot("left") == Snapshot("image/jpeg", frame(2).as_held().file_on(DEFAULT, 0)[1].data)
    assert await subscribers.snapshot("right") is None
    subscribers.clear_frames()
    assert await subscribers.snapshot("left") is None


async def test_a_client_that_left_gets_no_frame_and_no_message() -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.leave(client)
    subscribers.leave(client)
    subscribers.show_frame(frame(1))
    subscribers.send_message("progress", {})
    assert client not in subscribers
    assert await told(client) == []
    assert await seen(client) == []


@pytest.mark.parametrize("away", [View(paused=True), View(tracks=("right",))], ids=["paused", "other track"])
async def test_a_client_that_resumes_gets_the_latest_frame_at_once(away: View) -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.show_frame(frame(1))
    await seen(client)
    subscribers.set_view(client, away)
    subscribers.show_frame(frame(2))
    assert await seen(client) == []
    subscribers.set_view(client, View())
    assert await seen(client) == [("left", 2, True)]


async def test_a_change_of_rate_sends_no_frame_twice() -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.show_frame(frame(1))
    await seen(client)
    subscribers.set_view(client, View(max_fps=15))
    assert await seen(client) == []


async def test_a_client_that_resumes_before_its_turn_gets_a_frame_once() -> None:
    fixture = FanoutFixture()
    subscribers = Subscribers(fixture.fanout)
    viewers = [fixture.add_client() for _ in range(9)]
    subscribers.show_frame(frame(1))
    last = viewers[-1]
    last.outbox.notify_queued(None)
    subscribers.set_view(last, View(paused=True))
    subscribers.set_view(last, View())
    fixture.run_all_turns()
    assert await seen(last) == [("left", 1, True)]


async def test_a_client_that_joins_before_others_were_served_gets_a_frame_once() -> None:
    fixture = FanoutFixture()
    subscribers = Subscribers(fixture.fanout)
    for _ in range(9):
        fixture.add_client()
    subscribers.show_frame(frame(1))
    newcomer = viewer(subscribers)
    fixture.run_all_turns()
    assert await seen(newcomer) == [("left", 1, True)]


async def test_cleared_frames_do_not_reach_clients_that_are_not_served_yet() -> None:
    fixture = FanoutFixture()
    subscribers = Subscribers(fixture.fanout)
    viewers = [fixture.add_client() for _ in range(9)]
    subscribers.show_frame(frame(1))
    subscribers.send_message("progress", {})
    subscribers.clear_frames()
    fixture.run_all_turns()
    assert fixture.taken[viewers[-1]] == ['{"type":"progress","data":{}}']


async def test_cleared_frames_and_sound_do_not_reach_a_client_that_has_not_sent_them_yet() -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.show_frame(frame(1))
    subscribers.play_sound(EncodedSound(MediaHeader("audio", 0, 0, 0), b"sound", 0.1))
    subscribers.clear_frames()
    assert await drain(client.outbox) == []


async def test_a_view_gives_no_frames_to_a_client_in_the_wait_queue() -> None:
    subscribers = Subscribers()
    subscribers.show_frame(frame(1))
    waiting = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(FakeClock()))
    subscribers.set_view(waiting, View(paused=True))
    subscribers.set_view(waiting, View())
    assert await seen(waiting) == []


async def test_a_frames_only_client_gets_no_message_and_is_not_given_up() -> None:
    subscribers = Subscribers()
    client = Client(Role.VIEWER, "127.0.0.1", ClientOptions(FakeClock()), only=View(tracks=("right",)))
    subscribers.join(client)
    for number in range(2000):
        subscribers.send_message("progress", {"step": number})
    client.send_message("reactor.stats", {})
    for each in (frame(1), frame(5, "right")):
        subscribers.show_frame(each)
    assert await seen(client) == [("right", 5, False)]
    assert client.closing is None
    assert await told(client) == []


def small(seq: int) -> EncodedFrame:
    """Make a frame whose best file has a quarter of its size."""
    return replace(jpeg_frame(seq, "left", rung=6), pixels=np.full((32, 48, 3), 50 + seq, np.uint8))


def recorder(subscribers: Subscribers) -> Client:
    only = View(tracks=("left",))
    client = Client(Role.VIEWER, "127.0.0.1", ClientOptions(FakeClock()), only=only, full_size_only=True)
    subscribers.join(client)
    return client


@pytest.mark.parametrize("rung", [0, 2])
async def test_a_recorder_gets_full_size_frames_of_any_quality(rung: int) -> None:
    subscribers = Subscribers()
    subscribers.show_frame(jpeg_frame(1, "left", rung=rung))
    client = recorder(subscribers)
    assert await seen(client) == [("left", 1, True)]
    subscribers.show_frame(jpeg_frame(2, "left", rung=rung))
    assert await seen(client) == [("left", 2, False)]


async def test_a_recorder_gets_the_latest_frame_in_full_size_and_a_browser_as_it_is() -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(small(1))
    browser = Client(Role.VIEWER, "127.0.0.1", ClientOptions(FakeClock()), only=View(tracks=("left",)))
    subscribers.join(browser)
    assert await seen(browser) == [("left", 1, True)]
    first, second = recorder(subscribers), recorder(subscribers)
    assert await seen(first) == []
    assert len(encoder.jobs) == 1, "once for all"
    encoder.run_all()
    for client in (first, second, recorder(subscribers)):
        await settle()
        file = client.outbox.take_next()[0]
        assert isinstance(file, MediaFile)
        header, picture = detach(file.data)
        assert header is not None
        assert (header.seq, header.flags) == (1, FrameFlag.HELD)
        assert jpeg.decode(picture).shape == (32, 48, 3)
    assert await seen(browser) == []
    assert encoder.jobs == {}


async def test_a_recorder_gets_a_newer_small_frame_in_full_size() -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(small(1))
    client = recorder(subscribers)
    subscribers.show_frame(small(2))
    encoder.run_all()
    assert await seen(client) == [("left", 2, True)]


@pytest.mark.parametrize("what", ["clear", "leave", "newer"])
async def test_an_outdated_full_size_frame_is_not_sent(what: str) -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(small(1))
    client = recorder(subscribers)
    match what:
        case "clear":
            subscribers.clear_frames()
        case "leave":
            subscribers.leave(client)
        case "newer":
            subscribers.show_frame(frame(2))
    encoder.run_all()
    assert await seen(client) == ([("left", 2, False)] if what == "newer" else [])


async def test_the_latest_frame_is_returned_in_full_size() -> None:
    subscribers = Subscribers()
    subscribers.show_frame(small(1))
    whole = await subscribers.snapshot("left")
    assert whole is not None
    assert jpeg.decode(detach(whole.data)[1]).shape == (32, 48, 3)


async def test_a_frame_that_cannot_be_encoded_in_full_size_is_returned_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(replace(small(1), pixels=np.zeros((0, 0, 3), np.uint8)))
    client = recorder(subscribers)
    encoder.run_all()
    assert await seen(client) == []
    given = await subscribers.snapshot("left")
    assert given is not None
    assert given.data == small(1).as_held().file_on(DEFAULT, 6)[1].data
    assert "could not be encoded in full size" in caplog.text


async def test_the_rungs_in_use_are_those_of_clients_that_see_the_track() -> None:
    subscribers = Subscribers()
    assert subscribers.rungs_in_use("left") == {DEFAULT: [0]}
    first, second = viewer(subscribers), viewer(subscribers)
    subscribers.show_frame(frame(1))
    assert subscribers.rungs_in_use("left") == {DEFAULT: [0]}
    second.outbox.track_senders["left"].ladder.rung = 4
    assert subscribers.rungs_in_use("left") == {DEFAULT: [0, 4]}
    assert subscribers.rungs_in_use("right") == {DEFAULT: [0]}
    subscribers.leave(first)
    assert subscribers.rungs_in_use("left") == {DEFAULT: [4]}
    subscribers.set_view(second, View(tracks=("right",)))
    assert subscribers.rungs_in_use("left") == {DEFAULT: [0]}
    second.outbox.track_senders["left"].ladder.rung = 3
    subscribers.set_view(second, View(paused=True))
    assert subscribers.rungs_in_use("left") == {DEFAULT: [0]}
