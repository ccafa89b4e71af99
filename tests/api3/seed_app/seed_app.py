"""A world model that waits for a seed image, can be paused, and fails when it is told to."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from reactor_runtime import (
    ApplicationError,
    CommandError,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorApp,
    StepCompleted,
    StepOutcome,
    UploadedFile,
    Video,
    event,
)


class SeedOutput(Output):
    main_video: Video


class SeedState(InputState):
    level: int = InputField(default=0, ge=0, le=100, description="Added to the seed image")
    paused: bool = InputField(default=False, description="Whether the world stands still")
    _seed: Any = None
    _steps: int = 0
    _fail: str = ""


class StateUpdate(ModelMessage):
    has_seed: bool
    paused: bool


class StepDone(ModelMessage):
    number: int


class Waiting(ApplicationError):
    """Wait for something; the reason says for what."""


class SeedApp(ReactorApp):
    state: SeedState

    def load(self, config_path: Path | None) -> None:
        self._config = config_path
        self._engine = self.engine = "an author's"
        self.model = object()
        self._handled = 0

    @event(name="set_seed_image", description="The image to begin with")
    async def set_seed_image(self, image: UploadedFile) -> StateUpdate:
        try:
            picture = Image.open(io.BytesIO(image.data)).convert("RGB")
        except OSError as error:
            raise CommandError(code="bad_image", message=f"{image.name or 'it'} is no image") from error
        self.state._seed = np.asarray(picture.resize((48, 32)))
        return StateUpdate(has_seed=True, paused=self.state.paused)

    @event(name="fail", description="Raise an exception in the next step")
    def fail(self, where: str) -> None:
        self.state._fail = where

    async def process_input(self) -> tuple[Any, int, str]:
        if self.state._fail == "input":
            raise RuntimeError("the input is wrong")
        if self.state._seed is None:
            raise Waiting("waiting for a seed image")
        if self.state.paused:
            raise Waiting("paused")
        return self.state._seed, self.state.level, self.state._fail

    def generate(self, input: tuple[Any, int, str]) -> Any:
        seed, level, fail = input
        if fail:
            raise MemoryError("out of memory")
        return np.clip(seed.astype(int) + level, 0, 255).astype(np.uint8)

    async def process_output(self, outcome: StepOutcome) -> SeedOutput | StepCompleted | None:
        if outcome.error is not None and self.state._fail == "handled":
            self._handled += 1
            self.state._fail = ""
            await self.send(StepDone(number=-self._handled))
            return None
        if outcome.error is not None:
            raise outcome.error  # a crash
        self.state._steps += 1
        await self.send(StepDone(number=self.state._steps))
        output = SeedOutput(main_video=outcome.result)
        return StepCompleted(output=output, elapsed=outcome.elapsed) if self.state._steps % 2 else output
