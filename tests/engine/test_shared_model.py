"""Several sessions on one loaded model, on a clock that is moved by hand: nothing of one is seen by another."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import MOST_SESSIONS, Model
from reactor_runtime.engine.author import call_load, check_copy
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.errors import LoadError
from reactor_runtime.interface import (
    Input,
    InputState,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    event,
)
from reactor_runtime.ipc import credits
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.options.run_options import MOST_SESSIONS as MOST_SESSIONS_OPTION
from reactor_runtime.testing import PipelineExecutor
from tests.engine.rig import ENCODE_S, Picture, frame
from tests.fakes import CollectingSink, FakeClock, settle
from tests.timeouts import TIMEOUT_S


@dataclass
class Sharing:
    """A model that is loaded once for some sessions, each of which has a sink; bundles are shown when they are due."""

    host: Host
    clock: FakeClock
    sinks: list[CollectingSink]
    serving: asyncio.Task[None]
    played: list[int] = field(default_factory=list)

    @classmethod
    async def start(cls, kind: type[Model], sessions: int, project: Path, **config: Any) -> Sharing:
        clock = FakeClock()
        sinks = [CollectingSink(clock) for _ in range(sessions)]
        contract = Contract.of(kind)
        model: Any = contract.style.make(kind, config)
        model.clock = clock
        outlets = [Outlet(sink=sink) for sink in sinks]
        served = ServedModel(Version(model, contract, config))
        host = Host(served, outlets, HostParts(clock=clock, project=project), ends_at_crash=True)
        call_load(model, config, project)
        host.serve_loaded()
        warming = asyncio.create_task(host.warm_up())
        while not warming.done():
            await clock.advance(0.02)
        warming.result()
        sharing = cls(host, clock, sinks, asyncio.create_task(host.serve()), [0] * sessions)
        await settle()
        return sharing

    def send(self, slot: int, message: ipc.Message | CheckedEvent) -> None:
        self.host.slots[slot].receive_message(message)

    async def begin(self, *slots: int, session: str = "s", stepped: bool = False) -> None:
        for slot in slots:
            self.send(slot, ipc.StartSession(f"{session}-{slot}", f"c-{slot}", 0.0, stepped=stepped))
        await settle()

    def step(
        self, slot: int, n: int = 1, *, seed: int | None = None, commands: Sequence[Any] = (), **state: Any
    ) -> None:
        data = json.dumps({"state": state, "commands": commands})
        self.send(slot, ipc.StepRequest(f"s-{slot}", f"c-{slot}", 1, n, data, seed is not None, seed))

    async def end(self, slot: int, *, session: str = "s") -> None:
        self.send(slot, ipc.StopSession(f"{session}-{slot}"))
        await settle()

    def event(self, slot: int, name: str, *, session: str = "s", **data: Any) -> None:
        sent = ipc.ClientEvent(f"{session}-{slot}", f"c-{slot}", 1, name, json.dumps(data), self.clock.now())
        checked = check_event(self.host.served.contract.events, sent)
        assert isinstance(checked, CheckedEvent), checked
        self.send(slot, checked)

    async def play(self, seconds: float, *, grain_s: float = 0.002) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end - 1e-9:
            await self.clock.advance(grain_s)
            for slot, sink in enumerate(self.sinks):
                while (
                    self.played[slot] < len(sink.shown) and sink.shown[self.played[slot]].bundle.due <= self.clock.now()
                ):
                    bundle = sink.shown[self.played[slot]].bundle
                    self.played[slot] += 1
                    self.send(slot, ipc.Credit(bundle.session, bundle.number, self.clock.now() + ENCODE_S))

    async def stop(self) -> None:
        self.host.receive_message(ipc.Shutdown())
        for _ in range(100):
            await self.clock.advance(0.02)
        await asyncio.wait_for(self.serving, TIMEOUT_S)


class Level(InputState):
    level: int = 0


class Painter(ReactorPipeline):
    """Paints red: the session's level; keeps what it counts in all the places that an author may use."""

    state: Level
    output: Picture
    fps = 50
    loads = 0

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        type(self).loads += 1
        self.weights = np.arange(256, dtype=np.uint8)
        self.total = 0
        self.infer = self.paint

    def paint(self) -> NDArray[np.uint8]:
        return np.array([[[self.weights[self.state.level], self.total % 256, self.steps % 256]] * 2] * 2, np.uint8)

    @event(name="add")
    def add(self, by: int) -> None:
        self.total += by

    def inference(self) -> Iterator[Any]:
        for self.steps in itertools.count():
            yield self.infer()


