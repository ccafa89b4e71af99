from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reactor_runtime.media import jpeg
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.encoded import EncodedFrame
from reactor_runtime.server.screen import Screen
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach, detach
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, HandEncoder, settle
from tests.server.gallery import Gallery
from tests.server.house import drain, told


def frame(seq: int, track: str = "left") -> EncodedFrame:
    return EncodedFrame(track, seq, attach(MediaHeader(track, seq, 0, 0), b"\xff\xd8\xff\xd9"), 0.1)


def viewer(audience: Audience) -> Connection:
    connection = Connection(Role.VIEWER, "127.0.0.1", FakeClock())
    audience.join(connection)
    return connection


async def seen(connection: Connection) -> list[tuple[str, int, bool]]:
    """Take the frames that wait for a client: track, number, and whether it is an old one sent again."""
    headers = [detach(item)[0] for item in await drain(connection.outbox) if isinstance(item, bytes)]
    return [(header.track, header.seq, bool(header.flags & FrameFlag.HELD)) for header in headers if header]


async def test_a_newcomer_sees_the_newest_frame_of_each_track() -> None:
    audience = Audience()
    for each in (frame(1), frame(2), frame(5, "right")):
        audience.show(each)
    connection = viewer(audience)
    assert await seen(connection) == [("left", 2, True), ("right", 5, True)]
    audience.show(frame(3))
    assert await seen(connection) == [("left", 3, False)]


async def test_the_picture_on_screen_is_the_newest_of_its_track() -> None:
    audience = Audience()
    assert await audience.on_screen("left") is None
    audience.show(frame(1))
    audience.show(frame(2))
    assert await audience.on_screen("left") == frame(2).as_held()
    assert await audience.on_screen("right") is None
    audience.clear_screen()
    assert await audience.on_screen("left") is None


async def test_who_has_left_sees_and_hears_nothing() -> None:
    audience = Audience()
    connection = viewer(audience)
    audience.leave(connection)
    audience.leave(connection)
    audience.show(frame(1))
    audience.tell("progress", {})
    assert connection not in audience
    assert await told(connection) == []
    assert await seen(connection) == []


@pytest.mark.parametrize("away", [View(paused=True), View(tracks=("right",))], ids=["paused", "other track"])
async def test_who_looks_again_sees_what_it_missed_at_once(away: View) -> None:
    audience = Audience()
    connection = viewer(audience)
    audience.show(frame(1))
    await seen(connection)
    audience.look(connection, away)
    audience.show(frame(2))
    assert await seen(connection) == []
    audience.look(connection, View())
    assert await seen(connection) == [("left", 2, True)]


async def test_who_only_asks_for_another_rate_is_sent_nothing_twice() -> None:
    audience = Audience()
    connection = viewer(audience)
    audience.show(frame(1))
    await seen(connection)
    audience.look(connection, View(max_fps=15))
    assert await seen(connection) == []


async def test_who_looks_again_before_its_turn_has_come_sees_a_frame_once() -> None:
    gallery = Gallery()
    audience = Audience(gallery.fanout)
    crowd = [gallery.seat() for _ in range(9)]
    audience.show(frame(1))
    last = crowd[-1]
    last.outbox.news = lambda: None
    audience.look(last, View(paused=True))
    audience.look(last, View())
    gallery.finish()
    assert await seen(last) == [("left", 1, True)]


async def test_who_joins_before_the_crowd_has_had_its_turns_sees_a_frame_once() -> None:
    gallery = Gallery()
    audience = Audience(gallery.fanout)
    for _ in range(9):
        gallery.seat()
    audience.show(frame(1))
    newcomer = viewer(audience)
    gallery.finish()
    assert await seen(newcomer) == [("left", 1, True)]


async def test_a_cleared_screen_is_cleared_for_those_whose_turn_has_not_come() -> None:
    gallery = Gallery()
    audience = Audience(gallery.fanout)
    crowd = [gallery.seat() for _ in range(9)]
    audience.show(frame(1))
    audience.tell("progress", {})
    audience.clear_screen()
    gallery.finish()
    assert gallery.taken[crowd[-1]] == ['{"type":"progress","data":{}}']


async def test_who_waits_in_line_sees_nothing_by_looking() -> None:
    audience = Audience()
    audience.show(frame(1))
    waiting = Connection(Role.CONTROLLER, "127.0.0.1", FakeClock())
    audience.look(waiting, View(paused=True))
    audience.look(waiting, View())
    assert await seen(waiting) == []


