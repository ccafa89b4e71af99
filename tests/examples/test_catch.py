"""`examples/catch`: the game, and a policy that learns it from its frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
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
    outcome = reactor("check", "--step", str(EXAMPLE), cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert "caught: integer" in outcome.out


def test_a_paddle_below_the_ball_gets_the_reward(env: Any) -> None:
    for seed in range(8):
        frame, _ = env.reset(seed=seed)
        terminated, steps = False, 0
        while not terminated:
            ball, paddle = column_of(frame, 0), column_of(frame[-8:], 2)
            frame, reward, terminated, _, info = env.step(1 + np.sign(ball - paddle))
            steps += 1
        assert (steps, reward, info["landed"]) == (7, 1.0, True)


def test_a_policy_learns_to_catch(
    env: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = import_from("catch", "train", monkeypatch)
    score, steps = train.train(env, 60_000, 1)
    assert score >= train.GOAL
    assert steps <= 60_000
    assert f"{steps:6} steps" in capsys.readouterr().out
