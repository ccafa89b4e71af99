"""What a client sends with a frame or a piece of sound reaches the model, whichever way it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import Audio, Idle, Input, InputFrame, InputState, ReactorPipeline, ReadMode, Video
from reactor_runtime.ipc.messages import ClientMedia
from reactor_runtime.media import jpeg, wav
from reactor_runtime.testing import Studio
from tests.engine.rig import Picture, Plain, Rig, frame
from tests.timeouts import TIMEOUT_S


class Senses(Input):
    camera: Video
    microphone: Audio


class Robot(Plain):
    input: Senses

    def inference(self) -> Iterator[Any]:
        while True:
            yield Idle


FILES = {"camera": jpeg.encode(frame(9)), "microphone": wav.encode(np.ones((1, 9), np.int16), 48_000)}


def sent(rig: Rig, track: str, *numbers: int) -> None:
    for number in numbers:
        rig.inputs.push_media(ClientMedia(rig.session.id, track, FILES[track], number, b"%d" % number, 1000 + number))


@pytest.mark.parametrize(
    ("n", "mode", "got"),
    [(1, ReadMode.LATEST, [3]), (2, ReadMode.LATEST, [2, 3]), (2, ReadMode.FIFO, [1, 2]), (1, ReadMode.ALL, [1, 2, 3])],
)
@pytest.mark.parametrize("how", ["read", "try_read"])
@pytest.mark.parametrize("track", FILES)
async def test_each_read_returns_frames_with_what_came_with_them(
    n: int, mode: ReadMode, got: list[int], how: str, track: str
) -> None:
    rig = Rig(Robot)
    async with rig.running():
        sent(rig, track, 1, 2, 3)
        buffer = getattr(rig.model.input, track)
        frames = await buffer.read(n, TIMEOUT_S, mode) if how == "read" else buffer.try_read(n, mode)
        assert [type(each) for each in frames] == [InputFrame] * len(got)
        assert [(each.pts, each.metadata, each.capture_time_us) for each in frames] == [
            (number, b"%d" % number, 1000 + number) for number in got
        ]
        assert frames[0].dtype == (np.uint8 if track == "camera" else np.int16)
    rig.inputs.shutdown()


async def test_a_file_without_a_header_has_no_values() -> None:
    rig = Rig(Robot)
    async with rig.running():
        rig.inputs.push_media(ClientMedia(rig.session.id, "camera", FILES["camera"]))
        [image] = rig.model.input.camera.try_read()
        assert (image.pts, image.metadata, image.capture_time_us) == (None, None, None)


class Forward(ReactorPipeline):
    """Show what the camera sees, and keep its times."""

    state: InputState
    input: Senses
    output: Picture
    fps = 30

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        self.times: list[int | None] = []

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            [image] = await self.input.camera.read()
            self.times.append(image.capture_time_us)
            yield image


def test_a_test_gives_a_model_frames_with_values() -> None:
    with Studio(Forward) as studio:
        studio.connect()
        studio.push_media("camera", InputFrame(frame(7), capture_time_us=5))
        studio.run(0.2)
        studio.push_media("camera", frame(8))
        studio.run(0.2)
        assert studio.model.times == [5, None]
        assert [int(shown.array[0, 0, 0]) for shown in studio.frames] == [7, 8]
