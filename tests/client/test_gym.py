"""A model as an environment of Gymnasium, offline and on a server."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pytest

from reactor_runtime.interface import (
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    event,
)
from reactor_runtime.testing import PipelineExecutor
from tests.server.running import RunningServer, started, write_project
from tests.timeouts import TIMEOUT_S

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces
gym = pytest.importorskip("reactor_runtime.client.gym")
SCORE = {"message": "score", "reward": "reward", "terminated": "found", "truncated": "late"}
MODEL = """
import random
from typing import Literal


class MyState(InputState):
    move: Literal["stay", "left", "right"] = "stay"
    _at: int = 3


class Score(ModelMessage):
    reward: float
    found: bool
    late: bool = False


class MyModel(ReactorPipeline):
    state: MyState
    output: MyOutput
    sessions_per_model = 3

    async def inference(self):
        goal, left = random.randrange(8), 5
        while True:
            self.state._at += {"stay": 0, "left": -1, "right": 1}[self.state.move]
            left -= 1
            frame = gray(0, 8, 8)
            frame[goal, self.state._at % 8] = 255
            found = self.state._at % 8 == goal
            await self.send(Score(reward=1.0 if found else -0.25, found=found, late=left < 0))
            yield frame
"""


class Picture(Output):
    video: Video


class Dial(InputState):
    move: Literal["stay", "left", "right"] = "stay"
    _at: int = 3


class Score(ModelMessage):
    reward: float
    found: bool
    late: bool = False


class Search(ReactorPipeline):
    """Find the row that has the number of a column."""

    state: Dial
    output: Picture

    async def inference(self) -> AsyncIterator[Any]:
        goal, left = random.randrange(8), 5
        while True:
            self.state._at += {"stay": 0, "left": -1, "right": 1}[self.state.move]
            left -= 1
            frame = np.zeros((8, 8, 3), np.uint8)
            frame[goal, self.state._at % 8] = 255
            found = self.state._at % 8 == goal
            await self.send(Score(reward=1.0 if found else -0.25, found=found, late=left < 0))
            yield frame


@pytest.fixture
def executor() -> Iterator[PipelineExecutor[Search]]:
    with PipelineExecutor(Search) as executor:
        executor.connect(stepped=True)
        yield executor


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("gym"), MODEL)
    written = ", ".join(f"{key}: {name}" for key, name in SCORE.items())
    with (project / "reactor.yaml").open("a") as manifest:
        manifest.write(f"environment: {{{written}}}\n")
    with started(project) as server:
        server.wait_for("ready in")
        yield server
        server.stop()


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*")
def test_the_environment_passes_the_check_of_gymnasium(executor: PipelineExecutor[Search]) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gym.Env(executor, environment=SCORE))


def test_an_action_moves_the_model_and_its_message_is_the_reward(executor: PipelineExecutor[Search]) -> None:
    env = gym.Env(executor, environment=SCORE)
    assert env.action_space == spaces.Discrete(3)
    observation, info = env.reset(seed=1)
    row, column = np.argwhere(observation[:, :, 0])[0]
    assert (observation.shape, info["found"]) == ((8, 8, 3), row == column)
    observation, reward, terminated, truncated, info = env.step(2)
    assert np.argwhere(observation[:, :, 0])[0].tolist() == [row, column + 1]
    assert (reward, terminated) == ((1.0, True) if row == column + 1 else (-0.25, False))
    assert info == {"reward": reward, "found": terminated, "late": truncated}


def test_several_steps_for_an_action_add_their_rewards(executor: PipelineExecutor[Search]) -> None:
    env = gym.Env(executor, environment=SCORE, frame_skip=4)
    env.reset(seed=1)
    assert executor.step(0).step == 1
    _, reward, *_ = env.step(0)
    assert executor.step(0).step == 5
    assert reward in (4.0, -1.0)


def test_options_start_an_episode(executor: PipelineExecutor[Search]) -> None:
    env = gym.Env(executor)
    first, _ = env.reset(seed=2)
    moved, _ = env.reset(seed=2, options={"state": {"move": "right"}})
    assert np.argwhere(moved[:, :, 0])[0][1] == np.argwhere(first[:, :, 0])[0][1] + 1
    with pytest.raises(ValueError, match="options are state and commands, not level"):
        env.reset(options={"level": 3})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"message": "points"}, "the model has no message 'points'; it has: score"),
        ({"message": "score", "reward": "points"}, "reward: score has no field 'points'; it has: reward, found, late"),
        ({"message": "score", "prize": "reward"}, "unknown key prize"),
    ],
)
def test_a_wrong_name_is_refused_at_once(
    executor: PipelineExecutor[Search], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        gym.Env(executor, environment=environment)


class Controls(InputState):
    gear: int = InputField(default=1, ge=-1, le=5)
    lights: bool = False
    wheel: float = InputField(default=0.0, ge=-0.3, le=0.3)
    name: str = ""


class Car(ReactorPipeline):
    state: Controls
    output: Picture

    @event(name="honk")
    def honk(self) -> None: ...

    @event(name="push")
    def push(self, force: float = InputField(ge=0.0, le=2.0)) -> None: ...

    def inference(self) -> Iterator[Any]:
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.mark.parametrize(
    ("names", "space", "action", "state", "commands"),
    [
        (["set_gear"], spaces.Discrete(7), 6, {"gear": 5}, []),
        (["set_lights"], spaces.Discrete(2), 1, {"lights": True}, []),
        (["honk", "set_gear"], spaces.MultiDiscrete([2, 7]), [1, 0], {"gear": -1}, [("honk", {})]),
        (["honk"], spaces.Discrete(2), 0, {}, []),
        (["set_wheel"], spaces.Box(-0.3, 0.3, (1,)), np.array([0.3], np.float32), {"wheel": 0.3}, []),
        (
            ["push", "set_wheel"],
            spaces.Box(np.array([0, -0.3], np.float32), np.array([2, 0.3], np.float32)),
            np.array([2, -0.3], np.float32),
            {"wheel": -0.3},
            [("push", {"force": 2.0})],
        ),
    ],
)
def test_events_are_actions(
    names: list[str], space: Any, action: Any, state: dict[str, Any], commands: list[Any]
) -> None:
    with PipelineExecutor(Car) as executor:
        executor.connect(stepped=True)
        env = gym.Env(executor, actions=names)
        assert env.action_space == space
        assert env.world.actions.inputs(action) == {"state": state, "commands": commands}
        env.step(action)


def test_a_mixture_of_events_is_a_dict_and_texts_are_left_out() -> None:
    with PipelineExecutor(Car) as executor:
        executor.connect(stepped=True)
        env = gym.Env(executor)
        assert list(env.action_space) == ["honk", "push", "set_gear", "set_lights", "set_wheel"]
        for _ in range(10):
            env.step(env.action_space.sample())
        with pytest.raises(ValueError, match="no space expresses the values of set_name"):
            gym.Env(executor, actions=["set_name"])


def test_a_served_model_has_the_episodes_of_the_same_model_offline(
    server: RunningServer, executor: PipelineExecutor[Search]
) -> None:
    served, offline = gym.Env(f"http://127.0.0.1:{server.port}"), gym.Env(executor, environment=SCORE)
    try:
        for seed in (1, 2):
            results = [env.reset(seed=seed) for env in (served, offline)]
            assert np.array_equal(results[0][0], results[1][0])
            for action in (1, 2, 0, 2, 2):
                one, other = (env.step(action) for env in (served, offline))
                assert np.array_equal(one[0], other[0])
                assert one[1:] == other[1:]
    finally:
        served.close()
    server.wait_for_health("ready")


def test_a_vector_environment_warns_while_the_server_has_too_few_sessions(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gym, "WAITING_S", 0.1)
    other = gym.Env(f"http://127.0.0.1:{server.port}")
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(gym.VectorEnv, f"http://127.0.0.1:{server.port}", 3)
        server.until(lambda: "environment 3 of 3 waits for a session" in caplog.text, "the warning")
        other.close()
        opening.result(TIMEOUT_S).close()
    server.wait_for_health("ready")


def test_several_sessions_are_one_vector_environment(server: RunningServer, executor: PipelineExecutor[Search]) -> None:
    env = gym.VectorEnv(f"http://127.0.0.1:{server.port}", 3)
    try:
        assert env.action_space == spaces.MultiDiscrete([3, 3, 3])
        observations, info = env.reset(seed=5)
        assert (observations.shape, info["found"].shape) == ((3, 8, 8, 3), (3,))
        again, _ = env.reset(seed=5)
        assert np.array_equal(observations, again)
        steps = [env.step(np.array([0, 1, 2])) for _ in range(5)]
        env.reset(seed=5)
        ended = np.zeros(3, bool)
        for _ in range(12):
            observations, rewards, terminated, truncated, _ = env.step(np.array([0, 2, 1]))
            # The step after the end of an episode begins the next one, and has no reward.
            assert (rewards[ended] == 0).all()
            ended = (terminated | truncated) & ~ended
        assert observations.dtype == np.uint8
    finally:
        env.close()
    for index, move in enumerate(("stay", "left", "right")):
        executor.step(seed=5 + index)
        for observations, _, terminated, *_ in steps:
            offline = executor.step(state={"move": move}).frames[-1].array
            assert np.array_equal(observations[index], offline)
            if terminated[index]:
                break
    server.wait_for_health("ready")