def pixel(sink: CollectingSink, index: int) -> tuple[int, ...]:
    payload: Any = sink.shown[index].bundle.pieces[0].payload
    return tuple(int(value) for value in payload[0, 0])


async def test_10_000_frames_show_what_their_own_session_was_sent(tmp_path: Path) -> None:
    Painter.loads = 0
    sharing = await Sharing.start(Painter, 8, tmp_path)
    await sharing.begin(*range(8))
    levels, totals = [0] * 8, [0] * 8
    chance = random.Random(29)
    checked = 0
    while checked < 10_000:
        for slot in range(8):
            levels[slot] = chance.randrange(256)
            sharing.event(slot, "set_level", level=levels[slot])
            by = chance.randrange(100)
            totals[slot] += by
            sharing.event(slot, "add", by=by)
        await sharing.play(0.2, grain_s=0.02)
        starts = [len(sink.shown) for sink in sharing.sinks]
        await sharing.play(2.0, grain_s=0.02)
        for slot, sink in enumerate(sharing.sinks):
            for index in range(starts[slot], len(sink.shown)):
                assert pixel(sink, index) == (levels[slot], totals[slot] % 256, index % 256)
                checked += 1
    assert Painter.loads == 1
    await sharing.stop()


class Seated(Painter):
    seats: Any = 1

    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.seats = 2


async def test_each_session_has_the_number_of_seats_that_load_has_set(tmp_path: Path) -> None:
    sharing = await Sharing.start(Seated, 2, tmp_path)
    await sharing.begin(0, 1)
    models: list[Any] = [slot.served.model for slot in sharing.host.slots]
    assert [len(model.seats) for model in models] == [2, 2]
    assert models[0].seats[0] is not models[1].seats[0]
    await sharing.stop()


async def test_a_session_finds_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    sharing = await Sharing.start(Painter, 2, tmp_path)
    await sharing.begin(0)
    sharing.event(0, "add", by=7)
    await sharing.play(0.1)
    assert pixel(sharing.sinks[0], -2)[1] == 7
    await sharing.end(0)
    shown = len(sharing.sinks[0].shown)
    await sharing.begin(0, session="t")
    await sharing.play(0.1)
    assert pixel(sharing.sinks[0], shown) == (0, 0, 0)
    assert not hasattr(sharing.host.served.model, "steps")
    await sharing.stop()


class Free(ReactorPipeline):
    """Takes as long for a step as its session says, and has no rate of its own."""

    state: Level
    output: Picture
    clock: FakeClock

    def inference(self) -> Iterator[Any]:
        while True:
            self.clock.spend(self.state.level / 1000)
            yield frame(1)


class Slow(Free):
    fps = 20


def gaps(sink: CollectingSink, since: float) -> list[float]:
    times = [shown.at for shown in sink.shown if shown.at > since]
    return [after - before for before, after in itertools.pairwise(times)]


async def test_a_session_that_takes_five_times_as_long_costs_the_others_one_such_step_at_most(tmp_path: Path) -> None:
    sharing = await Sharing.start(Slow, 4, tmp_path)
    await sharing.begin(0, 1, 2, 3)
    for slot, step_ms in enumerate((250, 5, 5, 5)):
        sharing.event(slot, "set_level", level=step_ms)
    await sharing.play(1.0)
    since = sharing.clock.now()
    await sharing.play(10.0)
    for sink in sharing.sinks[1:]:
        # A frame, the step of the late session, and one of each other session.
        assert max(gaps(sink, since)) <= 0.050 + 0.250 + 3 * 0.005
        assert len(gaps(sink, since)) > 10 / (0.250 + 0.015) - 2
    assert len(gaps(sharing.sinks[0], since)) > 10 / (0.250 + 3 * 0.050) - 2
    await sharing.stop()


class Disturbed(ReactorPipeline):
    """Call `during` in the steps of a session with a level."""

    state: Level
    output: Picture
    during: Any = None

    def inference(self) -> Iterator[Any]:
        while True:
            if self.state.level:
                self.during()
            yield frame(1)


