"""Several tracks at once, pictures and sound, over real sockets."""

from __future__ import annotations

import itertools
from typing import TypeVar

import pytest

from tests.server.client import Frame, Sound, WireClient, client, controlling
from tests.server.running import RunningServer

K = TypeVar("K", Frame, Sound)

# Frame n of the left track is as bright as 10 n, that of the right one 5 n, and each sample of its sound says n.
MODEL = """
class Three(Output):
    left: Video
    right: Video
    voice: Audio


class Pair(Output):
    left: Video
    right: Video


class MyState(InputState):
    mode: str = InputField(default="quiet", choices=["batches", "single", "beside", "silent", "quiet"])


def left(*numbers):
    return np.stack([gray(10 * (n % 24)) for n in numbers])


def right(*numbers):
    return np.stack([gray(5 * (n % 24), 24, 40) for n in numbers])


def voice(*numbers):
    return np.stack([np.repeat(np.int16(numbers), 1600), np.repeat(-np.int16(numbers), 1600)])


class MyModel(ReactorPipeline):
    state: MyState
    output: Three | Pair
    fps = 30
    buffer_size = 8

    @event(name="cut")
    def cut(self):
        self.output_buffer.flush()
        self.state.mode = "quiet"

    def inference(self):
        n = 0
        while True:
            ahead = range(n, n + 4)
            match self.state.mode:
                case "batches":
                    yield Three(left=left(*ahead), right=right(*ahead), voice=voice(*ahead))
                    n += 4
                case "single":
                    yield Three(left=left(n)[0], right=right(n)[0], voice=voice(n))
                    n += 1
                case "beside":
                    yield Three(left=left(*ahead), right=right(n)[0], voice=voice(*ahead))
                    n += 4
                case "silent":
                    yield Pair(left=left(n)[0], right=right(*[n] * 1))
                    n += 1
                case _:
                    yield Idle
"""

SIZES = {"left": (48, 32), "right": (40, 24)}


async def collect(visitor: WireClient, count: int) -> list[Frame | Sound]:
    return [await visitor.media() for _ in range(count)]


async def black_frames(visitor: WireClient) -> dict[str, Frame]:
    """Return the black frame of each track that follows a flush."""
    black: dict[str, Frame] = {}
    while black.keys() != {"left", "right"}:
        item = await visitor.media()
        if item.header.flags & 1 and item.header.seq:
            assert isinstance(item, Frame)
            black[item.header.track] = item
    return black


def of(kind: type[K], media: list[Frame | Sound], track: str) -> list[K]:
    return [item for item in media if isinstance(item, kind) and item.header.track == track]


def said(sound: Sound) -> int:
    """Return the number that every sample of a piece says, the right channel with a minus."""
    numbers = {int.from_bytes(sound.pcm[at : at + 2], "little", signed=True) for at in range(0, len(sound.pcm), 4)}
    (number,) = numbers
    assert int.from_bytes(sound.pcm[2:4], "little", signed=True) == -number
    return number


def check_sound(sounds: list[Sound]) -> None:
    """See that each piece begins where the one before it ends, or later by a real delay."""
    for piece, following in itertools.pairwise(sounds):
        gap_us = following.header.pts_us - piece.header.pts_us - 1e6 * piece.samples / 48_000
        assert abs(gap_us) < 1.01 or gap_us > 15_000  # a busy machine may be late, and by less nobody may be


@pytest.mark.parametrize("mode", ["batches", "single", "beside"])
async def test_two_pictures_and_their_sound_come_together(server: RunningServer, mode: str) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": mode})
        media = await visitor.unbroken(30)
    server.wait_for_health("ready")
    sounds = of(Sound, media, "voice")
    number_at = {sound.header.pts_us: said(sound) for sound in sounds}
    assert {(sound.channels, sound.samples, sound.sample_rate) for sound in sounds} == {(2, 1600, 48_000)}
    for track, scale in (("left", 10), ("right", 5)):
        for frame in of(Frame, media[3:-3], track):
            at = frame.header.pts_us
            if not sounds[0].header.pts_us - 1 <= at <= sounds[-1].header.pts_us + 1:
                continue  # its sound came before the mode was set, or is yet to come
            assert frame.size == SIZES[track]
            # One microsecond is the rounding of a timestamp.
            (number,) = (number_at[near] for near in (at - 1, at, at + 1) if near in number_at)
            shown = number - number % 4 if (mode, track) == ("beside", "right") else number
            assert frame.level == pytest.approx(scale * (shown % 24), abs=4)
    check_sound(sounds)


async def test_sound_is_neither_lost_nor_doubled(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": "batches"})
        sounds = of(Sound, await visitor.unbroken(30), "voice")
    server.wait_for_health("ready")
    assert [said(sound) for sound in sounds] == [sound.header.seq for sound in sounds]


async def test_two_pictures_without_sound_in_one_model_with_sound(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": "silent"})
        media = await collect(visitor, 30)
    server.wait_for_health("ready")
    assert {item.header.track for item in media} == {"left", "right"}


async def test_a_flush_blackens_both_pictures_and_cuts_the_sound(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": "batches"})
        await collect(visitor, 30)
        await visitor.send("cut", id="cut")
        black = await black_frames(visitor)
        assert {track: frame.size for track, frame in black.items()} == SIZES
        assert all(frame.level < 4 for frame in black.values())
        await visitor.send("set_mode", {"mode": "single"})
        media = await collect(visitor, 12)
    server.wait_for_health("ready")
    first, *others = of(Sound, media, "voice")
    assert first.header.flags & 1
    assert first.header.pts_us > black["left"].header.pts_us
    assert not any(sound.header.flags for sound in others)


async def test_who_joins_late_sees_both_pictures_and_hears_what_comes(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": "single"})
        await collect(visitor, 12)
        await visitor.ask("set_mode", {"mode": "quiet"})
        await visitor.send("cut")
        # The viewer joins when nothing is queued.
        await black_frames(visitor)
        async with client(server.url, role="viewer") as viewer:
            held = {item.header.track: item for item in await collect(viewer, 2)}
            assert held.keys() == {"left", "right"}
            assert all(frame.header.flags & 2 for frame in held.values())
            await visitor.send("set_mode", {"mode": "single"})
            heard = of(Sound, await viewer.unbroken(4, from_start=False), "voice")
    server.wait_for_health("ready")
    assert heard[0].header.pts_us > held["left"].header.pts_us


async def test_a_client_that_stops_acknowledging_skips_frames_and_no_sound(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("set_mode", {"mode": "batches"})
        for track in SIZES:
            frame = await visitor.frame(track=track)
            await visitor.send("reactor.ack", {"track": track, "seq": frame.header.seq})
        # The server has both from here on, and sends a frame of each every two seconds at most.
        await visitor.send("reactor.ping", {"t": 1})
        await visitor.data("reactor.pong", t=1)
        media = await visitor.unbroken(60, from_start=False)
    server.wait_for_health("ready")
    check_sound(of(Sound, media, "voice"))
    for track in SIZES:
        assert len(of(Frame, media, track)) < 20
