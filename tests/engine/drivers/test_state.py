"""The state of a session in each authoring style: fresh for each controller, set by events, sent when it changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.interface import (
    InputField,
    InputState,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    command,
    connected,
    disconnected,
    event,
    get_ctx,
)
from reactor_runtime.ipc.messages import EventApplied, Started, StateChanged
from reactor_runtime.testing import Studio
from tests.engine.blocks import until
from tests.engine.rig import Picture, Rig, batch, frame
from tests.fakes import settle


class Level(InputState):
    level: int = InputField(default=1, ge=0, le=9)
    doubled: int = 0
    notes: list[str] | None = None
    _steps: int = 0


class Doubling:
    """Double the level in an event."""

    state: Level

    @event(name="double")
    def double(self) -> None:
        self.state.doubled = 2 * self.state.level


class Pipeline(Doubling, ReactorPipeline):
    state: Level
    output: Picture
    fps = 10

    def inference(self) -> Iterator[Any]:
        while True:
            self.state._steps += 1
            yield frame(self.state.level)


class Loop(Doubling, ReactorModel):
    state: Level
    output: Picture
    fps = 10

    async def run(self) -> None:
        while True:
            self.state._steps += 1
            await self.emit(Picture(video=frame(self.state.level)))


class Blocks(Doubling, VideoModel):
    state: Level
    output: Picture
    fps = 10

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            self.state._steps += 1
            get_ctx().emit_block(batch(self.state.level, self.state.level))


STYLES = pytest.mark.parametrize("model", [Pipeline, Loop, Blocks], ids=lambda model: model.__name__)


@STYLES
def test_an_event_sets_a_field_for_the_frames_with_its_number(model: type[Any]) -> None:
    with Studio(model) as studio:
        studio.connect()
        studio.run(0.5)
        studio.send_event("set_level", level=5)
        studio.run(1.5)
        levels = {(shown.applied, int(shown.array.flat[0])) for shown in studio.frames}
        assert {(0, 1), (1, 5)} <= levels <= {(0, 1), (0, 5), (1, 5)}


@STYLES
def test_each_controller_gets_a_fresh_state(model: type[Any]) -> None:
    states: list[Level] = []
    with Studio(model) as studio:
        for _ in range(2):
            studio.connect()
            state = studio.model.state
            assert (state.level, state.doubled) == (1, 0)
            states.append(state)
            studio.send_event("set_level", level=5)
            studio.send_event("double")
            studio.run(0.5)
            assert studio.model.state is state
            assert (state.level, state.doubled) == (5, 10)
            studio.disconnect()
    assert states[0] is not states[1]


@STYLES
def test_a_wrong_value_sets_nothing(model: type[Any]) -> None:
    with Studio(model) as studio:
        studio.connect()
        with pytest.raises(Exception, match=r"set_level\.level: 10 is above 9"):
            studio.send_event("set_level", level=10)
        assert studio.model.state.level == 1


@STYLES
async def test_changes_are_sent_before_the_answer_to_their_event(model: type[Model]) -> None:
    rig = Rig(model)
    rig.driver.start()
    async with rig.running():
        await until(lambda: rig.sink.shown)
        rig.event("set_level", 1, level=3)
        rig.event("double", 2)
        await until(lambda: len(rig.sink.of(EventApplied)) == 2)
    await rig.driver.aclose()
    assert rig.sink.of(Started)[0].state == {"level": 1, "doubled": 0, "notes": None}
    assert [sent for sent in rig.sink.sent if isinstance(sent, StateChanged | EventApplied)] == [
        StateChanged("s-1", {"level": 3}),
        EventApplied("s-1", "c-1", 1, 1),
        StateChanged("s-1", {"doubled": 6}),
        EventApplied("s-1", "c-1", 2, 2),
    ]


@pytest.mark.parametrize("model", [Pipeline, Blocks], ids=lambda model: model.__name__)
def test_outside_of_sessions_the_state_is_none(model: type[Any]) -> None:
    with Studio(model) as studio:
        assert studio.model.state is None
        studio.connect()
        studio.run(0.1)
        studio.disconnect()
        assert studio.model.state is None


def test_a_loop_has_a_default_state_while_no_client_is_connected() -> None:
    with Studio(Loop) as studio:
        assert studio.model.state.level == 1
        studio.connect()
        studio.send_event("set_level", level=5)
        studio.run(0.5)
        studio.disconnect()
        assert studio.model.state.level == 1


def test_hooks_of_a_loop_see_the_state_of_their_session() -> None:
    seen: list[int] = []

    class Hooked(Loop):
        @connected
        def greet(self) -> None:
            self.state.level += 1

        @disconnected
        def leave(self) -> None:
            seen.append(self.state.level)

    with Studio(Hooked) as studio:
        for level in (4, 6):
            studio.connect()
            assert studio.model.state.level == 2
            studio.send_event("set_level", level=level)
            studio.disconnect()
    assert seen == [4, 6]


async def test_a_change_in_connected_is_sent() -> None:
    class Hooked(Loop):
        @connected
        def greet(self) -> None:
            self.state.level = 7

        async def run(self) -> None:
            await asyncio.Event().wait()

    rig = Rig(Hooked)
    rig.driver.start()
    async with rig.running():
        assert rig.sink.of(StateChanged) == [StateChanged("s-1", {"level": 7})]
    await rig.driver.aclose()


async def test_changes_in_run_are_sent_with_the_next_emit() -> None:
    class Counting(Loop):
        async def run(self) -> None:
            await self.connected.wait()
            for level in (1, 2, 2, 3):
                self.state.level = level
                await self.emit(Picture(video=frame(level)), drop=True)
            await asyncio.Event().wait()

    rig = Rig(Counting)
    rig.driver.start()
    async with rig.running():
        await settle()
        assert rig.sink.of(StateChanged) == [StateChanged("s-1", {"level": 2}), StateChanged("s-1", {"level": 3})]
    await rig.driver.aclose()


async def test_run_that_changes_the_state_without_a_client_sends_nothing() -> None:
    class Counting(Loop):
        async def run(self) -> None:
            while True:
                self.state.level += 1
                await self.emit(Picture(video=frame(1)), drop=True)

    rig = Rig(Counting)
    rig.driver.start()
    await settle()
    assert rig.model.state.level > 2
    assert rig.sink.of(StateChanged) == []
    await rig.driver.aclose()


@pytest.mark.parametrize("quiet", [True, False], ids=["should_stop", "emit_block"])
async def test_changes_in_a_session_of_blocks_are_sent_with_its_next_call(quiet: bool) -> None:
    class Counting(Blocks):
        def start_session(self) -> None:
            self.state.level = 2
            if quiet:
                get_ctx().should_stop()
            else:
                get_ctx().emit_block(batch(1))

    rig = Rig(Counting)
    rig.start()
    await until(lambda: rig.sink.of(StateChanged))
    await rig.stop()
    assert rig.sink.of(StateChanged) == [StateChanged("s-1", {"level": 2})]


async def test_a_thread_that_outlives_its_session_sends_no_state_of_the_next() -> None:
    contexts: list[Any] = []

    class Leaving(Blocks):
        def start_session(self) -> None:
            contexts.append(get_ctx())
            while not get_ctx().should_stop():
                pass

    rig = Rig(Leaving)
    rig.start()
    await until(lambda: contexts)
    await rig.stop()
    async with rig.running():
        await until(lambda: len(contexts) == 2)
        rig.model.state.notes = [object()]
        assert contexts[0].should_stop()
        contexts[0].emit_block(batch(1))
        rig.model.state.notes = None
    assert rig.sink.of(StateChanged) == []


def test_a_field_is_set_in_the_thread_of_commands_and_in_their_order() -> None:
    threads: list[str] = []

    class Watching(InputState):
        level: int = 1

        def __setattr__(self, name: str, value: object) -> None:
            threads.append(threading.current_thread().name)
            super().__setattr__(name, value)

    class Watched(VideoModel):
        state: Watching

        @command("triple")
        def triple(self) -> None:
            self.state.level *= 3

        def start_session(self) -> None:
            while not get_ctx().should_stop():
                get_ctx().emit_block(batch(1))

    with Studio(Watched) as studio:
        studio.connect()
        threads.clear()
        studio.send_event("set_level", level=2)
        studio.send_event("triple")
        assert studio.model.state.level == 6
    assert threads == ["reactor-commands"] * 2


@STYLES
def test_a_value_that_json_can_t_express_is_an_error_that_names_the_field(model: type[Any]) -> None:
    class Broken(model):  # type: ignore[misc]  # of whichever style
        @event(name="break")
        def break_it(self) -> None:
            self.state.notes = [object()]

    with Studio(Broken) as studio:
        studio.connect()
        with pytest.raises(TypeError, match=r"Level\.notes"):
            studio.send_event("break")


@STYLES
def test_a_state_that_can_t_be_made_ends_the_session_and_not_the_model(model: type[Any]) -> None:
    def make() -> list[int]:
        if broken:
            raise ValueError("no memory")
        return []

    class Failing(Level):
        _cache: list[int] = field(default_factory=make)

    broken = False
    kind: Any = type("Model", (model,), {"__annotations__": {"state": Failing}, "__module__": __name__})
    with Studio(kind) as studio:
        broken = True
        with pytest.raises(ValueError, match="no memory"):
            studio.connect()
        broken = False
        studio.connect()
        assert studio.model.state.level == 1
