"""A small model with inputs, sound, events and files, that fails in every way on request."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator

import numpy as np

from reactor_runtime.interface import (
    Audio,
    Input,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
)


class StrainedInput(Input):
    camera: Video


class StrainedOutput(Output):
    main_video: Video
    tone: Audio


class Got(ModelMessage):
    size_bytes: int = MessageField(default=0)


class StrainedState(InputState):
    level: int = InputField(default=100, ge=0, le=255)
    name: str = InputField(default="", max_length=200)
    weights: list[float] | None = InputField(default=None, max_length=64)
    _crash = ""


class Strained(ReactorPipeline):
    state: StrainedState
    input: StrainedInput
    fps = 30

    @event(name="take")
    def take(self, file: UploadedFile) -> Got:
        return Got(size_bytes=len(file.read()))

    @event(name="crash")
    def crash(self, how: str) -> None:
        self.state._crash = how

    def inference(self) -> Iterator[StrainedOutput]:
        tone = np.zeros((1, 48000 // self.fps), np.int16)
        while True:
            fail(self.state._crash)
            frame = np.full((240, 320, 3), self.state.level, np.uint8)
            seen = self.input.camera.try_read()
            if seen is not None:
                frame[:16, :16] = seen[0][:16, :16]
            yield StrainedOutput(main_video=frame, tone=tone)


def fail(how: str) -> None:
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    elif how == "raises":
        raise RuntimeError("as it was asked to")
    elif how == "hangs":
        time.sleep(3600)
