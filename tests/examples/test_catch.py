"""`examples/catch`: the game, and a policy that learns it from its frames."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reactor_runtime.testing import PipelineExecutor
from tests.cli.command import reactor
from tests.examples.example_modules import import_from
from tests.forks import ROOT

EXAMPLE = ROOT / "examples" / "catch"
RULES = {"message": "played", "reward": "reward", "terminated": "landed"}
gym = pytest.importorskip("reactor_runtime.client.gym")


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with PipelineExecutor(import_from("catch", "pipeline", monkeypatch).Catch) as executor:
        executor.connect(stepped=True)
        yield gym.Env(executor, environment=RULES)


def column_of(frame: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], color: int) -> int:
    """Return the column of the cell in which a colour is the brightest."""
    return int(frame[..., color].max(0).argmax()) // 8


def test_the_project_makes_a_step(tmp_path: Path) -> None:
    outcome = reactor("check", "--step", "--json", str(EXAMPLE), cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    checked = json.loads(outcome.out)
    assert checked["state"]["caught"]["type"] == "integer"
    # A busy machine may delay the step.
    assert [each for each in checked["warnings"] if "the first step took" not in each["message"]] == []


def test_a_paddle_below_the_ball_gets_the_reward(env: Any) -> None:
    for seed in range(8):
        frame, _ = env.reset(seed=seed)
        terminated, steps = False, 0
        while not terminated:
            ball, paddle = column_of(frame, 0), column_of(frame[-8:], 2)
            frame, reward, terminated, _, info = env.step(1 + np.sign(ball - paddle))
            steps += 1
        assert (steps, reward, info["landed"]) == (7, 1.0, True)


class Game:
    """The environment without an executor, which takes most of the time of a step."""

    def __init__(self, catch: Any) -> None:
        self.action_space = SimpleNamespace(n=3)
        self._played: deque[Any] = deque(maxlen=1)
        self._state = SimpleNamespace(move=0, caught=0, missed=0)
        model = SimpleNamespace(state=self._state, send_nowait=self._played.append)
        model._score = partial(catch._score, model)
        self._steps = catch.inference(model)

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            random.seed(seed)
        return self.step(1)[0], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._state.move = int(action) - 1
        frame = next(self._steps).main_video
        (played,) = self._played
        return frame, played.reward, played.landed, False, {}


def test_a_policy_learns_to_catch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    train = import_from("catch", "train", monkeypatch)
    # A policy that moves at random gets -0.75.
    score, steps = train.train(Game(import_from("catch", "pipeline", monkeypatch).Catch), 60_000, 1, goal=-0.3)
    assert score >= -0.3
    assert steps <= 20_000
    assert f"{steps:6} steps" in capsys.readouterr().out


def test_the_training_plays_the_environment(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train = import_from("catch", "train", monkeypatch)
    _, steps = train.train(env, train.ROLLOUT, 1)
    assert steps == train.ROLLOUT
