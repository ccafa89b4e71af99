"""A served model as an environment of Gymnasium: frames are observations, events are actions.

`Env` steps one session, on a server or offline, and `VectorEnv` several of a server at the same time. `gym_actions.py`
has the actions. Needs the extra `gym`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.client.blocking import LoopThread
from reactor_runtime.client.connecting import connect
from reactor_runtime.client.session import Session
from reactor_runtime.errors import UsageError

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode

    from reactor_runtime.client.gym_actions import Actions
except ImportError as missing:
    raise UsageError("reactor_runtime.client.gym needs Gymnasium", hint="pip install 'reactor-live[gym]'") from missing

logger = logging.getLogger(__name__)

Observation = NDArray[np.uint8]
KEYS = ("message", "reward", "terminated", "truncated")
MOST_SEEDS = 2**31
# After this time without a session it is probable that the server has too few.
WAITING_S = 5.0
WAITING = "environment %s of %s waits for a session: has the server as many, by --sessions-per-model or --sessions?"


class _Track(Protocol):
    """A track of a model."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def direction(self) -> str: ...


class _Frame(Protocol):
    """A frame of a step."""

    @property
    def track(self) -> str: ...

    @property
    def array(self) -> NDArray[Any]: ...


class _Message(Protocol):
    """A message of the model."""

    @property
    def type(self) -> str: ...

    @property
    def data(self) -> Mapping[str, Any]: ...


class _Made(Protocol):
    """The frames and messages of some steps."""

    @property
    def frames(self) -> Sequence[_Frame]: ...

    @property
    def messages(self) -> Sequence[_Message]: ...


class Stepper(Protocol):
    """A stepped session: of `connect(url, stepped=True)`, or of a `PipelineExecutor` with `connect(stepped=True)`."""

    @property
    def tracks(self) -> Sequence[_Track]: ...

    @property
    def schema(self) -> Mapping[str, Any]: ...

    def step(
        self,
        n: int = 1,
        *,
        state: Mapping[str, Any] | None = None,
        commands: Sequence[tuple[str, Mapping[str, Any]]] = (),
        reset: bool = False,
        seed: int | None = None,
    ) -> _Made: ...


