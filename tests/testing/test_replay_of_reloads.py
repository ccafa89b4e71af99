"""Replays of sessions in which the code was reloaded."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError
from reactor_runtime.interface import ModelMessage, ReactorModel, ReactorPipeline, VideoModel, command, event, get_ctx
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import Studio, replay
from tests.testing.recorded import recorded
from tests.testing.test_session_replay import Eyes, Knob, Plain, gray, recording_in, send_without_waiting


class Counting(ReactorPipeline):
    """Counts on `self`, before and after the wait for the camera: a reload may end the code in between."""

    state: Knob
    input: Eyes
    output: Plain
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        self.count = config.get("count", 0)

    @event(name="set_level")
    def set_level(self, level: int) -> None:
        self.count += level * random.randrange(9)

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            self.count += 1
            [frame] = await self.input.camera.read()
            self.count += random.randrange(9)
            yield frame + np.uint8((self.count + self.state.level) % 256)
            self.count += 1


class Polling(Counting):
    def inference(self) -> Iterator[Any]:  # type: ignore[override]
        while True:
            frames = self.input.camera.try_read()
            self.count += random.randrange(9)
            yield (gray(0) if frames is None else frames[0]) + np.uint8(self.count % 256)
            self.count += 1


class Looping(ReactorModel):
    output: Plain
    input: Eyes

    def load(self, config: dict[str, Any]) -> None:
        self.count = config.get("count", 0)

    @event(name="set_level")
    def set_level(self, level: int) -> None:
        self.count += level * random.randrange(9)

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.count += 1
            try:
                [frame] = await self.input.camera.read(timeout=0.2)
            except TimeoutError:
                frame = gray(random.randrange(256))
            self.count += random.randrange(9)
            await self.emit(Plain(main_video=frame + np.uint8(self.count % 256)))


class Blocks(VideoModel):
    input: Eyes
    output: Plain

    def __init__(self, config: dict[str, Any]) -> None:
        self.count = config.get("count", 0)

    @command("set_level")
    def set_level(self, level: int) -> None:
        self.count += level

    def start_session(self) -> None:
        context = get_ctx()
        while not context.should_stop():
            frame = context.get_track("camera").latest()
            self.count += random.randrange(9)
            base = gray(0) if frame is None else frame
            context.emit_block(np.stack([base + np.uint8(self.count % 256)] * 3))
            self.count += 1


class Chunks(Blocks):
    """Makes several blocks before it looks whether it should stop."""

    def start_session(self) -> None:
        context = get_ctx()
        while not context.should_stop():
            for _ in range(3):
                self.count += random.randrange(9)
                context.emit_block(gray(self.count))


STYLES = [Counting, Polling, Looping, Blocks, Chunks]


def play_with_reloads(studio: Studio[Any], model: type[Model], seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        studio.run(chance.random() * 0.3)
        match chance.randrange(3):
            case 0:
                # A step that waits for the camera delays the handler.
                send_without_waiting(studio, "set_level", level=chance.randrange(200))
            case 1:
                studio.push_media("camera", gray(chance.randrange(256)))
            case _:
                studio.reload(model)


@pytest.mark.parametrize("model", STYLES)
@pytest.mark.parametrize("seed", range(4))
def test_a_session_with_reloads_replays_bit_for_bit(tmp_path: Path, model: type[Model], seed: int) -> None:
    with recorded(model, tmp_path, {"count": 7}) as studio:
        play_with_reloads(studio, model, seed)
    recording = read_recording(recording_in(tmp_path))
    assert len(recording.reloads) > 8
    assert recording.outputs[-1].step > recording.reloads[4].step
    result = replay(recording.path, model, config_from="recording")
    assert result.differences == []
    assert result.frames > 20


class FailingPolling(Polling):
    def inference(self) -> Iterator[Any]:  # type: ignore[override]
        self.input.camera.try_read(2)
        self.input.camera.try_read()
        yield gray(1 // 0)


class FailingCounting(Counting):
    async def inference(self) -> AsyncIterator[Any]:
        [frame] = await self.input.camera.read()
        yield gray(int(frame[0, 0, 0]) // 0)


class FailingLooping(Looping):
    async def run(self) -> None:
        await self.connected.wait()
        raise ZeroDivisionError


class FailingBlocks(Blocks):
    def start_session(self) -> None:
        get_ctx().get_track("camera").latest()
        raise ZeroDivisionError


class Begun(ModelMessage):
    count: int


class Talking(Polling):
    def inference(self) -> Iterator[Any]:  # type: ignore[override]
        self.send_nowait(Begun(count=self.count))
        yield from super().inference()


class FailingTalking(Talking):
    def inference(self) -> Iterator[Any]:  # type: ignore[override]
        self.send_nowait(Begun(count=-1))
        yield gray(1 // 0)


FAILING = [
    (Talking, FailingTalking),
    (Polling, FailingPolling),
    (Counting, FailingCounting),
    (Looping, FailingLooping),
    (Blocks, FailingBlocks),
]


@pytest.mark.parametrize(("model", "failing"), FAILING)
def test_what_a_first_step_that_failed_has_read_and_sent_is_not_in_the_replay(
    tmp_path: Path, model: type[Model], failing: type[Model]
) -> None:
    with recorded(model, tmp_path) as studio:
        for level in range(40):
            if level % 5:
                studio.push_media("camera", gray(level))
            # Code that makes frames while the test does not run fails at once.
            with contextlib.suppress(ZeroDivisionError):
                if level % 4 == 1:
                    studio.reload(failing)
                studio.run(0.1)
    recording = read_recording(recording_in(tmp_path))
    assert sum(reload.entry.kind == "reverted" for reload in recording.reloads) > 5
    result = replay(recording.path, model)
    assert result.differences == []
    assert result.frames > 20


@pytest.mark.parametrize("model", STYLES)
def test_a_save_that_fails_while_another_is_about_to_be_applied_restarts_the_code_before(
    tmp_path: Path, model: type[Model]
) -> None:
    with recorded(model, tmp_path) as studio:
        studio.push_media("camera", gray(5))
        studio.run(0.3)
        before, reloader = len(studio.frames), studio._host.reloader
        assert reloader is not None
        reloader.replace(model)
        with pytest.raises(ClassError):
            reloader.replace(object)
        studio.push_media("camera", gray(6))
        studio.run(0.5)
        assert len(studio.frames) > before
    recording = read_recording(recording_in(tmp_path))
    assert len(recording.reloads) == 1
    assert replay(recording.path, model).differences == []
