"""The hooks of models for 3.x: their order, viewers, failures, and sessions that outlive their clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.host import Host
from reactor_runtime.interface import (
    ClientInfo,
    Input,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
    session_ended,
    session_started,
)
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.testing import Studio
from reactor_runtime.testing.studio import CLIENT
from tests.engine.rig import Rig


class Picture(Output):
    video: Video


class Snapshot(ModelMessage):
    level: int


class Level(InputState):
    level: int = 7


class Hooks:
    """Note what is called, with what is true then."""

    def _note(self, what: str) -> None:
        model: Any = self
        model.notes = getattr(self, "notes", [])
        state = None if model.state is None else model.state.level
        model.notes.append(f"{what} {'on' if model.connected else 'off'} {state}")

    @session_started
    def started(self) -> None:
        self._note("started")

    @connected
    async def joined(self, client: ClientInfo) -> None:
        self._note(f"+{client.id}:{client.role}")
        await client.send(Snapshot(level=1))

    @disconnected
    def left(self, client: ClientInfo) -> None:
        self._note(f"-{client.id}")

    @session_ended
    async def ended(self, client: ClientInfo | None = None) -> None:
        assert client is None
        self._note("ended")

    @event(name="who")
    def who(self, client: ClientInfo) -> None:
        self._note(f"event of {client.id}")


class Pipeline(Hooks, ReactorPipeline):
    state: Level
    output: Picture
    fps = 10

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.zeros((4, 4, 3), np.uint8))


class Loop(Hooks, ReactorModel):
    state: Level
    output: Picture
    fps = 10

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected:
                await self.emit(Picture(video=np.zeros((4, 4, 3), np.uint8)))


class Room:
    """A studio with the messages of a server about further clients."""

    def __init__(self, model: type[Any]) -> None:
        self.studio: Studio[Any] = Studio(model)

    @property
    def host(self) -> Host:
        return self.studio._host

    def send(self, *messages: ipc.Message | CheckedEvent) -> None:
        for message in messages:
            self.host.receive_message(message)
        self.studio.run(0.3)

    def join(self, client: str, role: str = "viewer") -> ipc.ClientJoined:
        return ipc.ClientJoined(self.studio._session, client, role, 0.0)

    def event(self, name: str, client: str, **data: Any) -> CheckedEvent:
        sent = ipc.ClientEvent(self.studio._session, client, None, name, json.dumps(data))
        checked = check_event(self.host.served.contract.events, sent)
        assert isinstance(checked, CheckedEvent)
        return checked

    def leave(self, client: str) -> ipc.ClientLeft:
        return ipc.ClientLeft(self.studio._session, client)

    def stop(self) -> None:
        """End the session as the server does, with the clients that are there."""
        self.host.receive_message(ipc.StopSession(self.studio._session))
        self.studio._wait.until(lambda: self.studio._recorder.ended, "the session to end")

    @property
    def notes(self) -> list[str]:
        notes: list[str] = self.studio.model.notes
        return notes


STYLES = pytest.mark.parametrize("model", [Pipeline, Loop])


@STYLES
def test_a_session_from_its_start_to_its_end(model: type[Any]) -> None:
    room = Room(model)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"))
        room.send(room.leave("v-1"))
        room.stop()
        assert room.notes == [
            "started off 7",
            f"+{CLIENT}:controller on 7",
            "+v-1:viewer on 7",
            "-v-1 on 7",
            # No @disconnected for those that are still connected.
            "ended off 7",
        ]
        assert room.studio.model.state is None


@STYLES
def test_the_last_client_clears_connected_and_the_next_sets_it(model: type[Any]) -> None:
    room = Room(model)
    with room.studio:
        room.studio.connect()
        room.send(room.leave(CLIENT))
        room.studio.clear()
        room.studio.run(1.0)
        assert not room.studio.frames, "a session without a client makes no frames"
        room.studio.model.state.level = 9
        room.send(room.join("c-2", "controller"))
        room.studio.run(1.0)
        assert room.studio.frames
        room.send(room.leave("c-2"))
        room.stop()
        assert room.notes == [
            "started off 7",
            f"+{CLIENT}:controller on 7",
            f"-{CLIENT} off 7",
            # It is the same session, with its state.
            "+c-2:controller on 9",
            "-c-2 off 9",
            "ended off 9",
        ]


class Chunks(Hooks, ReactorPipeline):
    state: Level
    output: Picture
    fps = 10
    buffer_size = 1

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.zeros((12, 4, 4, 3), np.uint8))


def test_clients_change_while_a_chunk_waits_for_room() -> None:
    room = Room(Chunks)
    with room.studio:
        room.studio.connect()
        room.send(room.leave(CLIENT))
        # In the middle of the first chunk.
        assert room.notes[-1] == f"-{CLIENT} off 7"
        room.studio.clear()
        room.studio.run(3.0)
        assert len(room.studio.frames) <= 1
        room.send(room.join("c-2", "controller"))
        room.studio.run(3.0)
        assert room.notes[-1] == "+c-2:controller on 7"
        assert len(room.studio.frames) > 20


def test_clients_and_events_are_handled_in_their_order() -> None:
    room = Room(Pipeline)
    with room.studio:
        room.studio.connect()
        room.studio.send_event("who")
        room.send(room.join("v-1"), room.leave(CLIENT), room.join("v-2"), room.leave("v-2"))
        assert room.notes[2:] == [f"event of {CLIENT} on 7", "+v-1:viewer on 7", f"-{CLIENT} on 7"]


def test_an_event_of_a_client_that_has_left_comes_before_its_end_and_with_that_client() -> None:
    room = Room(Pipeline)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"))
        room.host.receive_message(room.event("who", "v-1"))
        room.send(room.leave("v-1"))
        assert room.notes[3:] == ["event of v-1 on 7", "-v-1 on 7"]
        assert not room.host.slots[0]._current[0].leaving  # type: ignore[index]  # a session runs


def test_a_client_that_sends_and_leaves_within_a_step_has_its_hooks() -> None:
    room = Room(Pipeline)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"), room.event("who", "v-1"), room.leave("v-1"))
        assert room.notes[2:] == ["+v-1:viewer on 7", "event of v-1 on 7", "-v-1 on 7"]


class Moderated(Hooks, ReactorPipeline):
    state: Level
    output: Picture
    fps = 10

    async def moderate(self, value: str, *, event: str, field: str, client: ClientInfo) -> bool:  # noqa: ARG002
        self._note(f"{client.id} asks for {value}")
        await asyncio.sleep(0.05)
        return True

    @event(name="say")
    def say(self, client: ClientInfo, text: str = InputField(moderate=True)) -> None:
        self._note(f"{client.id} says {text}")

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.zeros((4, 4, 3), np.uint8))


def test_a_value_is_moderated_for_the_client_that_sends_it() -> None:
    room = Room(Moderated)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"))
        room.send(room.event("say", "v-1", text="hello"))
        room.studio.run(1)
        assert room.notes[3:] == ["v-1 asks for hello on 7", "v-1 says hello on 7"]


def test_a_value_that_is_not_decided_when_its_client_leaves_is_dropped() -> None:
    room = Room(Moderated)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"))
        room.host.receive_message(room.event("say", "v-1", text="hello"))
        room.host.receive_message(room.event("who", "v-1"))
        room.send(room.leave("v-1"))
        room.studio.run(1)
        # The thread of moderate() may come first.
        assert sorted(room.notes[3:]) == ["-v-1 on 7", "v-1 asks for hello on 7"]


class Cameras(Input):
    camera: Video


class Reading(Hooks, ReactorPipeline):
    state: Level
    output: Picture
    cameras: Cameras
    fps = 10

    @event(name="prepare")
    async def prepare(self) -> None:
        # Longer than the time for events between two steps.
        await asyncio.sleep(0.5)

    async def inference(self) -> AsyncIterator[Picture]:
        while True:
            [frame] = await self.cameras.camera.read()
            yield Picture(video=frame)


def test_no_step_begins_when_the_last_client_has_left_during_a_handler() -> None:
    room = Room(Reading)
    with room.studio:
        room.studio.connect()
        # A step waits for a frame.
        room.studio.run(0.3)
        room.send(room.event("prepare", CLIENT))
        room.studio.push_media("camera", np.zeros((4, 4, 3), np.uint8))
        room.studio.run(0.2)
        room.send(room.leave(CLIENT))
        room.studio.run(1.0)
        assert room.notes[2:] == [f"-{CLIENT} off 7"]


def test_a_message_of_a_joining_client_is_for_it_alone() -> None:
    room = Room(Pipeline)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"))
        sent = [(message.type, message.data) for message in room.studio.messages]
        assert sent == [("snapshot", {"level": 1})] * 2


def test_a_client_that_leaves_at_the_end_is_disconnected_before_the_session_ends() -> None:
    room = Room(Pipeline)
    with room.studio:
        room.studio.connect()
        room.studio.disconnect()
        assert room.notes[-2:] == [f"-{CLIENT} off 7", "ended off 7"]


class FailingStart(Pipeline):
    @session_started
    def started(self) -> None:
        super().started()
        raise RuntimeError("start")


class FailingJoin(Pipeline):
    @connected
    async def joined(self, client: ClientInfo) -> None:
        await super().joined(client)
        raise RuntimeError("join")


class FailingEnd(Pipeline):
    @session_ended
    async def ended(self, client: ClientInfo | None = None) -> None:
        await super().ended(client)
        raise RuntimeError("end")


@pytest.mark.parametrize("model", [FailingStart, FailingJoin, FailingEnd])
def test_a_hook_that_fails_does_not_end_the_session(model: type[Any]) -> None:
    room = Room(model)
    with room.studio:
        for call in (room.studio.connect, lambda: room.studio.run(1.0), room.stop):
            # The studio raises exceptions of the author, the server logs them.
            try:
                call()
            except RuntimeError:
                continue
        assert [note.split()[0] for note in room.notes] == ["started", f"+{CLIENT}:controller", "ended"]
        assert room.studio.frames


def test_the_warm_up_has_a_client_that_leaves() -> None:
    class Warm(Pipeline):
        warmup = 2

    room = Room(Warm)
    with room.studio:
        room.studio.warm_up()
        assert [note.split()[0] for note in room.notes] == ["started", "+warmup:controller", "-warmup", "ended"]


class Unfollowed(ReactorPipeline):
    state: Level
    output: Picture
    fps = 10

    @connected
    def joined(self, client: ClientInfo) -> None:
        self.notes = [client.id]

    @disconnected
    def left(self, client: ClientInfo) -> None:
        self.notes.append(f"-{client.id}")

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.zeros((4, 4, 3), np.uint8))


def test_a_model_without_a_session_hook_has_its_hooks_for_the_controller_alone() -> None:
    assert not Contract.of(Unfollowed).follows_clients
    room = Room(Unfollowed)
    with room.studio:
        room.studio.connect()
        room.send(room.join("v-1"), room.leave("v-1"))
        room.stop()
        assert room.notes == [CLIENT, f"-{CLIENT}"]


class Crashing(Hooks, ReactorModel):
    output: Picture
    fps = 10
    state: Level

    async def run(self) -> None:
        await self.connected.wait()
        raise RuntimeError("CUDA error")


class Failing(ReactorModel):
    output: Picture

    async def run(self) -> None:
        await self.connected.wait()
        raise RuntimeError("no luck")


@pytest.mark.parametrize(("model", "crashes"), [(Crashing, True), (Failing, False)])
async def test_an_exception_of_run_is_a_crash_for_a_model_of_3(model: type[Any], crashes: bool) -> None:
    rig = Rig(model)
    rig.driver.start()
    with pytest.raises(RuntimeError):
        async with rig.running():
            await rig.session.alarm.wait(rig.clock.now() + 1)
    assert rig.session.crashed is crashes
