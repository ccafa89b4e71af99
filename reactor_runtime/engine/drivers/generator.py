"""The driver of the models that make a step at a time: a pipeline's generator, or the methods of an app.

Events are handled between two steps. `steps.py` and `app_steps.py` run the author's code of a step, and `stepping.py`
decides about steps that a program requests.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import ClassVar

from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.authoring.tracks.backlog import BufferClosed, ReadInterrupted
from reactor_runtime.engine.dispatch import Dispatcher
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.driver import DriverParts, wait_for_code
from reactor_runtime.engine.drivers.session_hooks import SessionHooks
from reactor_runtime.engine.drivers.stepping import NOTHING_YIELDED, Stepping
from reactor_runtime.engine.drivers.steps import Steps, StepTimer, start_pipeline
from reactor_runtime.engine.output.emitter import StepTime
from reactor_runtime.engine.served import Version
from reactor_runtime.engine.session import ModelSession, SessionStopped, must_pass
from reactor_runtime.ipc.messages import Started

logger = logging.getLogger(__name__)

IDLE_S = 0.010
READ_GRACE_S = 0.5
RESTART_S = 0.050


StartSteps = Callable[[Version, ModelSession, StepTimer], Steps]


class GeneratorDriver:
    """Run one session after the other on the same model; belongs to the model's thread.

    `start_steps` starts the author's code, which makes a step at a time.
    """

    reports_end: ClassVar[bool] = False
    runs_between_sessions: ClassVar[bool] = False

    def __init__(self, parts: DriverParts, start_steps: StartSteps = start_pipeline) -> None:
        self._start_steps = start_steps
        self._served = parts.served
        self._state = parts.state
        self._emitter = parts.emitter
        self._inputs = parts.inputs
        self._clock = parts.clock
        self._sink = parts.sink
        self._swap = parts.swap
        self._timer = StepTimer(parts.clock.now, lambda: parts.inputs.waited_s + parts.emitter.waited_s, parts.seconds)
        self._on_step = parts.on_step
        self._on_handled = parts.on_handled
        self._uploads = parts.uploads
        # In a stepped session.
        self._stepping: Stepping | None = None
        self._session: ModelSession | None = None
        self._steps: Steps | None = None
        self._waited_s = 0.0
        # When the newest frames were made, and the seconds spent waiting until then.
        self._made: tuple[float, float] | None = None

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the events of `session`."""
        return Dispatcher(self._served, session, self._state, self._sink.send, on_handled=self._on_handled)

    def swap_soon(self) -> None:
        """Apply waiting code at the end of the current step; one that waits, as for an input, is cancelled."""
        if self._session is None:
            self._swap.apply()
            return
        self._session.wake()
        if self._steps is not None:
            self._steps.interrupt()

    def stop_session(self, session: ModelSession) -> None:
        """Stop a session: pending reads of inputs raise BufferClosed, and are cancelled after 0.5 s."""
        self._inputs.close()
        session.stop(grace_s=READ_GRACE_S if self._inputs else 0.0)

    def drop_requests(self) -> None:
        """Make no other requested step: the controller has gone."""
        if self._stepping is not None:
            self._stepping.drop_requests()

    def start(self) -> None:
        """Do nothing: a pipeline runs only in sessions."""

    async def aclose(self) -> None:
        """Do nothing: a pipeline runs only in sessions."""

    def stalled(self) -> str:
        """Return "": all of its code runs on the loop."""
        return ""

    async def serve_session(self, session: ModelSession, dispatcher: Dispatcher, connected: Connected) -> None:
        """Serve one session from a fresh state until it is stopped; raise the author's exception that ended it.

        In all cases `@disconnected` follows `@connected`, and the output is flushed.
        """
        fields, of_seats = self._state.begin(session)
        self._session = session
        if session.stepped:
            self._stepping = Stepping(self._served, session, dispatcher, self._emitter, self._sink.send, self._uploads)
        hooks = SessionHooks(self._served, session, self._state, connected, self._inputs)
        self._emitter.open(session, functools.partial(dispatcher.run_waiting, hooks))
        self._inputs.begin_session(session.id, reopen=True, decode_ahead=not session.stepped)
        self._sink.send(Started(session.id, session.started_at, fields, of_seats))
        try:
            await self._run_session(session, dispatcher, hooks)
        except (SessionStopped, BufferClosed) as stopped:
            # In a running session the author closed the buffer that the model reads: an error of the model.
            if not session.stopping:
                raise
            # Its frames refer to the task that raised it, and the task to it: what the step holds would stay in memory.
            stopped.__traceback__ = None
            logger.debug("session stopped while the model was waiting id=%s", session.id)
        finally:
            connected.clear()
            self._inputs.close()
            try:
                await hooks.close()
            finally:
                if self._stepping is not None:
                    self._stepping.close()
                    self._stepping = None
                self._state.clear()
                self._emitter.close()
                self._session = None
                self._swap.step_made()
                if self._swap.pending:
                    self._swap.apply()

    async def _run_session(self, session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> None:
        """Call `@connected`, then run the generators; continue with other code after an exception, where that comes."""
        while True:
            try:
                await hooks.open()
                await self._run_generators(session, dispatcher, hooks)
                return
            # Author's code, and native extensions, raise more than Exception.
            except BaseException as error:
                if session.stopping or must_pass(error) or isinstance(error, GeneratorExit):
                    raise
                if self._stepping is not None:
                    self._stepping.fail()
                # The exception of a step that was interrupted for new code is of no interest.
                if not self._swap.pending and not self._swap.keep_session(error):
                    raise
            await wait_for_code(self._swap, session, dispatcher, hooks)

    async def _run_generators(self, session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> None:
        """Run the frames method repeatedly in the session; one that yields nothing is restarted 20 times a second."""
        warned = False
        while not session.stopping:
            if self._swap.pending:
                self._swap.apply()
                await hooks.open()
            began = self._clock.now()
            yielded = await self._run_generator(session, dispatcher, hooks)
            if yielded or session.stopping or self._swap.pending:
                continue
            if self._stepping is not None:
                self._stepping.refuse_rest(NOTHING_YIELDED.format(self._served.contract.style.frames_method))
                continue
            if not warned:
                warned = True
                method = self._served.contract.style.frames_method
                logger.warning("%s() ended without yielding anything; it is started again 20 times a second", method)
            await self._pause(session, dispatcher, began + RESTART_S)

    async def _run_generator(self, session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> bool:
        session.draw_numbers()
        steps = self._steps = self._start_steps(self._served.version, session, self._timer)
        yielded = False
        self._made = None
        try:
            while await self._between_steps(session, dispatcher, hooks):
                try:
                    await self._step(session, dispatcher, steps)
                except StopAsyncIteration:
                    break
                except ReadInterrupted:
                    # The author's code starts again for the next client.
                    return True
                yielded = True
        finally:
            self._steps = None
            session.draw_numbers()
            await steps.close()
        return yielded

    async def _between_steps(self, session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> bool:
        """Handle waiting events, and wait until the next step is needed; return False if there is to be none."""
        waited = False
        while True:
            # Callbacks that other threads posted run here, unless they ran during a wait.
            if not waited:
                await asyncio.sleep(0)
            await dispatcher.run_waiting(hooks)
            if session.stopping or self._swap.pending:
                return False
            if self._stepping is not None:
                if await self._stepping.wants_step():
                    return True
                if not dispatcher.waiting or dispatcher.requested is not None:
                    await session.alarm.wait()
                continue
            step_at = self._emitter.step_at(at_once=self._swap.on_trial)
            if step_at is not None and self._inputs.frame_available:
                step_at -= self._emitter.pace.early_s
            if step_at is not None and session.batch is not None:
                step_at = session.batch.step_at(session, step_at)
            if step_at is not None and step_at <= self._clock.now():
                return True
            waited = False
            if not dispatcher.waiting:
                waits_from = self._clock.now()
                if step_at is None:
                    self._emitter.await_credit()
                waited = await session.alarm.wait(step_at)
                self._waited_s += self._clock.now() - waits_from

    async def _step(self, session: ModelSession, dispatcher: Dispatcher, steps: Steps) -> None:
        if session.batch is not None:
            session.batch.window_s = 1 / self._emitter.pace.schedule.fps
        if (turn := session.step_turn) is not None:
            now = self._clock.now()
            turn.due_at = self._emitter.pace.due_at(now)
            turn.wanted_at = now if session.stepped else min(now, self._emitter.pace.step_at(now))
            if steps.computes_at_once:
                await turn.take()
                # The client may have left, or lost its connection, during a step of another session.
                if session.stopping or session.paused:
                    turn.release()
                    return
            session.draw_numbers()
        timer = self._timer
        timer.begin()
        between_s = self._worked_since_made(timer.began)
        self._emitter.first_step.start_timer()
        try:
            item = await steps.next()
        finally:
            if turn is not None:
                turn.release()
        while True:
            step_s = timer.step_s()
            self._on_step(item, step_s)
            try:
                session.count_step()
                # This waits for work that is still running on a GPU, which is part of the step.
                bundles = None if self._is_nothing(item) else self._emitter.unpack(item)
                made_at = self._clock.now()
                compute_s = timer.compute_s(made_at)
                self._made = None if bundles is None else (made_at, self._waited_s + self._emitter.waited_s)
                if session.trace is not None:
                    waited_ms = round(1e3 * max(0.0, made_at - timer.began - compute_s), 3)
                    session.trace.span(session.id, "model", "step", timer.began, made_at, waited_ms=waited_ms)
                if self._swap.on_trial:
                    self._swap.step_made()
                    # The first frame of new code is shown next.
                    self._emitter.drop_queued()
                self._state.send_changes()
                if session.batch is not None:
                    shown_s = 0 if bundles is None else len(bundles) / self._emitter.pace.schedule.fps
                    is_paced = shown_s and not session.stepped
                    session.batch.add_step(session, timer.began + shown_s if is_paced else 0.0)
                if bundles is not None and turn is not None:
                    turn.on_timed(compute_s, len(bundles), steps.sessions)
                if bundles is not None:
                    self._emitter.first_step.check(bundles, compute_s, steps.frame)
                if bundles is None:
                    session.on_idle()
                    if self._stepping is None:
                        await self._pause(session, dispatcher, self._clock.now() + IDLE_S)
                    elif session.refusal:
                        self._stepping.refuse_rest(session.refusal)
                    else:
                        self._stepping.step_made(step_s)
                    return
                adapts = self._emitter.pace.adaptive and not session.stepped
                await self._emitter.emit_bundles(bundles, StepTime(compute_s, between_s, compute_s, adapts))
                if self._stepping is not None:
                    self._stepping.step_made(step_s)
                return
            except (TypeError, ValueError) as error:
                # A generator may catch this error and yield the same output for ever; the session can be stopped here.
                await asyncio.sleep(0)
                if session.stopping:
                    return
                session.draw_numbers()
                item = await steps.throw(error)

    def _is_nothing(self, item: object) -> bool:
        """Return whether the model has nothing to show, in a session with several seats in none of them."""
        if isinstance(item, list) and self._served.contract.seats > 1:
            return all(map(is_idle, item))
        return is_idle(item)

    def _worked_since_made(self, now: float) -> float:
        """Return the seconds of work, as handlers and output, since the last frames were made; waits do not count."""
        if self._made is None:
            return 0.0
        made_at, waited_s = self._made
        return max(0.0, now - made_at - (self._waited_s + self._emitter.waited_s - waited_s))

    async def _pause(self, session: ModelSession, dispatcher: Dispatcher, until: float) -> None:
        """Wait for an event or an input, at most until `until`; a credit does not end the wait."""
        while not (session.stopping or dispatcher.waiting or session.input_pending) and self._clock.now() < until:
            await session.alarm.wait(until)
        session.input_pending = False
