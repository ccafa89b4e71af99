"""Blocks of a model whose steps take unequal times, played from a playout reserve."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.output.emitter import Emitter, StepTime
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.interface import Audio, Output, ReactorPipeline, Video
from reactor_runtime.ipc.messages import Credit
from tests.engine.rig import Bright, Picture, served_model
from tests.fakes import CollectingSink, FakeClock, settle

FRAMES, STEP_S, INTERVAL_S = 16, 2.0, 0.125
ENCODE_S = 0.004


class Measured(ReactorPipeline):
    state: Bright
    output: Picture


class Declared(ReactorPipeline):
    state: Bright
    output: Picture
    fps = 8


class Both(Output):
    video: Video
    audio: Audio


class Sounding(ReactorPipeline):
    state: Bright
    output: Both
    fps = 8


class Blocks:
    """A model of blocks on a fake clock, which starts each step when the emitter asks for it."""

    def __init__(self, model: type[ReactorPipeline] = Measured, frames: int = FRAMES) -> None:
        self.clock = FakeClock()
        self.sink = CollectingSink(self.clock)
        self.emitter = Emitter(served_model(model), self.clock, self.sink)
        self.session = ModelSession("s-1", ClientInfo("c", 0.0), self.clock, started_at_unix=1e9)
        self.emitter.open(self.session)
        self._model, self._frames = model, frames
        self._credits = 0
        # When each block was made, and when it was due.
        self.made: list[float] = []
        self.first: list[float] = []

    async def play(self, steps_s: Sequence[float]) -> None:
        for step_s in steps_s:
            while (at := self.emitter.step_at()) is None or at > self.clock.now():
                self._pass_until(self.clock.now() + 1.0 if at is None else at, credits=1 if at is None else None)
            self._pass_until(self.clock.now() + step_s)
            self.made.append(self.clock.now())
            shown = len(self.sink.shown)
            bundles = self.emitter.unpack(self._block())
            adaptive = self.emitter.pace.adaptive
            emitting = asyncio.create_task(self.emitter.emit_bundles(bundles, StepTime(step_s, adapts=adaptive)))
            await settle()
            while not emitting.done():
                self._pass_until(self.clock.now() + 1.0, credits=1)
                await settle()
            await emitting
            self.first.append(self.sink.shown[shown].bundle.due)

    def _block(self) -> object:
        video = np.zeros((self._frames, 2, 2, 3), np.uint8)
        if self._model is not Sounding:
            return video
        return Both(video=video, audio=np.zeros((2, self._frames * 6000), np.int16))

    def _pass_until(self, until: float, credits: int | None = None) -> None:
        """Pass time and return the credits of what is shown meanwhile, at most `credits`."""
        while self._credits < len(self.sink.shown) and credits != 0:
            bundle = self.sink.shown[self._credits].bundle
            if bundle.due > until:
                break
            self.clock.spend(max(0.0, bundle.due - self.clock.now()))
            self._credits += 1
            self.emitter.credit(Credit("s-1", bundle.number, bundle.handed_over + ENCODE_S))
            credits = None if credits is None else credits - 1
            if credits == 0:
                return
        self.clock.spend(max(0.0, until - self.clock.now()))

    @property
    def gaps(self) -> list[float]:
        """The gap before the first frame of each block but the first, in intervals of 125 ms."""
        dues = [shown.bundle.due for shown in self.sink.shown]
        return [(dues[n] - dues[n - 1]) / INTERVAL_S for n in range(self._frames, len(dues), self._frames)]

    @property
    def reserve_s(self) -> float:
        return self.sink.shown[-1].bundle.reserve_s


def uneven(spread: float, seed: int, count: int = 40) -> list[float]:
    chance = random.Random(seed)
    return [STEP_S * (1 + chance.uniform(-spread, spread)) for _ in range(count)]


@pytest.mark.parametrize(("spread", "longest"), [(0.2, 1.5), (0.4, 2.0)], ids=["20 %", "40 %"])
async def test_blocks_of_uneven_steps_play_evenly_after_the_third(spread: float, longest: float) -> None:
    gaps = []
    for seed in range(10):
        blocks = Blocks()
        await blocks.play(uneven(spread, seed, 30))
        gaps += blocks.gaps[2:]
        assert 0 < blocks.reserve_s <= STEP_S * (1 + spread)
    # The first three steps of a session may be alike by chance.
    assert sum(gap > longest for gap in gaps) <= 1


@pytest.mark.parametrize("model", [Measured, Declared, Sounding])
async def test_an_even_model_plays_each_block_as_soon_as_it_is_made(model: type[ReactorPipeline]) -> None:
    blocks = Blocks(model)
    await blocks.play([STEP_S] * 12)
    assert blocks.gaps == pytest.approx([1.0] * 11, abs=0.1)
    assert [due - made for due, made in zip(blocks.first, blocks.made, strict=True)] == pytest.approx(
        [0.0] * 12, abs=2 * ENCODE_S
    )
    assert {shown.bundle.reserve_s for shown in blocks.sink.shown} == {0.0}


async def test_a_late_block_of_an_even_model_plays_at_its_rate() -> None:
    blocks = Blocks()
    await blocks.play([*[2.0] * 4, 8.2, 2.0])
    lengths = [shown.bundle.interval_s for shown in blocks.sink.shown]
    assert lengths == pytest.approx([INTERVAL_S] * len(lengths))


async def test_a_block_plays_slower_while_too_little_is_in_reserve_and_at_most_by_a_fifth() -> None:
    blocks = Blocks(Declared)
    await blocks.play([2.0, 1.8, 2.2, 2.6, 2.6, 2.6])
    lengths = [shown.bundle.interval_s / INTERVAL_S for shown in blocks.sink.shown[-FRAMES:]]
    assert lengths == pytest.approx([lengths[0]] * FRAMES)
    assert 1.05 < lengths[0] <= 1.2


async def test_a_model_too_slow_for_its_declared_rate_gets_no_reserve() -> None:
    blocks = Blocks(Declared)
    await blocks.play([2.7, 3.1, 2.9, 2.8, 3.0])
    assert blocks.reserve_s == 0
    assert blocks.first == pytest.approx(blocks.made, abs=2 * ENCODE_S)


async def test_blocks_with_sound_are_never_stretched() -> None:
    blocks = Blocks(Sounding)
    await blocks.play(uneven(0.2, 1))
    assert {round(shown.bundle.interval_s, 9) for shown in blocks.sink.shown} == {INTERVAL_S}
    for shown in blocks.sink.shown:
        frame, sound = shown.bundle.pieces
        assert sound.at == pytest.approx(frame.at, abs=0.005)


async def test_a_late_block_with_sound_fills_the_reserve_in_the_same_gap() -> None:
    blocks = Blocks(Sounding)
    await blocks.play([2.0, 1.9, 2.1, 2.0, 2.0, 3.6])
    assert blocks.first[-1] - blocks.made[-1] == pytest.approx(blocks.reserve_s)


async def test_the_block_after_a_flush_is_shown_at_once() -> None:
    blocks = Blocks()
    await blocks.play(uneven(0.2, 2, 8))
    blocks.emitter.drop_queued()
    await blocks.play([2.0])
    assert blocks.first[-1] - blocks.made[-1] <= 2 * ENCODE_S
    # From here on the reserve is filled by playing slower, not by a gap.
    await blocks.play([2.0] * 8)
    assert max(blocks.gaps[-8:]) < 1.5
    waits = [due - made for due, made in zip(blocks.first, blocks.made, strict=True)][-8:]
    assert all(earlier < later + 1e-9 for earlier, later in pairwise(waits[:4]))


async def test_each_session_starts_without_a_reserve() -> None:
    blocks = Blocks()
    await blocks.play(uneven(0.2, 3, 6))
    blocks.emitter.close()
    blocks.emitter.open(blocks.session)
    blocks.sink.shown.clear()
    blocks._credits = 0
    await blocks.play([2.0])
    assert blocks.reserve_s == 0