async def test_a_session_that_stops_or_pauses_while_it_waits_for_its_turn_makes_no_step(tmp_path: Path) -> None:
    sharing = await Sharing.start(Disturbed, 3, tmp_path)

    def during() -> None:
        sharing.send(1, ipc.Pause("s-1", True))
        sharing.send(2, ipc.StopSession("s-2"))

    await sharing.begin(0, 1, 2, stepped=True)
    model: Any = sharing.host.slots[0].served.model
    model.during = during
    sharing.step(0, level=1)
    sharing.step(1)
    sharing.step(2)
    await sharing.play(0.5)
    assert [len(sink.shown) for sink in sharing.sinks] == [1, 0, 0]
    sharing.send(1, ipc.Pause("s-1", False))
    sharing.step(1)
    await sharing.play(0.5)
    assert [len(sink.shown) for sink in sharing.sinks] == [1, 1, 0]
    await sharing.stop()


class Filmed(Input):
    camera: Video


class DisturbedApp(ReactorApp):
    """Call `during` in the steps of a session with a level."""

    input: Filmed
    state: Level
    output: Picture
    during: Any = None
    made = 0

    async def process_input(self) -> None: ...

    def generate(self, input: None) -> Picture:  # noqa: ARG002
        if self.state.level:
            self.during()
        self.made += 1
        return Picture(video=frame(1))


async def test_an_app_whose_session_stops_while_it_waits_for_its_turn_makes_no_step(tmp_path: Path) -> None:
    sharing = await Sharing.start(DisturbedApp, 2, tmp_path)
    await sharing.begin(0, 1, stepped=True)
    first, second = (cast("DisturbedApp", slot.served.model) for slot in sharing.host.slots)
    first.during = lambda: sharing.send(1, ipc.StopSession("s-1"))
    sharing.step(0, level=1)
    sharing.step(1)
    await sharing.play(0.5)
    assert (first.made, second.made) == (1, 0)
    await sharing.stop()


async def test_a_stepped_session_leaves_room_for_others_however_long_its_steps_are(tmp_path: Path) -> None:
    sharing = await Sharing.start(Slow, 3, tmp_path)
    await sharing.begin(0, stepped=True)
    sharing.step(0, 5, level=250)
    await sharing.play(2.0)
    assert sharing.sinks[0].of(ipc.Capacity)[-1] == ipc.Capacity(3, "")
    await sharing.stop()


async def test_sessions_without_a_rate_of_their_own_share_the_time(tmp_path: Path) -> None:
    sharing = await Sharing.start(Free, 3, tmp_path)
    await sharing.begin(0, 1, 2)
    for slot in range(3):
        sharing.event(slot, "set_level", level=20)
    await sharing.play(2.0)
    since = sharing.clock.now()
    await sharing.play(6.0)
    counts = [len(gaps(sink, since)) for sink in sharing.sinks]
    assert max(counts) - min(counts) <= 10
    assert sum(counts) > 0.8 * 6.0 / 0.020
    await sharing.stop()


class Stepper(ReactorApp):
    """An app, whose steps wait for nothing."""

    state: Level
    output: Picture
    fps = 50

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.count = 0

    async def process_input(self) -> int:
        return self.state.level

    def generate(self, input: int) -> Picture:
        self.count += 1
        return Picture(video=np.array([[[input, self.count % 256, 0]] * 2] * 2, np.uint8))


class Looper(ReactorModel):
    """A run() for each slot, all on one loop."""

    state: Level
    output: Picture

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.count = 0

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.count += 1
            await self.emit(np.array([[[self.state.level, self.count % 256, 0]] * 2] * 2, np.uint8))


class Awaiting(ReactorPipeline):
    """An async generator, which shares the loop."""

    state: Level
    output: Picture
    fps = 50

    async def inference(self) -> Any:
        for self.count in itertools.count(1):
            await asyncio.sleep(0)
            yield np.array([[[self.state.level, self.count % 256, 0]] * 2] * 2, np.uint8)


class Drawing(ReactorPipeline):
    """Shows random numbers, drawn after waits of different lengths."""

    state: Level
    output: Picture
    fps = 50

    async def pause(self) -> None:
        for _ in range(self.state.level % 3):
            await asyncio.sleep(0)

    @event(name="draw")
    async def draw(self) -> None:
        await self.pause()
        self.drawn = random.randrange(256)

    async def inference(self) -> Any:
        self.drawn = random.randrange(256)
        while True:
            await self.pause()
            yield np.array([[[self.drawn, random.randrange(256), np.random.randint(256)]] * 2] * 2, np.uint8)


