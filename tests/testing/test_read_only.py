"""Read-only fields offline: the model sets them, nobody else, and a recording is replayed with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import (
    CommandError,
    InputField,
    InputState,
    Output,
    PipelineExecutor,
    ReactorPipeline,
    Video,
)
from reactor_runtime.testing import replay
from tests.testing.recorded import recorded
from tests.testing.test_session_replay import recording_in


class Screen(Output):
    video: Video


class Score(InputState):
    speed: int = InputField(default=1, ge=0, le=9)
    score: int = InputField(default=0, read_only=True)


class Game(ReactorPipeline):
    state: Score
    output: Screen
    fps = 10

    def inference(self) -> Iterator[Any]:
        while True:
            self.state.score += self.state.speed
            yield np.full((2, 2, 3), self.state.score % 256, np.uint8)


def test_the_model_sets_it_and_an_event_or_a_step_does_not() -> None:
    with PipelineExecutor(Game) as executor:
        executor.connect()
        next(executor)
        assert executor.state.score == 1
        with pytest.raises(ValueError, match="no event 'set_score'; it has: set_speed"):
            executor.send_event("set_score", score=100)
    with PipelineExecutor(Game) as executor:
        executor.connect(stepped=True)
        with pytest.raises(CommandError, match="clients can't set the state field 'score'"):
            executor.step(state={"score": 100})


def test_a_recording_with_read_only_fields_is_replayed(tmp_path: Path) -> None:
    with recorded(Game, tmp_path) as studio:
        studio.run(0.3)
        studio.send_event("set_speed", speed=3)
        studio.run(0.3)
    assert replay(recording_in(tmp_path), Game).differences == []
