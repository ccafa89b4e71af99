"""So many steps of a rendering: the same as a stepped session makes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.interface import InputState, Output, ReactorPipeline, TrackPayload, Video
from reactor_runtime.rendering.renderer import Renderer, StepMade
from reactor_runtime.rendering.script import Script
from reactor_runtime.testing import PipelineExecutor


class Noise(Output):
    video: Video


class NoState(InputState):
    pass


class Random(ReactorPipeline):
    state: NoState
    output: Noise
    fps = 10
    frames = 1

    def inference(self) -> Iterator[Any]:
        while True:
            batch = [[[[random.randrange(256)] * 3] * 4] * 2 for _ in range(self.frames)]
            number = random.random()
            yield Noise(video=TrackPayload(np.array(batch, np.uint8), metadata={"number": number}))


class Batches(Random):
    frames = 5


def rendered(model: type[ReactorPipeline], steps: int, on_made: Any = lambda _: None) -> list[np.ndarray[Any, Any]]:
    options = {"most_steps": steps, "seed": 7, "on_made": on_made}
    with Renderer.load(Contract.of(model), {}, Path(), **options) as renderer:
        return [frame.array for played in renderer.play(Script(), math.inf) for frame in played.frames]


@pytest.mark.parametrize("model", [Random, Batches])
def test_the_steps_of_a_seed_are_those_of_a_stepped_session(model: type[ReactorPipeline]) -> None:
    with PipelineExecutor(model) as executor:
        executor.connect(stepped=True)
        stepped = [frame.array for frame in executor.step(4, seed=7).frames]
    made = rendered(model, 4)
    assert len(made) == len(stepped) == 4 * model.frames  # type: ignore[attr-defined]
    assert all(np.array_equal(left, right) for left, right in zip(made, stepped, strict=True))


def test_each_step_is_described_with_the_metadata_of_its_frames() -> None:
    steps: list[StepMade] = []
    rendered(Batches, 2, steps.append)
    assert [step.step for step in steps] == [1, 2]
    assert steps[0].tracks == [
        {"name": "video", "kind": "video", "dtype": "uint8", "frames": 5, "width": 4, "height": 2}
    ]
    (number,) = {frame["number"] for frame in steps[0].metadata["video"] if frame is not None}
    assert number == pytest.approx(0.5, abs=0.5)