async def test_sessions_that_wait_draw_their_own_random_numbers(tmp_path: Path) -> None:
    sharing = await Sharing.start(Drawing, 3, tmp_path)
    await sharing.begin(0, 1, 2, stepped=True)
    for slot in range(3):
        sharing.step(slot, seed=slot, level=slot)
    for number in range(10):
        for slot in range(3):
            sharing.step(slot, level=slot + number, commands=[{"command": "draw"}])
        await sharing.play(0.1, grain_s=0.02)
    for slot, sink in enumerate(sharing.sinks):
        with PipelineExecutor(Drawing) as executor:
            executor.connect(stepped=True)
            alone = [*executor.step(seed=slot, state={"level": slot}).frames]
            for number in range(10):
                alone += executor.step(state={"level": slot + number}, commands=[("draw", {})]).frames
        assert [pixel(sink, index) for index in range(11)] == [tuple(each.array[0, 0]) for each in alone]
    await sharing.stop()


class Noting(ReactorPipeline):
    """Notes random numbers: before the generator starts, in handlers, after an error at its `yield`, and at its end."""

    state: Level
    output: Picture
    fps = 50
    on_step: Callable[[], None] = staticmethod(lambda: None)

    @connected
    async def wait(self) -> None:
        await asyncio.sleep(0)

    @event(name="draw")
    def draw(self) -> None:
        self.drawn.append(random.random())

    def inference(self) -> Iterator[Any]:
        self.drawn = [random.random()]
        return self.steps()

    def steps(self) -> Iterator[Any]:
        try:
            while True:
                self.on_step()
                try:
                    yield "no frame"
                except TypeError:
                    self.draw()
                yield frame(1)
        finally:
            self.draw()


class AsyncNoting(Noting):
    async def steps(self) -> Any:
        try:
            while True:
                self.on_step()
                try:
                    yield "no frame"
                except TypeError:
                    self.draw()
                yield frame(1)
        finally:
            await asyncio.sleep(0)
            self.draw()


@pytest.mark.parametrize("kind", [Noting, AsyncNoting])
async def test_a_generator_draws_its_own_random_numbers_at_its_start_at_an_error_and_at_its_end(
    kind: type[Model], tmp_path: Path
) -> None:
    sharing = await Sharing.start(kind, 2, tmp_path)
    for slot in range(2):
        sharing.send(slot, ipc.StartSession(f"s-{slot}", f"c-{slot}", 0.0, seed=slot))
    await settle()
    models: list[Any] = [slot.served.model for slot in sharing.host.slots]
    for slot, model in enumerate(models):
        model.on_step = partial(sharing.event, 1 - slot, "draw")
    await sharing.play(0.2)
    for slot in range(2):
        sharing.send(slot, ipc.StopSession(f"s-{slot}"))
    await settle()
    for seed, model in enumerate(models):
        alone = random.Random(seed)
        assert len(model.drawn) > 10
        assert model.drawn == [alone.random() for _ in model.drawn]
    await sharing.stop()


@pytest.mark.parametrize("kind", [Stepper, Looper, Awaiting])
@pytest.mark.parametrize("warmup", [0, 2])
async def test_sessions_of_every_style_have_their_own_state_and_attributes(
    kind: type[Model], warmup: int, tmp_path: Path
) -> None:
    class Warmed(kind):  # type: ignore[misc, valid-type]
        pass

    Warmed.warmup = warmup
    sharing = await Sharing.start(Warmed, 3, tmp_path)
    await sharing.begin(0, 1, 2)
    for slot in range(3):
        sharing.event(slot, "set_level", level=10 * slot + 10)
    await sharing.play(1.0)
    for slot, sink in enumerate(sharing.sinks):
        counts = [pixel(sink, index)[1] for index in range(len(sink.shown))]
        assert len(counts) > 20
        assert counts == list(range(counts[0], counts[0] + len(counts)))
        assert pixel(sink, -1)[0] == 10 * slot + 10
    await sharing.stop()


class Failing(Painter):
    @event(name="fail")
    def fail(self) -> None:
        self.infer = self.broken

    def broken(self) -> NDArray[np.uint8]:
        raise ValueError("of this session")


