from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reactor_runtime.media import jpeg
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach, detach
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, HandEncoder, settle
from tests.server.admission_fixture import drain, told
from tests.server.fanout_fixture import FanoutFixture


def frame(seq: int, track: str = "left") -> EncodedFrame:
    return EncodedFrame(track, seq, attach(MediaHeader(track, seq, 0, 0), b"\xff\xd8\xff\xd9"), 0.1)


def viewer(subscribers: Subscribers) -> Client:
    client = Client(Role.VIEWER, "127.0.0.1", FakeClock())
    subscribers.join(client)
    return client


async def seen(client: Client) -> list[tuple[str, int, bool]]:
    """Take the frames that wait for a client: track, number, and whether it is an old one sent again."""
    headers = [detach(item)[0] for item in await drain(client.outbox) if isinstance(item, bytes)]
    return [(header.track, header.seq, bool(header.flags & FrameFlag.HELD)) for header in headers if header]


async def test_a_newcomer_sees_the_newest_frame_of_each_track() -> None:
    subscribers = Subscribers()
    for each in (frame(1), frame(2), frame(5, "right")):
        subscribers.show_frame(each)
    client = viewer(subscribers)
    assert await seen(client) == [("left", 2, True), ("right", 5, True)]
    subscribers.show_frame(frame(3))
    assert await seen(client) == [("left", 3, False)]


async def test_the_picture_on_screen_is_the_newest_of_its_track() -> None:
    subscribers = Subscribers()
    assert await subscribers.latest_frame("left") is None
    subscribers.show_frame(frame(1))
    subscribers.show_frame(frame(2))
    assert await subscribers.latest_frame("left") == frame(2).as_held()
    assert await subscribers.latest_frame("right") is None
    subscribers.clear_frames()
    assert await subscribers.latest_frame("left") is None


async def test_who_has_left_sees_and_hears_nothing() -> None:
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
async def test_who_looks_again_sees_what_it_missed_at_once(away: View) -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.show_frame(frame(1))
    await seen(client)
    subscribers.set_view(client, away)
    subscribers.show_frame(frame(2))
    assert await seen(client) == []
    subscribers.set_view(client, View())
    assert await seen(client) == [("left", 2, True)]


async def test_who_only_asks_for_another_rate_is_sent_nothing_twice() -> None:
    subscribers = Subscribers()
    client = viewer(subscribers)
    subscribers.show_frame(frame(1))
    await seen(client)
    subscribers.set_view(client, View(max_fps=15))
    assert await seen(client) == []


async def test_who_looks_again_before_its_turn_has_come_sees_a_frame_once() -> None:
    assignment = FanoutFixture()
    subscribers = Subscribers(assignment.fanout)
    limiter = [assignment.start_session() for _ in range(9)]
    subscribers.show_frame(frame(1))
    last = limiter[-1]
    last.outbox.notify_queued(None)
    subscribers.set_view(last, View(paused=True))
    subscribers.set_view(last, View())
    assignment.finish()
    assert await seen(last) == [("left", 1, True)]


async def test_who_joins_before_the_crowd_has_had_its_turns_sees_a_frame_once() -> None:
    assignment = FanoutFixture()
    subscribers = Subscribers(assignment.fanout)
    for _ in range(9):
        assignment.start_session()
    subscribers.show_frame(frame(1))
    newcomer = viewer(subscribers)
    assignment.finish()
    assert await seen(newcomer) == [("left", 1, True)]


async def test_a_cleared_screen_is_cleared_for_those_whose_turn_has_not_come() -> None:
    assignment = FanoutFixture()
    subscribers = Subscribers(assignment.fanout)
    limiter = [assignment.start_session() for _ in range(9)]
    subscribers.show_frame(frame(1))
    subscribers.send_message("progress", {})
    subscribers.clear_frames()
    assignment.finish()
    assert assignment.taken[limiter[-1]] == ['{"type":"progress","data":{}}']


async def test_who_waits_in_line_sees_nothing_by_looking() -> None:
    subscribers = Subscribers()
    subscribers.show_frame(frame(1))
    waiting = Client(Role.CONTROLLER, "127.0.0.1", FakeClock())
    subscribers.set_view(waiting, View(paused=True))
    subscribers.set_view(waiting, View())
    assert await seen(waiting) == []


