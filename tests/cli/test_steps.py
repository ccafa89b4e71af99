"""`reactor steps`: what is in the folder, that it is the same again, and how it ends otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.importing import import_class
from reactor_runtime.testing import PipelineExecutor
from tests.cli.command import reactor
from tests.clips.reading import frames_of
from tests.template_projects import own_modules

APP = """\
import random

import numpy as np
from reactor_runtime import (
    ApplicationError, InputField, InputState, ModelMessage, Output, ReactorApp, StepCompleted, Video
)

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    level: int = InputField(default=10, ge=0, le=255)

class Said(ModelMessage):
    level: int

class MyApp(ReactorApp):
    state: MyState
    fps = 10
    asked = 0

    async def process_input(self):
        self.asked += 1
        if self.asked == 3:
            raise ApplicationError("not yet")
        return self.state

    def generate(self, state):
        return np.full((32, 48, 3), state.level, np.uint8)

    async def process_output(self, outcome):
        await self.send(Said(level=self.state.level))
        files = {"number.txt": str(random.random()).encode()}
        return StepCompleted(output=MyOutput(main_video=outcome.result), files=files, error=self.error)

    @property
    def error(self):
        return "too warm" if self.state.level == 200 else None
"""
PIPELINE = """\
import numpy as np
from reactor_runtime import Idle, InputState, Output, ReactorModel, ReactorPipeline, Video

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    mode: str = ""

class Base(ReactorPipeline):
    state: MyState
    fps = 10

class Ends(Base):
    def inference(self):
        for number in range(3):
            if number == 2:
                self.end("it is over")
            yield np.full((32, 48, 3), 90, np.uint8)

class Fails(Base):
    def inference(self):
        yield np.full((32, 48, 3), 90, np.uint8)
        raise ValueError("out of ideas")

class Waits(Base):
    async def inference(self):
        import asyncio
        yield np.full((32, 48, 3), 90, np.uint8)
        await asyncio.Event().wait()
        yield None

class Loop(ReactorModel):
    async def run(self): ...
"""
SCRIPT = "- at_step: 4\n  event: set_level\n  data: {level: 200}\n"


def project(folder: Path, code: str, model: str) -> Path:
    (folder / "pipeline.py").write_text(code)
    (folder / "reactor.yaml").write_text(f"model: pipeline:{model}\n")
    (folder / "inputs.yaml").write_text(SCRIPT)
    return folder


def result_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def test_the_folder_has_the_movie_the_results_and_the_files_of_each_step(tmp_path: Path) -> None:
    directory = project(tmp_path, APP, "MyApp")
    outcome = reactor("steps", "--count", "5", "--out", "run", "--script", "inputs.yaml", "--seed", "7", cwd=directory)
    assert (outcome.code, outcome.out) == (0, "run  5 of 5 steps\n"), outcome.err
    result = result_in(directory / "run")
    assert (result["model"], result["seed"], result["steps"], result["error"]) == ("pipeline:MyApp", 7, 5, None)
    # The third step is skipped, and does not count.
    assert [step["step"] for step in result["results"]] == [1, 2, 3, 4, 5]
    assert [step["messages"][0]["data"]["level"] for step in result["results"]] == [10, 10, 10, 200, 200]
    assert [step["error"] for step in result["results"]] == [None, None, None, "too warm", "too warm"]
    video = {"name": "main_video", "dtype": "uint8", "frames": 1, "width": 48, "height": 32}
    assert all(step["tracks"] == [video] for step in result["results"])
    files = [directory / "run" / f"{number:06}" / "number.txt" for number in range(1, 6)]
    numbers = [file.read_text() for file in files]
    assert len(set(numbers)) == 5
    assert len(frames_of(directory / "run" / "output.mp4")) == 5
    again = reactor("steps", "--count", "5", "--out", "again", "--seed", "7", cwd=directory)
    assert again.code == 0
    assert (directory / "again" / "000005" / "number.txt").read_text() == numbers[-1]


def test_an_executor_has_the_files_and_the_error_of_a_step(tmp_path: Path) -> None:
    directory = project(tmp_path, APP, "MyApp")
    with own_modules(), PipelineExecutor[Any](import_class(directory, "pipeline", "MyApp")) as executor:
        executor.connect()
        first = next(executor)
        assert list(first.files) == ["number.txt"]
        assert first.error is None
        executor.send_event("set_level", level=200)
        assert next(executor).error == "too warm"
        skipped = next(executor)
        assert (skipped.output, skipped.files, skipped.error) == (None, {}, None)
        assert np.all(first.output.main_video == 10)


@pytest.mark.parametrize(
    ("model", "code", "made", "reason"),
    [
        ("Ends", 1, 3, None),
        ("Fails", 1, 1, "the model failed: ValueError: out of ideas"),
        ("Waits", 1, 1, "the model has made 1 of 9 steps, and none in 60 s"),
    ],
)
def test_a_session_that_ends_before_keeps_what_was_made(
    tmp_path: Path, model: str, code: int, made: int, reason: str | None
) -> None:
    directory = project(tmp_path, PIPELINE, model)
    outcome = reactor("steps", "--count", "9", "--out", "run", cwd=directory)
    result = result_in(directory / "run")
    assert (outcome.code, result["steps"], result["error"]) == (code, made, reason), outcome.err
    assert len(frames_of(directory / "run" / "output.mp4")) == made


@pytest.mark.parametrize(
    ("arguments", "model", "message"),
    [
        (("--count", "0"), "Ends", "--count is 0, not a number from 1 to 10,000"),
        (("--seed", "-1"), "Ends", "--seed is -1"),
        ((), "Loop", "Loop has no steps, only a ReactorPipeline or ReactorApp has"),
        (("--out", "."), "Ends", ". is not empty"),
    ],
)
def test_what_can_not_be_made_is_refused_before_load(
    tmp_path: Path, arguments: tuple[str, ...], model: str, message: str
) -> None:
    outcome = reactor("steps", *arguments, cwd=project(tmp_path, PIPELINE, model))
    assert outcome.code == 2
    assert message in outcome.err
