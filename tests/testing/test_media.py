"""Pictures and sound pushed into a model that runs on its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import (
    Audio,
    BufferClosed,
    Idle,
    Input,
    PipelineExecutor,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    Video,
    connected,
    disconnected,
)
from reactor_runtime.testing import Studio
from tests.testing.models import Counter, Level, Picture, frame


class Senses(Input):
    camera: Video
    microphone: Audio


class Mirror(ReactorPipeline):
    """Show each picture of the camera, oldest first."""

    state: Level
    output: Picture
    senses: Senses
    fps = 10

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            [picture] = await self.senses.camera.read(mode=ReadMode.FIFO)
            yield Picture(video=picture)


class Poll(Mirror):
    """Show the newest picture, if there is one."""

    def inference(self) -> Iterator[Any]:  # type: ignore[override]  # a plain generator
        while True:
            pictures = self.senses.camera.try_read()
            yield Idle if pictures is None else Picture(video=pictures[0])


class Ear(ReactorModel):
    """Keep what is heard; show each picture."""

    output: Picture
    senses: Senses
    fps = 10

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.heard: list[Any] = []

    @connected
    def open(self) -> None:
        self.senses.camera.reset()
        self.senses.microphone.reset()

    @disconnected
    def close(self) -> None:
        self.senses.camera.close()
        self.senses.microphone.close()

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            try:
                while True:
                    [picture] = await self.senses.camera.read()
                    self.heard += self.senses.microphone.try_read(mode=ReadMode.FIFO) or []
                    await self.emit(Picture(video=picture))
            except BufferClosed:
                pass


def reds(studio: Studio[Any]) -> list[int]:
    return [int(shown.array.flat[0]) for shown in studio.frames]


def test_a_step_reads_pushed_media() -> None:
    with PipelineExecutor(Mirror) as executor:
        executor.connect()
        for red in (3, 7):
            executor.push_media("camera", frame(red))
            assert int(next(executor).output.video.flat[0]) == red


def test_a_batch_is_pushed_frame_after_frame() -> None:
    with PipelineExecutor(Mirror) as executor:
        executor.connect()
        executor.push_media("camera", np.stack([frame(red) for red in (1, 2, 3)]))
        assert [int(next(executor).output.video.flat[0]) for _ in range(3)] == [1, 2, 3]


def test_a_model_that_polls_sees_the_newest() -> None:
    with PipelineExecutor(Poll) as executor:
        executor.connect()
        assert next(executor).output is None
        executor.push_media("camera", frame(1))
        executor.push_media("camera", frame(2))
        assert int(next(executor).output.video.flat[0]) == 2


def test_a_loop_reads_frames_and_sound() -> None:
    sound = np.arange(480, dtype=np.int16)
    with Studio(Ear) as studio:
        studio.connect()
        studio.push_media("microphone", sound)
        studio.push_media("camera", frame(5))
        studio.run(0.5)
        assert reds(studio) == [5]
        assert np.array_equal(studio.model.heard, [sound[np.newaxis]])


def test_pushed_media_is_copied() -> None:
    picture = frame(1)
    with PipelineExecutor(Mirror) as executor:
        executor.connect()
        executor.push_media("camera", picture)
        picture[:] = 9
        step = next(executor)
        assert int(step.output.video.flat[0]) == 1


def test_nothing_pushed_is_left_for_the_next_client() -> None:
    with Studio(Poll) as studio:
        studio.connect()
        studio.push_media("camera", frame(9))
        studio.disconnect()
        studio.connect()
        studio.clear()
        studio.run(0.5)
        assert studio.frames == []


def test_push_media_needs_a_session() -> None:
    with Studio(Mirror) as studio, pytest.raises(RuntimeError, match="no client is connected"):
        studio.push_media("camera", frame(1))


SILENCE = np.zeros(8, np.int16)
REFUSED: dict[str, tuple[str, Any, str]] = {
    "unknown": ("cam", frame(1), r"no input 'cam'; its inputs: camera \(video\), microphone \(audio\)"),
    "an output": ("video", frame(1), "no input 'video'"),
    "float": ("camera", frame(1) / 255, r"camera: got float64 .*to_frames\(x"),
    "gray": ("camera", frame(1)[..., 0], r"camera: got uint8 \(2, 2\).*to_frames\(x"),
    "alpha": ("camera", np.zeros((2, 2, 4), np.uint8), "drop the alpha channel"),
    "large": ("camera", np.zeros((1, 4097, 3), np.uint8), "at most 4096x4096"),
    "empty": ("camera", np.zeros((0, 2, 2, 3), np.uint8), "which is empty: push at least one"),
    "a list": ("camera", [[[1, 2, 3]]], "got list; .*pass a NumPy array"),
    "a batch too long": ("camera", np.zeros((1, 1, 2, 2, 3), np.uint8), r"got uint8 \(1, 1, 2, 2, 3\).*batch"),
    "sound to video": ("camera", SILENCE, "camera: got int16"),
    "video to sound": ("microphone", frame(1), "microphone: got uint8"),
    "float sound": ("microphone", SILENCE / 2, r"\* 32767"),
    "samples first": ("microphone", np.zeros((8, 2), np.int16), r"use x\.T"),
    "surround": ("microphone", np.zeros((6, 800), np.int16), "1 or 2 channels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_media_that_no_client_could_send_is_refused(name: str) -> None:
    track, array, message = REFUSED[name]
    with PipelineExecutor(Mirror) as executor:
        executor.connect()
        with pytest.raises(ValueError, match=message):
            executor.push_media(track, array)
        executor.push_media("camera", frame(4))
        assert int(next(executor).output.video.flat[0]) == 4


def test_the_error_for_a_model_without_inputs_has_the_reason() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        with pytest.raises(ValueError, match="no input 'camera'; its inputs: none"):
            executor.push_media("camera", frame(1))


def test_a_step_that_timed_out_continues_with_media_pushed_later() -> None:
    with PipelineExecutor(Mirror) as executor:
        executor.connect()
        with pytest.raises(RuntimeError, match="waits for an event or an input, send that first"):
            next(executor)
        executor.push_media("camera", frame(6))
        assert int(next(executor).output.video.flat[0]) == 6
        executor.send_event("set_level", level=2)
        assert executor.state.level == 2