async def test_who_understands_frames_alone_is_told_nothing_and_never_given_up_for_it() -> None:
    subscribers = Subscribers()
    client = Client(Role.VIEWER, "127.0.0.1", FakeClock(), only=View(tracks=("right",)))
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
    """Make a frame that everybody sees in a quarter of its size."""
    return replace(frame(seq), rung=6, pixels=np.full((32, 48, 3), 50 + seq, np.uint8))


def recorder(subscribers: Subscribers) -> Client:
    only = View(tracks=("left",))
    client = Client(Role.VIEWER, "127.0.0.1", FakeClock(), only=only, full_size_only=True)
    subscribers.join(client)
    return client


@pytest.mark.parametrize("rung", [0, 2])
async def test_a_recorder_is_sent_what_there_is_in_full_size_as_it_is(rung: int) -> None:
    subscribers = Subscribers()
    subscribers.show_frame(replace(frame(1), rung=rung))
    client = recorder(subscribers)
    assert await seen(client) == [("left", 1, True)]
    subscribers.show_frame(replace(frame(2), rung=rung))
    assert await seen(client) == [("left", 2, False)]


async def test_a_recorder_gets_the_held_frame_in_full_size_and_a_browser_at_once_as_it_is() -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(small(1))
    browser = Client(Role.VIEWER, "127.0.0.1", FakeClock(), only=View(tracks=("left",)))
    subscribers.join(browser)
    assert await seen(browser) == [("left", 1, True)]
    first, second = recorder(subscribers), recorder(subscribers)
    assert await seen(first) == []
    assert len(encoder.jobs) == 1, "once for all"
    encoder.run_all()
    for client in (first, second, recorder(subscribers)):
        await settle()
        file = client.outbox.take_next()[0]
        assert isinstance(file, bytes)
        header, picture = detach(file)
        assert header is not None
        assert (header.seq, header.flags) == (1, FrameFlag.HELD)
        assert jpeg.decode(picture).shape == (32, 48, 3)
    assert await seen(browser) == []
    assert encoder.jobs == {}


async def test_a_recorder_gets_the_last_small_frame_that_was_on_its_way_when_it_came() -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(small(1))
    client = recorder(subscribers)
    subscribers.show_frame(small(2))
    encoder.run_all()
    assert await seen(client) == [("left", 2, True)]


@pytest.mark.parametrize("what", ["clear", "leave", "newer"])
async def test_a_frame_in_full_size_that_is_out_of_date_goes_to_nobody(what: str) -> None:
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


async def test_the_picture_on_screen_is_given_in_full_size() -> None:
    subscribers = Subscribers()
    subscribers.show_frame(small(1))
    whole = await subscribers.latest_frame("left")
    assert whole is not None
    assert jpeg.decode(detach(whole.data)[1]).shape == (32, 48, 3)
    assert sorted(whole.by_rung) == [0, 6]


async def test_a_picture_that_cannot_be_enlarged_is_given_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    encoder = HandEncoder()
    subscribers = Subscribers(latest_frames=LatestFrames(encoder))
    subscribers.show_frame(replace(small(1), pixels=np.zeros((0, 0, 3), np.uint8)))
    client = recorder(subscribers)
    encoder.run_all()
    assert await seen(client) == []
    given = await subscribers.latest_frame("left")
    assert given is not None
    assert given.rung == 6
    assert "could not be encoded in full size" in caplog.text


async def test_the_rungs_in_use_are_those_of_who_watches() -> None:
    subscribers = Subscribers()
    assert subscribers.rungs_in_use("left") == [0]
    first, second = viewer(subscribers), viewer(subscribers)
    subscribers.show_frame(frame(1))
    assert subscribers.rungs_in_use("left") == [0]
    second.outbox.track_senders["left"].ladder.rung = 4
    assert subscribers.rungs_in_use("left") == [0, 4]
    assert subscribers.rungs_in_use("right") == [0]
    subscribers.leave(first)
    assert subscribers.rungs_in_use("left") == [4]
    subscribers.set_view(second, View(tracks=("right",)))
    assert subscribers.rungs_in_use("left") == [0]
    second.outbox.track_senders["left"].ladder.rung = 3
    subscribers.set_view(second, View(paused=True))
    assert subscribers.rungs_in_use("left") == [0]
