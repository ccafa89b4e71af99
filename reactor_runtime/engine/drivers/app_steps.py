"""Steps of a `ReactorApp`: `process_input()`, `generate()` and `process_output()`, in one task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import cast

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.styles.app import ApplicationError, ReactorApp, StepCompleted, StepOutcome
from reactor_runtime.authoring.styles.pipeline import Idle
from reactor_runtime.engine.drivers.steps import AsyncSteps, Steps, StepTimer
from reactor_runtime.engine.served import Version
from reactor_runtime.engine.session import ModelSession, SessionStopped

logger = logging.getLogger(__name__)


def start_app(version: Version, session: ModelSession, timer: StepTimer) -> Steps:
    """Return the steps of an app."""
    app = cast("ReactorApp", version.model)
    steps = _Steps(app, session, timer)
    return AsyncSteps(steps.run(), session)


class _Steps:
    def __init__(self, app: ReactorApp, session: ModelSession, timer: StepTimer) -> None:
        self._app = app
        self._session = session
        self._timer = timer

    async def run(self) -> AsyncGenerator[object, None]:
        """Yield the output of each step, and Idle for a step that is skipped."""
        kind = type(self._app)
        # An output that can't be shown is reported there.
        method = "generate" if kind.process_output is ReactorApp.process_output else "process_output"
        while True:
            output = await self._make()
            with declared_at(kind, method, returning=True):
                yield output

    async def _make(self) -> object:
        # An earlier exception may have kept the session, for other code.
        self._session.crashed = False
        self._session.completed = None
        try:
            given = await self._app.process_input()
        except ApplicationError as error:
            self._session.refuse_step(error.reason or str(error) or type(error).__name__)
            return Idle
        self._session.refuse_step("")
        if (turn := self._session.step_turn) is None:
            outcome = self._generate(given)
        else:
            asked_at = turn.wanted_at = self._session.now()
            await turn.take()
            self._timer.others_s = self._session.now() - asked_at
            try:
                if self._session.stopping:
                    raise SessionStopped
                outcome = self._generate(given)
            finally:
                turn.release()
        returned = await self._process(outcome)
        if not isinstance(returned, StepCompleted):
            return returned
        self._session.completed = returned
        if returned.error is not None:
            logger.warning("a step reports an error: %s", returned.error)
        self._timer.given_s = None if returned.elapsed is None else float(returned.elapsed)
        return returned.output

    def _generate(self, given: object) -> StepOutcome:
        seconds = self._timer.seconds
        began = seconds()
        try:
            return StepOutcome(result=self._app.generate(given), elapsed=seconds() - began)
        except Exception as error:  # noqa: BLE001  (process_output() raises or handles it)
            return StepOutcome(error=error, elapsed=seconds() - began)

    async def _process(self, outcome: StepOutcome) -> object:
        try:
            return await self._app.process_output(outcome)
        # The session is stopping, or new code waits.
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException:
            self._session.crashed = True
            raise
