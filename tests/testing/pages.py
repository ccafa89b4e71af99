"""The programs of the reference pages on loops and inputs, as the pages write them.

Where a page leaves something out (the computing itself, what surrounds a fragment) it stands beside the program.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

IMPORTS = """
import asyncio
from dataclasses import dataclass

import numpy as np
from reactor_runtime.interface import (
    Input, InputField, ModelMessage, Output, ReactorModel, Video, BufferClosed, connected, disconnected, event,
)

@dataclass
class MyOutput(Output):
    main_video: Video

@dataclass
class MyInput(Input):
    webcam: Video

@dataclass
class Progress(ModelMessage):
    step: int

class Pipe:
    def forward(self, frame):
        return 255 - frame

def picture(level, count=None):
    shape = (32, 48, 3) if count is None else (count, 32, 48, 3)
    return np.full(shape, level, np.uint8)
"""

LOOP = (
    IMPORTS
    + """
class MyModel(ReactorModel):
    fps = 30
    buffer_size = 8

    def load(self, config):
        self.level = 100
        self.how = "single"
        self.seconds = []

    @event(name="set_level")
    def set_level(self, level: int = InputField(default=100, ge=0, le=255)):
        self.level = level

    @event(name="go")
    def go(self, how: str):
        self.how = how

    @event(name="cut")
    def cut(self):
        self.output_buffer.flush()

    @event(name="set_rate")
    def set_rate(self, fps: float):
        self.output_buffer.set_fps(fps)

    async def run(self):
        step = 0
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                level, how = self.level, self.how
                step += 1
                await self.send(Progress(step=step))
                if how == "batch":
                    await self.emit(MyOutput(main_video=picture(level, 4)))
                elif how == "drop":
                    await self.emit(MyOutput(main_video=picture(level)), drop=True)
                    await asyncio.sleep(0.001)
                elif how == "adaptive":
                    await self.emit(MyOutput(main_video=picture(level, 4)), compute_time=0.2)
                elif how == "wrong":
                    try:
                        await self.emit(MyOutput(main_video=picture(level) / 255))
                    except TypeError as error:
                        self.wrong = str(error)
                    await asyncio.sleep(0.01)
                else:
                    await self.emit(MyOutput(main_video=picture(level)))
"""
)

# without run(), the default blocks forever
EVENTS = (
    IMPORTS
    + """
class MyModel(ReactorModel):
    @event(name="draw")
    async def draw(self, level: int):
        await self.emit(MyOutput(main_video=picture(level)))
        return Progress(step=level)
"""
)

POLLING = (
    IMPORTS
    + """
class MyModel(ReactorModel):
    input: MyInput
    fps = 24

    def load(self, config):
        self.pipe = Pipe()

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                # Non-blocking read
                frames = self.input.webcam.try_read()
                if frames is not None:
                    result = self.pipe.forward(frames[0])
                    await self.emit(MyOutput(main_video=result))
                else:
                    await asyncio.sleep(0.01)
"""
)

READING = (
    IMPORTS
    + """
class MyModel(ReactorModel):
    input: MyInput
    fps = 24

    def load(self, config):
        self.pipe = Pipe()

    async def run(self):
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    # Async read
                    [frame] = await self.input.webcam.read(1)
                    result = self.pipe.forward(frame)
                    await self.emit(MyOutput(main_video=result))
            except BufferClosed:
                pass

    @disconnected
    async def on_disconnect(self):
        self.input.webcam.close()
        self.output_buffer.flush()

    @connected
    async def on_connect(self):
        self.input.webcam.reset()
"""
)

FOUR = (
    READING.replace("[frame] = await self.input.webcam.read(1)", "frames = await self.input.webcam.read(4)")
    .replace("self.pipe.forward(frame)", "np.stack([self.pipe.forward(frame) for frame in frames])")
    .replace("fps = 24", "fps = 24\n    buffer_size = 8")
)

V2V = """
class Style:
    def apply(self, frame, style):
        return 255 - frame if style == "sketch" else frame

def load_style_model(checkpoint):
    assert checkpoint == "weights"
    return Style()

from dataclasses import dataclass
from reactor_runtime.interface import (
    Input, Output, Video, ReactorModel, InputField,
    event, connected, disconnected, BufferClosed,
)

@dataclass
class V2VInput(Input):
    camera: Video

@dataclass
class V2VOutput(Output):
    main_video: Video

class V2VModel(ReactorModel):
    input: V2VInput
    fps = 30

    def load(self, config):
        self.pipe = load_style_model(config["checkpoint"])

    @connected
    async def on_connect(self):
        self.input.camera.reset()
        self.style = "none"

    @disconnected
    async def on_disconnect(self):
        self.input.camera.close()
        self.output_buffer.flush()

    @event(name="set_style", description="Change the style filter")
    def set_style(self, style: str = InputField(
        default="none", choices=["none", "oil_paint", "sketch"]
    )):
        self.style = style

    async def run(self):
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    [frame] = await self.input.camera.read(1)
                    result = self.pipe.apply(frame, style=self.style)
                    await self.emit(V2VOutput(main_video=result))
            except BufferClosed:
                pass

MyModel = V2VModel
"""


@contextmanager
def defined(program: str, name: str = "reference_page") -> Iterator[Any]:
    """Run a program as a module; gives its model class."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(program, f"{name}.py", "exec", dont_inherit=True), vars(module))
        yield vars(module)["MyModel"]
    finally:
        del sys.modules[name]