async def test_who_understands_frames_alone_is_told_nothing_and_never_given_up_for_it() -> None:
    audience = Audience()
    connection = Connection(Role.VIEWER, "127.0.0.1", FakeClock(), only=View(tracks=("right",)))
    audience.join(connection)
    for number in range(2000):
        audience.tell("progress", {"step": number})
    connection.tell("reactor.stats", {})
    for each in (frame(1), frame(5, "right")):
        audience.show(each)
    assert await seen(connection) == [("right", 5, False)]
    assert connection.closing is None
    assert await told(connection) == []


def small(seq: int) -> EncodedFrame:
    """Make a frame that everybody sees in a quarter of its size."""
    return replace(frame(seq), rung=6, pixels=np.full((32, 48, 3), 50 + seq, np.uint8))


def recorder(audience: Audience) -> Connection:
    only = View(tracks=("left",))
    connection = Connection(Role.VIEWER, "127.0.0.1", FakeClock(), only=only, keeps_first_size=True)
    audience.join(connection)
    return connection


@pytest.mark.parametrize("rung", [0, 2])
async def test_a_recorder_is_sent_what_there_is_in_full_size_as_it_is(rung: int) -> None:
    audience = Audience()
    audience.show(replace(frame(1), rung=rung))
    connection = recorder(audience)
    assert await seen(connection) == [("left", 1, True)]
    audience.show(replace(frame(2), rung=rung))
    assert await seen(connection) == [("left", 2, False)]


async def test_a_recorder_gets_the_held_frame_in_full_size_and_a_browser_at_once_as_it_is() -> None:
    encoder = HandEncoder()
    audience = Audience(screen=Screen(encoder))
    audience.show(small(1))
    browser = Connection(Role.VIEWER, "127.0.0.1", FakeClock(), only=View(tracks=("left",)))
    audience.join(browser)
    assert await seen(browser) == [("left", 1, True)]
    first, second = recorder(audience), recorder(audience)
    assert await seen(first) == []
    assert len(encoder.jobs) == 1, "once for all"
    encoder.run_all()
    for connection in (first, second, recorder(audience)):
        await settle()
        file = connection.outbox.take()[0]
        assert isinstance(file, bytes)
        header, picture = detach(file)
        assert header is not None
        assert (header.seq, header.flags) == (1, FrameFlag.HELD)
        assert jpeg.decode(picture).shape == (32, 48, 3)
    assert await seen(browser) == []
    assert encoder.jobs == {}


async def test_a_recorder_gets_the_last_small_frame_that_was_on_its_way_when_it_came() -> None:
    encoder = HandEncoder()
    audience = Audience(screen=Screen(encoder))
    audience.show(small(1))
    connection = recorder(audience)
    audience.show(small(2))
    encoder.run_all()
    assert await seen(connection) == [("left", 2, True)]


@pytest.mark.parametrize("what", ["clear", "leave", "newer"])
async def test_a_frame_in_full_size_that_is_out_of_date_goes_to_nobody(what: str) -> None:
    encoder = HandEncoder()
    audience = Audience(screen=Screen(encoder))
    audience.show(small(1))
    connection = recorder(audience)
    match what:
        case "clear":
            audience.clear_screen()
        case "leave":
            audience.leave(connection)
        case "newer":
            audience.show(frame(2))
    encoder.run_all()
    assert await seen(connection) == ([("left", 2, False)] if what == "newer" else [])


async def test_the_picture_on_screen_is_given_in_full_size() -> None:
    audience = Audience()
    audience.show(small(1))
    whole = await audience.on_screen("left")
    assert whole is not None
    assert jpeg.decode(detach(whole.data)[1]).shape == (32, 48, 3)
    assert sorted(whole.by_rung) == [0, 6]


async def test_a_picture_that_cannot_be_enlarged_is_given_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    encoder = HandEncoder()
    audience = Audience(screen=Screen(encoder))
    audience.show(replace(small(1), pixels=np.zeros((0, 0, 3), np.uint8)))
    connection = recorder(audience)
    encoder.run_all()
    assert await seen(connection) == []
    given = await audience.on_screen("left")
    assert given is not None
    assert given.rung == 6
    assert "could not be encoded in full size" in caplog.text


async def test_the_rungs_in_use_are_those_of_who_watches() -> None:
    audience = Audience()
    assert audience.rungs("left") == [0]
    first, second = viewer(audience), viewer(audience)
    audience.show(frame(1))
    assert audience.rungs("left") == [0]
    second.outbox.ways["left"].ladder.rung = 4
    assert audience.rungs("left") == [0, 4]
    assert audience.rungs("right") == [0]
    audience.leave(first)
    assert audience.rungs("left") == [4]
    audience.look(second, View(tracks=("right",)))
    assert audience.rungs("left") == [0]
    second.outbox.ways["left"].ladder.rung = 3
    audience.look(second, View(paused=True))
    assert audience.rungs("left") == [0]