class World:
    """Translate between Gymnasium and the steps of a model; has no session.

    `track` is the video track of the observations, by default the first. `actions` names the events that an action
    consists of, by default all that a space can express. `environment` names the message with the reward, as in
    reactor.yaml. `frame_skip` steps are made for each action.
    """

    def __init__(
        self,
        tracks: Iterable[_Track],
        schema: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        track: str | None = None,
        actions: Sequence[str] | None = None,
        frame_skip: int = 1,
    ) -> None:
        videos = [each.name for each in tracks if (each.kind, each.direction) == ("video", "out")]
        if not videos or track not in (None, *videos):
            raise ValueError(f"the model has no video track {track or ''}; it has: {', '.join(videos) or 'none'}")
        self.track = track or videos[0]
        self.actions = Actions(schema["events"], actions)
        self.frame_skip = frame_skip
        self._environment = _checked(environment, schema["messages"])
        self._observation: Observation | None = None

    @property
    def observation(self) -> Observation:
        """Return the newest frame; a step without one, as of an idle model, leaves the last."""
        if self._observation is None:
            raise ValueError(f"the model has made no frame of {self.track}: it has to make one in its first step")
        return self._observation

    def inputs(self, action: Any) -> dict[str, Any]:
        """Return the arguments of `step` for an action."""
        return {"n": self.frame_skip, **self.actions.inputs(action)}

    def starting_inputs(self, seed: int, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments of `step` for a reset; `options` may have `state` and `commands` to start with."""
        wrong = set(options or ()) - {"state", "commands"}
        if wrong:
            raise ValueError(f"options are state and commands, not {', '.join(sorted(wrong))}")
        return {"n": 1, "seed": seed, **(options or {})}

    def read(self, made: _Made) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Return the observation, the reward, terminated, truncated and info of steps."""
        for frame in made.frames:
            if frame.track == self.track:
                self._observation = frame.array
        names, info = self._environment, dict[str, Any]()
        told = [message.data for message in made.messages if message.type == names.get("message")]
        for data in told:
            info.update(data)
        reward = sum(float(data[names["reward"]]) for data in told) if "reward" in names else 0.0
        terminated, truncated = (
            any(data[names[key]] for data in told) if key in names else False for key in ("terminated", "truncated")
        )
        return self.observation, reward, terminated, truncated, info


def _checked(environment: Mapping[str, str], messages: Mapping[str, Any]) -> Mapping[str, str]:
    wrong = [key for key in environment if key not in KEYS]
    if wrong:
        raise ValueError(f"environment: unknown key {wrong[0]}; the keys are {', '.join(KEYS)}")
    if not environment:
        return environment
    message = environment.get("message", "")
    if message not in messages:
        raise ValueError(f"environment: the model has no message {message!r}; it has: {', '.join(messages) or 'none'}")
    known = messages[message]["data"].get("properties", {})
    for key, name in environment.items():
        if key != "message" and name not in known:
            raise ValueError(f"environment: {key}: {message} has no field {name!r}; it has: {', '.join(known)}")
    return environment


class Env(gymnasium.Env[Observation, Any]):
    """Step a model as an environment; `target` is the address of a server, or a `PipelineExecutor`.

    The session is stepped, and its frames come without loss. For the other arguments see `World`; without
    `environment` it is that of the project's reactor.yaml. Every reset begins the session anew, with a seed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        target: str | Stepper,
        *,
        track: str | None = None,
        actions: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        frame_skip: int = 1,
        token: str | None = None,
    ) -> None:
        self.render_mode = "rgb_array"
        self._stack = contextlib.ExitStack()
        session = None
        if isinstance(target, str):
            target = session = self._stack.enter_context(connect(target, stepped=True, token=token))
            session.view(codecs=["raw"])
        self._stepper: Stepper = target
        try:
            if environment is None:
                environment = {} if session is None else session.environment
            self.world = World(
                target.tracks, target.schema, environment, track=track, actions=actions, frame_skip=frame_skip
            )
            self.action_space = self.world.actions.space
            first, *_ = self.world.read(target.step(seed=0))
            self.observation_space = gymnasium.spaces.Box(0, 255, first.shape, np.uint8)
        except BaseException:
            self._stack.close()
            raise

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the session anew and make its first step; `options` may have `state` and `commands` to start with."""
        super().reset(seed=seed)
        inputs = self.world.starting_inputs(int(self.np_random.integers(MOST_SEEDS)), options)
        observation, _, _, _, info = self.world.read(self._stepper.step(**inputs))
        return observation, info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Make the steps of one action."""
        return self.world.read(self._stepper.step(**self.world.inputs(action)))

    def render(self) -> Observation:
        """Return the newest frame."""
        return self.world.observation

    def close(self) -> None:
        """End the session of a server. Idempotent."""
        self._stack.close()


class VectorEnv(gymnasium.vector.VectorEnv[Observation, Any, NDArray[Any]]):
    """Step `num_envs` sessions of a server at the same time; the server needs as many slots (`--sessions`).

    An environment whose episode has ended is reset by the next step. The other arguments are those of `Env`.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        url: str,
        num_envs: int,
        *,
        track: str | None = None,
        actions: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        frame_skip: int = 1,
        token: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = "rgb_array"
        self._thread = LoopThread()
        self._sessions: list[Session] = []
        self._is_over = np.zeros(num_envs, bool)
        try:
            made = self._thread.run(self._open(url, token))
            session = self._sessions[0]
            named = session.environment if environment is None else environment
            self.worlds = [
                World(session.tracks, session.schema, named, track=track, actions=actions, frame_skip=frame_skip)
                for _ in self._sessions
            ]
            first = self._read(made)[0][0]
        except BaseException:
            self.close()
            raise
        self.single_action_space = self.worlds[0].actions.space
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.single_observation_space = gymnasium.spaces.Box(0, 255, first.shape, np.uint8)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)

    async def _open(self, url: str, token: str | None) -> list[_Made]:
        first_steps: list[asyncio.Task[_Made]] = []
        for number in range(1, self.num_envs + 1):
            opening = asyncio.ensure_future(connect(url, stepped=True, token=token))
            await asyncio.wait({opening}, timeout=WAITING_S)
            if not opening.done():
                logger.warning(WAITING, number, self.num_envs)
            session = await opening
            session.view(codecs=["raw"])
            self._sessions.append(session)
            # At once: a model that several sessions share admits the next when this one has been measured.
            first_steps.append(asyncio.create_task(session.step(seed=0)))
        return list(await asyncio.gather(*first_steps))

    def _step_all(
        self, inputs: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Observation, float, bool, bool, dict[str, Any]]]:
        async def step_all() -> list[_Made]:
            sessions = zip(self._sessions, inputs, strict=True)
            return list(await asyncio.gather(*(session.step(**given) for session, given in sessions)))

        return self._read(self._thread.run(step_all()))

    def _read(self, made: Sequence[_Made]) -> list[tuple[Observation, float, bool, bool, dict[str, Any]]]:
        return [world.read(each) for world, each in zip(self.worlds, made, strict=True)]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all sessions anew; environment `i` gets `seed + i`, or its own of a list."""
        if isinstance(seed, int):
            super().reset(seed=seed)
        seeds = [seed + index for index in range(self.num_envs)] if isinstance(seed, int) else seed
        given = [None] * self.num_envs if seeds is None else list(seeds)
        self._is_over[:] = False
        results = self._step_all(
            [
                world.starting_inputs(self._new_seed() if each is None else each, options)
                for world, each in zip(self.worlds, given, strict=True)
            ]
        )
        return np.stack([each[0] for each in results]), self._infos(results)

    def step(
        self, actions: Any
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Make the steps of one action in each environment, or reset those that are over."""
        split = list(gymnasium.vector.utils.iterate(self.action_space, actions))
        results = self._step_all(
            [
                world.starting_inputs(self._new_seed(), None) if over else world.inputs(action)
                for world, action, over in zip(self.worlds, split, self._is_over, strict=True)
            ]
        )
        rewards = np.array([each[1] for each in results])
        terminated, truncated = np.array([each[2] for each in results]), np.array([each[3] for each in results])
        # The message of a first step is no reward for an action.
        rewards[self._is_over] = 0.0
        self._is_over = (terminated | truncated) & ~self._is_over
        return np.stack([each[0] for each in results]), rewards, terminated, truncated, self._infos(results)

    def render(self) -> tuple[Observation, ...]:
        """Return the newest frame of each environment."""
        return tuple(world.observation for world in self.worlds)

    def close_extras(self, **_: Any) -> None:
        """End the sessions."""

        async def close() -> None:
            await asyncio.gather(*(session.aclose() for session in self._sessions))

        with contextlib.suppress(UsageError):
            self._thread.run(close())
        self._thread.close()

    def _new_seed(self) -> int:
        return int(self.np_random.integers(MOST_SEEDS))

    def _infos(self, results: Sequence[tuple[Any, Any, Any, Any, dict[str, Any]]]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for index, each in enumerate(results):
            infos = self._add_info(infos, each[4], index)
        return infos
