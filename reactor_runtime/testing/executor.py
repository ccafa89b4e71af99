"""A pipeline step by step: `PipelineExecutor`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from reactor_runtime.authoring.pipeline import ReactorPipeline, is_idle
from reactor_runtime.engine.host import Host
from reactor_runtime.testing.recorder import Message
from reactor_runtime.testing.studio import Studio
from reactor_runtime.testing.watch import kept, watched

P = TypeVar("P", bound=ReactorPipeline)


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What one step made.

    `output` is what `inference()` yielded, None for Idle; its arrays are copies. `compute_time` is how long that took,
    in real seconds, and the one thing here that differs from run to run. `messages` are those since the step before.
    """

    output: Any
    compute_time: float
    messages: list[Message]


class PipelineExecutor(Studio[P]):
    """Run a pipeline without server and wall clock: each `next()` is one step, events run between two of them.

    The engine is the one `reactor run` starts, on a clock that paces nothing: the same events at the same steps give
    the same outputs. `next()` raises what `inference()` raised, which ends the session as it does in the server;
    `connect()` starts the next one. `frames` holds what was handed over since the last `next()` began.
    """

    def __init__(self, model: type[P], config: dict[str, Any] | None = None) -> None:
        kind: type = model
        if not issubclass(kind, ReactorPipeline):
            raise TypeError(
                f"{kind.__name__} has no steps, only a ReactorPipeline has; use reactor_runtime.testing.Studio"
            )
        super().__init__(model, config)
        self._steps = _Steps(self._host)
        inference = watched(self.model.inference, self._steps.note)
        self.model.inference = inference  # type: ignore[method-assign]  # it is looked up there: load() may put one, too

    @property
    def state(self) -> Any:
        """The session's state, an instance of the model's InputState; RuntimeError without a session."""
        self._need_session()
        return self.model.state

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StepResult:
        self._need_session()
        recorder, steps = self._recorder, self._steps
        recorder.frames.clear()
        with steps.one():
            self._wait.until(lambda: steps.newest is not None or recorder.ended, "inference() to yield")
        assert steps.newest is not None, "a session ends by disconnect() or with a failure"
        output, compute_s = steps.newest
        messages, recorder.unread = recorder.unread, []
        return StepResult(output, compute_s, messages)


class _Steps:
    """Keep what the newest step made, and hold the next one back where one is wanted.

    Apart from the executor, so that nothing holds that and it can be dropped.
    """

    def __init__(self, host: Host) -> None:
        self.newest: tuple[object, float] | None = None
        self._host = host
        self._one = False

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Let one step be made, `newest`, and no more than one."""
        self.newest = None
        self._one = True
        self._host.hold_steps(False)
        try:
            yield
        finally:
            self._one = False
            self._host.hold_steps(True)

    def note(self, output: object, compute_s: float) -> None:
        if self._one:
            self.newest = None if is_idle(output) else kept(output), compute_s
            self._host.hold_steps(True)