async def test_an_exception_of_one_session_ends_that_one_alone(tmp_path: Path) -> None:
    sharing = await Sharing.start(Failing, 2, tmp_path)
    await sharing.begin(0, 1)
    sharing.event(0, "fail")
    await sharing.play(0.2)
    (ended,) = sharing.sinks[0].of(ipc.Ended)
    assert ended.error is not None
    assert not ended.crashed
    before = len(sharing.sinks[1].shown)
    await sharing.play(0.5)
    assert len(sharing.sinks[1].shown) > before + 20
    assert not sharing.sinks[1].of(ipc.Ended)
    await sharing.begin(0, session="t")
    await sharing.play(0.2)
    assert sharing.sinks[0].shown[-1].bundle.session == "t-0"
    await sharing.stop()


class Camera(Input):
    webcam: Video


class Wrapper:
    """Keeps what a session has read beside an input, and weights that all sessions share."""

    def __init__(self, inputs: Camera) -> None:
        self.inputs, self.webcam, self.weights = inputs, inputs.webcam, [1.0]


class Wrapping(ReactorPipeline):
    """Puts an object in place of its input, and sets a rate, in `load()`."""

    state: Level
    inputs: Camera
    output: Picture

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.inputs = Wrapper(self.inputs)  # type: ignore[assignment]  # as authors do
        self.output.fps = 20  # type: ignore[attr-defined]  # the annotation declares the tracks

    def inference(self) -> Iterator[Any]:
        while True:
            yield Picture(video=frame(1))


async def test_each_session_has_its_inputs_in_the_object_that_load_has_put_in_place_of_them(tmp_path: Path) -> None:
    sharing = await Sharing.start(Wrapping, 3, tmp_path)
    await sharing.begin(0, 1, 2)
    models: list[Any] = [slot.served.model for slot in sharing.host.slots]
    assert len({id(model.inputs) for model in models}) == len({id(model.inputs.webcam) for model in models}) == 3
    for model in models:
        assert type(model.inputs) is Wrapper
        assert model.inputs.webcam is model.inputs.inputs.webcam
        assert model.inputs.weights is models[0].inputs.weights
    await sharing.stop()


async def test_each_session_has_the_rate_that_load_has_given_the_output(tmp_path: Path) -> None:
    sharing = await Sharing.start(Wrapping, 2, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(1.0)
    since = sharing.clock.now()
    await sharing.play(2.0)
    assert [len(gaps(sink, since)) for sink in sharing.sinks] == [pytest.approx(40, abs=2)] * 2
    await sharing.stop()


class Crashing(Stepper):
    @event(name="crash")
    def crash(self) -> None:
        self.crashes = True

    async def process_output(self, outcome: Any) -> Any:
        if getattr(self, "crashes", False):
            raise RuntimeError("the device is gone")
        return outcome.result


async def test_a_crash_ends_all_sessions_and_each_has_the_reason(tmp_path: Path) -> None:
    sharing = await Sharing.start(Crashing, 3, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(0.2)
    sharing.event(1, "crash")
    await sharing.play(0.5)
    await asyncio.wait_for(sharing.serving, TIMEOUT_S)
    assert sharing.host.crashed
    for sink in sharing.sinks[:2]:
        (ended,) = sink.of(ipc.Ended)
        assert ended.crashed
        assert ended.error is not None
        assert "the device is gone" in ended.error["message"]
    assert not sharing.sinks[2].sent


class Unshared(Painter):
    def __copy__(self) -> Unshared:
        raise TypeError("it holds a lock")


def test_a_model_that_cannot_be_copied_is_refused_when_it_is_loaded() -> None:
    contract = Contract.of(Unshared)
    with pytest.raises(LoadError, match="Unshared can't be copied: it holds a lock"):
        check_copy(Version(Unshared(), contract, {}))


def test_there_is_memory_for_as_many_sessions_as_may_be_declared() -> None:
    assert MOST_SESSIONS == credits.MOST_SESSIONS == MOST_SESSIONS_OPTION


@pytest.mark.parametrize("kind", [Painter, Stepper])
async def test_no_session_makes_a_step_while_another_has_the_turn(kind: type[Model], tmp_path: Path) -> None:
    sharing = await Sharing.start(kind, 2, tmp_path)
    await sharing.begin(0, 1)
    await sharing.play(0.5)
    turns = sharing.host.step_turns
    assert turns is not None
    await turns.take(2, deadline=0.0, wanted_at=0.0)
    before = [len(sink.shown) for sink in sharing.sinks]
    await sharing.play(0.5)
    assert [len(sink.shown) for sink in sharing.sinks] == before
    turns.release(2)
    await sharing.play(0.5)
    assert all(len(sink.shown) > count + 20 for sink, count in zip(sharing.sinks, before, strict=True))
    await sharing.stop()
