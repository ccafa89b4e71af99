"""`PipelineExecutor`: a pipeline step by step."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from reactor_runtime.authoring.events.messages import CommandError
from reactor_runtime.authoring.styles.app import StepCompleted
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.authoring.styles.styles import Style, style_of
from reactor_runtime.authoring.tracks.track_payload import TrackPayload
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec, payloads
from reactor_runtime.ipc.messages import StartSession, Stepped, StepRequest
from reactor_runtime.media.tensors import copied
from reactor_runtime.testing.recorder import Frame, Message
from reactor_runtime.testing.studio import CLIENT, JOINED_AT_UNIX, Studio, to_sent, upload_values

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """Hold the result of one step.

    `output` is the value that `inference()` yielded, or `process_output()` returned, None for Idle and a skipped step;
    its arrays are copies. `compute_time` is its duration in real seconds, the only field that differs from run to run.
    `messages` are those since the step before. `files` and `error` are those of a `StepCompleted`.
    """

    output: Any
    compute_time: float
    messages: list[Message]
    files: Mapping[str, bytes] = field(default_factory=dict)
    error: object = None


@dataclass(frozen=True, slots=True, eq=False)
class StepsResult:
    """Hold the result of the steps of one `step()`.

    `step` is the number of the newest step since the last reset; `frames` and `messages` are in order. `elapsed_s` is
    their duration in real seconds.
    """

    step: int
    frames: list[Frame]
    messages: list[Message]
    elapsed_s: float


class PipelineExecutor(Studio[M]):
    """Run a pipeline or an app without server and wall clock: each `next()` is one step, with events between two steps.

    It uses the engine of `reactor run`, on a clock that paces nothing: the same events at the same steps give the same
    outputs. `next()` raises the exception of the step, which ends the session as it does in the server;
    `connect()` starts the next one. `frames` holds the frames since the last `next()` began.
    """

    def __init__(self, model: type[M], config: Mapping[str, Any] | Path | None = None) -> None:
        style = style_of(model)
        if style is None or not style.has_steps:
            raise TypeError(f"{Style.without_steps(model)}; use reactor_runtime.testing.Studio")
        super().__init__(model, config)
        # Output and duration of the newest step of a `next()`, and what it has reported.
        self._newest: tuple[object, float, StepCompleted] | None = None
        self._makes_step = False
        self._returned: object = None

    @property
    def tracks(self) -> tuple[TrackSpec, ...]:
        """Return the model's tracks, in both directions."""
        return self._contract.tracks

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the model's `events` and `messages`, as JSON Schemas of their data."""
        schema: Mapping[str, Any] = self._contract.to_json()["schema"]
        return schema

    @property
    def state(self) -> Any:
        """Return the session's state, an instance of the model's InputState; RuntimeError without a session."""
        self._need_session()
        return self.model.state

    def connect(self, *, stepped: bool = False) -> None:
        """Connect the client, as `Studio.connect` does; with `stepped` the session makes steps in `step()` alone."""
        self._connect(StartSession(f"s-{next(self._numbers)}", CLIENT, JOINED_AT_UNIX, stepped))

    def step(
        self,
        n: int = 1,
        *,
        state: Mapping[str, Any] | None = None,
        commands: Sequence[tuple[str, Mapping[str, Any]]] = (),
        media: Mapping[str, Sequence[object]] | None = None,
        reset: bool = False,
        seed: int | None = None,
    ) -> StepsResult:
        """Make `n` steps of a stepped session, as `step` of the client does on a server.

        Before them, in this order: with `reset`, or a `seed` for the generators of random numbers, the session begins
        anew; `state` sets fields; `commands` are events; `media` goes into the buffers of input tracks, not with a
        reset. Raises CommandError if the request was refused, and the exception of a step.
        """
        self._need_session()
        if media and (reset or seed is not None):
            raise ValueError("media can't come with a reset, which empties its buffers: pass it to the next step()")
        recorder, ticket = self._recorder, next(self._numbers)
        recorder.frames.clear()
        recorder.unread.clear()
        for track, items in (media or {}).items():
            for item in items:
                self.push_media(track, item)
        inputs = {
            "state": dict(state or {}),
            "commands": [{"command": name, "data": dict(data)} for name, data in commands],
        }
        data_json = json.dumps(to_sent("step", upload_values(inputs, self._slot.uploads)))
        self._host.receive_message(
            StepRequest(self._session, CLIENT, ticket, n, data_json, reset or seed is not None, seed)
        )
        self._wait.until(lambda: ticket in recorder.answers or recorder.ended, f"{n} steps")
        answer = recorder.answers.pop(ticket, None)
        if not isinstance(answer, Stepped):
            raise RuntimeError("the model has ended the session")
        if answer.code:
            raise CommandError(answer.code, answer.message)
        messages, recorder.unread = recorder.unread, []
        return StepsResult(answer.step, list(recorder.frames), messages, answer.elapsed_s)

    def send_event_of(self, client: str, seat: int, event: str, data: dict[str, Any]) -> Any:
        """Send an event, as `Studio` does; return what its handler returned: a ModelMessage, a dict or None.

        It is the object itself; clients get its values.
        """
        self._returned = None
        super().send_event_of(client, seat, event, data)
        return self._returned

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StepResult:
        self._need_session()
        recorder = self._recorder
        recorder.frames.clear()
        method = self._contract.style.frames_method
        with self._one_step():
            self._wait.until(lambda: self._newest is not None or recorder.ended, f"{method}() to yield or return")
        assert self._newest is not None, "`until` raises if the session fails, so a step was made"
        output, compute_s, completed = self._newest
        messages, recorder.unread = recorder.unread, []
        return StepResult(output, compute_s, messages, completed.files, completed.error)

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        """Allow exactly one step in the block; its result is `_newest`."""
        self._newest, self._makes_step = None, True
        self._slot.pause_steps(False)
        try:
            yield
        finally:
            self._makes_step = False
            self._slot.pause_steps(True)

    def _on_handled(self, returned: object) -> None:
        self._returned = returned

    def _on_step(self, output: object, compute_s: float) -> None:
        if self._makes_step:
            shown = None if is_idle(output) else copy_output(output)
            self._newest = shown, compute_s, self._slot.completed or StepCompleted()
            self._slot.pause_steps(True)


def copy_output(output: object) -> object:
    """Copy the output of a step: the author may use the same array for the next one."""
    if isinstance(output, np.ndarray):
        return output.copy()
    if isinstance(output, list):
        # Of a session with several seats.
        return [None if is_idle(each) else copy_output(each) for each in output]
    if isinstance(output, TrackPayload):
        return replace(output, data=copy_output(output.data))
    if not isinstance(output, Output):
        return copied(output)
    duplicate = copy.copy(output)
    for name, payload in payloads(output).items():
        # The dataclass may be frozen.
        object.__setattr__(duplicate, name, copy_output(payload))
    return duplicate
