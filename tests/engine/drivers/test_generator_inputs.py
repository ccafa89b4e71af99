"""A pipeline whose steps read a camera: steps start when a frame arrives, and the schedule follows the arrivals."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reactor_runtime.clock import Clock
from reactor_runtime.engine.drivers.stepping import read_request
from reactor_runtime.engine.inputs.inputs import Buffer, make_input_buffer
from reactor_runtime.interface import Idle, Input, Video
from reactor_runtime.ipc.messages import StepRequest
from reactor_runtime.media import npy
from tests.engine.rig import Picture, Plain, Rig, frame, rig_of
from tests.fakes import settle

FPS = 10
# Seconds by which the frames of the camera come earlier or later than at an even rate.
JITTER_S = (0.0, 0.006, -0.004, 0.002, -0.006, 0.004)
# One frame is so late that the schedule restarts at it.
LATE, LATE_S = 5, 0.045


class CameraInput(Input):
    camera: Video


class Camera(Plain):
    input: CameraInput
    fps = FPS


class Waiting(Camera):
    async def inference(self) -> AsyncIterator[Any]:
        while True:
            [image] = await self.input.camera.read()
            yield Picture(video=image)


class Polling(Camera):
    async def inference(self) -> AsyncIterator[Any]:
        while True:
            images = self.input.camera.try_read()
            yield Idle if images is None else Picture(video=images[0])


@pytest.mark.parametrize("phase_s", [0.01, 0.05, 0.09])
@pytest.mark.parametrize("model", [Waiting, Polling])
async def test_each_frame_of_a_camera_is_shown_soon_after_it_came(model: type[Plain], phase_s: float) -> None:
    rig = rig_of(model)
    arrivals: list[float] = []
    async with rig.running():
        began = rig.clock.now()
        await rig.play(phase_s)
        for number, jitter_s in zip(range(60), itertools.cycle(JITTER_S), strict=False):
            late_s = LATE_S if number == LATE else jitter_s
            await rig.play(began + phase_s + number / FPS + late_s - rig.clock.now())
            arrivals.append(rig.clock.now())
            rig.inputs.push_array("camera", frame(number))
        await rig.play(0.1)
        # By then the schedule is back in phase.
        delays = {shown.red: shown.bundle.due - arrivals[shown.red] for shown in rig.sink.shown if shown.red >= 20}
    assert sorted(delays) == list(range(20, 60))
    assert max(delays.values()) < 0.02


@pytest.mark.parametrize("interval_s", [0.015, 0.06, 0.09])
async def test_the_rate_does_not_follow_a_faster_camera(interval_s: float) -> None:
    rig = rig_of(Waiting)
    async with rig.running():
        for number in range(round(12 / interval_s)):
            rig.inputs.push_array("camera", frame(number % 256))
            await rig.play(interval_s)
        # 120 in 12 s at 10 fps, 1 % and a first interval more
        assert len(rig.sink.shown) <= 123


async def test_a_requested_step_reads_what_has_come_though_no_thread_has_decoded_it() -> None:
    jobs: list[Callable[[], None]] = []

    def make_buffer(track: str, clock: Clock, _in_worker: object, **options: Any) -> Buffer:
        return make_input_buffer(track, clock, jobs.append, **options)

    rig = Rig(Polling, make_buffer=make_buffer)
    async with rig.running(stepped=True):
        for step in range(3):
            for red in (10 * step, 10 * step + 1):
                rig.inputs.push(rig.session.id, "camera", npy.encode(frame(red)))
            rig.dispatcher.accept_request(read_request(StepRequest(rig.session.id, "c-1", step, 1, "{}")))
            await settle()
        assert [shown.red for shown in rig.sink.shown] == [1, 11, 21]
    assert jobs == []
