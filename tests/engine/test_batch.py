"""`batch()`: one generator makes the steps of all sessions that share a loaded model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.interface import Idle, InputState, ReactorPipeline, event
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.testing import PipelineExecutor
from tests.engine.rig import Picture
from tests.engine.test_shared_model import Sharing, gaps, pixel
from tests.fakes import FakeClock


class Level(InputState):
    level: int = 0


class Speech(InputState):
    frames: int = 0


class Batched(ReactorPipeline):
    """Paints red: the session's level; green: how many sessions were in the batch; blue: the session's own steps."""

    state: Level
    output: Picture
    fps = 20
    sessions_per_model = 4
    clock: FakeClock | None = None
    count = 0
    fails = False
    gives_one = False

    def load(self, config: dict[str, Any]) -> None:
        self.sizes: list[int] = []
        self.step_s = config.get("step_s", 0.010)
        self.frames = config.get("frames", 0)

    @event(name="fail")
    def fail(self) -> None:
        self.fails = True

    def batch(self, sessions: list[Batched]) -> Iterator[Any]:
        while True:
            self.sizes.append(len(sessions))
            if self.clock is not None:
                self.clock.spend(self.step_s)
            outputs = []
            for each in sessions:
                if each.fails:
                    raise ValueError("in the batch")
                each.count += 1
                values = each.state.level, len(sessions), each.count % 256
                frame = np.array([[values] * 2] * 2, np.uint8)
                outputs.append(Picture(video=np.stack([frame] * self.frames) if self.frames else frame))
            yield outputs


async def test_sessions_of_one_rate_are_made_in_one_batch_at_their_rate(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 4, tmp_path)
    for slot in range(4):
        await sharing.begin(slot)
        sharing.event(slot, "set_level", level=10 * slot)
        await sharing.play(0.013)
    await sharing.play(1.0)
    since, before = sharing.clock.now(), len(sharing.host.served.model.sizes)  # type: ignore[attr-defined]
    await sharing.play(5.0)
    sizes = sharing.host.served.model.sizes[before:]  # type: ignore[attr-defined]
    assert sizes.count(4) >= 0.95 * len(sizes)
    # Four steps of 10 ms, one after the other, would be 40 of 50 ms.
    assert len(sizes) < 5 * 20 * 1.1
    for slot, sink in enumerate(sharing.sinks):
        assert len(gaps(sink, since)) == pytest.approx(5 * 20, abs=3)
        assert pixel(sink, -1)[:2] == (10 * slot, 4)
        counts = [pixel(sink, index)[2] for index in range(len(sink.shown))]
        assert counts == [number % 256 for number in range(1, len(counts) + 1)]
    await sharing.stop()


async def test_a_batch_that_takes_as_long_for_more_sessions_has_room_for_them(tmp_path: Path) -> None:
    # Each alone would need 70 % of the time.
    sharing = await Sharing.start(Batched, 4, tmp_path, step_s=0.035)
    fitting = []
    for slot in range(4):
        await sharing.begin(slot)
        await sharing.play(3.0)
        fitting.append(sharing.sinks[0].of(ipc.Capacity)[-1].sessions)
    assert fitting == [2, 3, 4, 4]
    # A stall makes all late.
    sharing.clock.spend(0.3)
    await sharing.play(1.0)
    sizes = sharing.host.served.model.sizes  # type: ignore[attr-defined]
    await sharing.play(2.0)
    assert sizes[-40:].count(4) >= 36
    await sharing.stop()


async def test_sessions_that_begin_within_a_block_of_the_others_have_the_same_batches(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 3, tmp_path, step_s=0.12, frames=4)
    for slot in range(3):
        await sharing.begin(slot)
        await sharing.play(1.07)
    await sharing.play(1.0)
    sizes = sharing.host.served.model.sizes  # type: ignore[attr-defined]
    await sharing.play(4.0)
    # Of 200 ms: two batches would not fit.
    assert sizes[-20:].count(3) >= 18
    await sharing.stop()


class Speaking(Batched):
    """Makes a block of the frames that an event asks for, and nothing until then."""

    state: Speech  # type: ignore[assignment]

    def batch(self, sessions: list[Speaking]) -> Iterator[Any]:  # type: ignore[override]
        while True:
            outputs: list[Any] = []
            for each in sessions:
                frames, each.state.frames = each.state.frames, 0
                outputs.append(Picture(video=np.zeros((frames, 2, 2, 3), np.uint8)) if frames else Idle)
            yield outputs


async def asked_s(sharing: Sharing, slot: int) -> float:
    """Return the seconds from now until the next frame of a session that is asked for a block."""
    since, before = sharing.clock.now(), len(sharing.sinks[slot].shown)
    sharing.event(slot, "set_frames", frames=20)
    await sharing.play(0.2)
    return sharing.sinks[slot].shown[before].bundle.due - since


async def test_a_session_that_answers_an_event_waits_for_no_block_of_another(tmp_path: Path) -> None:
    sharing = await Sharing.start(Speaking, 3, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(1.0)
    sharing.event(0, "set_frames", frames=80)
    await sharing.play(0.2)
    assert await asked_s(sharing, 1) < 0.1
    await sharing.stop()


async def test_a_new_session_waits_for_no_block_of_a_session_that_has_ended(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path, frames=80)
    await sharing.begin(0)
    await sharing.play(0.2)
    await sharing.end(0)
    await sharing.begin(1)
    await sharing.play(0.2)
    assert sharing.sinks[1].shown
    await sharing.stop()


async def test_a_new_session_waits_for_no_block_of_a_stepped_one(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path, frames=80)
    await sharing.begin(0, stepped=True)
    sharing.step(0, level=1)
    await sharing.play(0.2)
    await sharing.begin(1)
    await sharing.play(0.2)
    assert sharing.sinks[1].shown
    await sharing.stop()


class Blocks(Batched):
    """Makes blocks of as many frames as the level of a session, and single frames at level 0."""

    def batch(self, sessions: list[Blocks]) -> Iterator[Any]:  # type: ignore[override]
        while True:
            yield [Picture(video=np.zeros((max(1, each.state.level), 2, 2, 3), np.uint8)) for each in sessions]


async def test_a_session_of_single_frames_that_was_paused_waits_for_no_block(tmp_path: Path) -> None:
    sharing = await Sharing.start(Blocks, 2, tmp_path)
    await sharing.begin(0, 1)
    sharing.event(1, "set_level", level=80)
    await sharing.play(5.0)
    since = sharing.clock.now()
    # Some of the pauses lie over the beginning of a block.
    for _ in range(15):
        sharing.send(0, ipc.Pause("s-0", True))
        await sharing.play(0.3)
        sharing.send(0, ipc.Pause("s-0", False))
        await sharing.play(0.25)
    assert max(gaps(sharing.sinks[0], since)) < 0.5
    await sharing.stop()


class Quiet(Batched):
    """Makes frames at level 1 alone."""

    sessions_per_model = 8

    def batch(self, sessions: list[Quiet]) -> Iterator[Any]:  # type: ignore[override]
        assert self.clock is not None
        while True:
            self.clock.spend(self.step_s)
            yield [Picture(video=np.zeros((2, 2, 3), np.uint8)) if each.state.level else Idle for each in sessions]


async def test_sessions_without_frames_are_none_of_a_batch(tmp_path: Path) -> None:
    sharing = await Sharing.start(Quiet, 8, tmp_path, step_s=0.04)
    await sharing.begin(0, 1, 2)
    sharing.event(0, "set_level", level=1)
    await sharing.play(10.0)
    # It plays with another one, and two wait.
    assert sharing.sinks[0].of(ipc.Capacity)[-1].sessions == 2 + 2
    await sharing.stop()


async def step_in_turn(sharing: Sharing, *slots: int) -> None:
    """Request a step of each session, one request after the other, as they come from one client."""
    for slot in slots:
        sharing.step(slot, level=10 * slot)
        await sharing.play(0.0004, grain_s=0.0002)
    # The frames are shown at 20 fps, and those that are not yet hold the steps up.
    await sharing.play(0.050, grain_s=0.005)


async def test_stepped_sessions_whose_requests_follow_each_other_are_made_in_one_batch(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 4, tmp_path)
    await sharing.begin(0, 1, 2, stepped=True)
    await sharing.begin(3)
    await sharing.end(3)
    for _ in range(20):
        await step_in_turn(sharing, 0, 1, 2)
    sizes = sharing.host.served.model.sizes  # type: ignore[attr-defined]
    assert sizes[-15:] == [3] * 15
    for slot, sink in enumerate(sharing.sinks[:3]):
        assert [pixel(sink, index)[0] for index in range(20)] == [10 * slot] * 20
        assert [pixel(sink, index)[2] for index in range(20)] == list(range(1, 21))
    await sharing.stop()


async def test_a_stepped_session_waits_once_for_one_that_requests_no_more(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path)
    await sharing.begin(0, 1, stepped=True)
    for _ in range(5):
        await step_in_turn(sharing, 0, 1)
    waits_s = []
    for _ in range(3):
        before = sharing.clock.now()
        sharing.step(0)
        await sharing.play(0.010, grain_s=0.0005)
        waits_s.append(sharing.sinks[0].shown[-1].at - before - 0.010)
    # A quarter of the last step of 10 ms.
    assert waits_s == [pytest.approx(0.0025, abs=0.001), pytest.approx(0, abs=0.001), pytest.approx(0, abs=0.001)]
    await sharing.stop()


async def test_a_stepped_session_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path)
    await sharing.begin(0, 1, stepped=True)
    for _ in range(5):
        await step_in_turn(sharing, 0, 1)
    sharing.step(0)
    await sharing.play(0.0002, grain_s=0.0002)
    await sharing.end(1)
    await sharing.play(0.0002, grain_s=0.0002)
    assert len(sharing.sinks[0].of(ipc.Stepped)) == 6
    await sharing.stop()


async def test_paced_and_stepped_sessions_have_the_same_batches(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path)
    await sharing.begin(0)
    await sharing.begin(1, stepped=True)
    sharing.step(1, 15)
    await sharing.play(1.0)
    assert [pixel(sharing.sinks[1], index)[2] for index in range(15)] == list(range(1, 16))
    due = [shown for shown in sharing.sinks[0].shown if shown.bundle.due <= sharing.clock.now()]
    assert len(due) == pytest.approx(20, abs=2)
    await sharing.stop()


async def test_a_session_that_ends_leaves_the_others_their_batches(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 3, tmp_path)
    await sharing.begin(0, 1, 2)
    await sharing.play(0.5)
    await sharing.end(1)
    await sharing.play(0.5)
    assert pixel(sharing.sinks[0], -1)[1] == 2
    await sharing.begin(1, session="t")
    await sharing.play(0.5)
    assert pixel(sharing.sinks[0], -1)[1] == 3
    await sharing.stop()


async def test_an_exception_ends_the_sessions_of_the_batch_and_the_next_ones_are_served(tmp_path: Path) -> None:
    sharing = await Sharing.start(Batched, 2, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(0.3)
    sharing.event(1, "fail")
    await sharing.play(0.3)
    for sink in sharing.sinks:
        (ended,) = sink.of(ipc.Ended)
        assert ended.error is not None
        assert "in the batch" in ended.error["message"]
    await sharing.begin(0, session="t")
    await sharing.play(0.3)
    assert sharing.sinks[0].shown[-1].bundle.session == "t-0"
    await sharing.stop()


class TooFew(Batched):
    def batch(self, sessions: list[Batched]) -> Iterator[Any]:
        while True:
            yield [Picture(video=np.zeros((2, 2, 3), np.uint8))] * (len(sessions) - 1)


async def test_a_batch_without_an_output_for_each_session_is_refused(tmp_path: Path) -> None:
    sharing = await Sharing.start(TooFew, 2, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(0.2)
    (ended,) = sharing.sinks[0].of(ipc.Ended)
    assert ended.error is not None
    assert "a list with an output for each of the 2 sessions, not 1 of them" in ended.error["message"]
    await sharing.stop()


class Ending(Batched):
    def batch(self, sessions: list[Batched]) -> Iterator[Any]:
        for self.count in range(3):
            yield [Picture(video=np.full((2, 2, 3), self.count, np.uint8)) for _ in sessions]


async def test_a_batch_that_ends_starts_again(tmp_path: Path) -> None:
    sharing = await Sharing.start(Ending, 2, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(1.0)
    for sink in sharing.sinks:
        assert [pixel(sink, index)[0] for index in range(7)] == [0, 1, 2, 0, 1, 2, 0]
        assert not sink.of(ipc.Ended)
    await sharing.stop()


def test_offline_a_session_is_a_batch_of_one() -> None:
    with PipelineExecutor(Batched) as executor:
        executor.connect()
        executor.send_event("set_level", level=7)
        executor.run(0.2)
        shown: Any = executor.frames[-1].array
        assert list(shown[0, 0, :2]) == [7, 1]


class Otherwise(ReactorPipeline):
    """Has a method of this name that is none of ours."""

    state: Level
    output: Picture

    def batch(self, size: int) -> Iterator[int]:
        yield from range(size)

    def inference(self) -> Iterator[Any]:
        yield Picture(video=np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize(("kind", "method"), [(Batched, "batch"), (Otherwise, "inference")])
def test_a_generator_over_sessions_replaces_inference(kind: type, method: str) -> None:
    assert Contract.of(kind).style.frames_method == method
