"""Counts of the frames that came and that the model took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.input_buffer import ReadCounts
from reactor_runtime.engine.inputs.input_counter import InputCounter
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.interface import Audio, Input, Video
from reactor_runtime.ipc.messages import InputLost, InputsTaken
from reactor_runtime.media import jpeg, wav
from tests.engine.rig import Plain, frame
from tests.fakes import FakeClock

JPEG = jpeg.encode(frame(7, 16, 16))
WAV = wav.encode(np.zeros((1, 480), np.int16), Audio.sample_rate)


class Both(Input):
    camera: Video
    microphone: Audio


class Looking(Plain):
    input: Both

    def inference(self) -> Iterator[Any]:
        yield None


class Eye:
    """The inputs of a model in its first session, and what they tell."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said: list[InputsTaken | InputLost] = []
        model = Looking()
        self.inputs = Inputs(
            model,
            Contract.of(Looking),
            self.clock,
            on_available=lambda: None,
            on_bad=lambda *_: None,
            on_counts=self.said.append,
        )
        self.camera = model.input.camera
        self.inputs.begin_session("s-1", reopen=True)

    @property
    def told(self) -> list[tuple[str, int, int, int]]:
        """List what was told: session, and how many came, were taken and were asked for in vain."""
        return [
            (each.session, each.came, each.taken, each.missed) for each in self.said if isinstance(each, InputsTaken)
        ]

    def push(self, count: int, session: str = "s-1") -> None:
        """Send pictures, 16 a second."""
        for _ in range(count):
            self.inputs.push(session, "camera", JPEG)
            self.clock.spend(1 / 16)


@pytest.fixture
def eye() -> Iterator[Eye]:
    eye = Eye()
    yield eye
    eye.inputs.shutdown()


def test_counts_are_due_four_times_a_second_while_frames_come() -> None:
    clock = FakeClock()
    counter = InputCounter("camera", ReadCounts(), clock)
    said = []
    for _ in range(9):
        said.append(counter.count_frame("s-1") is not None)
        clock.spend(1 / 16)
    assert [at for at, it in enumerate(said) if it] == [0, 4, 8]


def test_counts_have_frames_that_came_were_taken_and_were_missed(eye: Eye) -> None:
    eye.push(3)
    assert eye.camera.try_read(2) is not None
    assert eye.camera.try_read() is None
    eye.push(2)
    assert eye.told == [("s-1", 1, 0, 0), ("s-1", 5, 2, 1)]


def test_each_session_counts_from_zero_without_frames_of_others(eye: Eye) -> None:
    eye.push(3)
    assert eye.camera.try_read() is not None
    eye.inputs.close()
    eye.push(3)
    eye.inputs.begin_session("s-2", reopen=True)
    eye.push(3)
    eye.push(1, "s-2")
    assert eye.told == [("s-1", 1, 0, 0), ("s-2", 1, 0, 0)]


def test_frames_for_a_closed_input_are_counted_as_not_taken(eye: Eye) -> None:
    eye.camera.close()
    eye.push(5)
    assert eye.told[-1] == ("s-1", 5, 0, 0)


def test_sound_is_not_counted(eye: Eye) -> None:
    eye.inputs.push("s-1", "microphone", WAV)
    assert eye.told == []
