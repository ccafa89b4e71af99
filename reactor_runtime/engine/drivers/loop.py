"""The driver of the loop style: one `run()` for all sessions, and the handlers of events concurrently with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import ClassVar, cast

from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.engine.dispatch import Dispatcher
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.driver import DriverParts, wait_for_code
from reactor_runtime.engine.drivers.session_hooks import SessionHooks
from reactor_runtime.engine.session import ModelSession, SessionStopped, must_pass, without_exit
from reactor_runtime.errors import from_author
from reactor_runtime.ipc.messages import Started

logger = logging.getLogger(__name__)


class LoopDriver:
    """Run `run()` for the life of the model and serve one session after the other; belongs to the model's thread.

    `parts.failed` is called with the exception of a `run()` that fails outside of sessions.
    """

    reports_end: ClassVar[bool] = False
    runs_between_sessions: ClassVar[bool] = True

    def __init__(self, parts: DriverParts) -> None:
        self._served = parts.served
        self._emitter = parts.emitter
        self._inputs = parts.inputs
        self._sink = parts.sink
        self._state = parts.state
        self._failed = parts.failed
        self._crash = parts.crash
        self._session: ModelSession | None = None
        self._hooks: SessionHooks | None = None
        self._run: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._swap = parts.swap

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the events of `session`."""
        return Dispatcher(self._served, session, self._state, self._sink.send)

    def swap_soon(self) -> None:
        """Cancel `run()` at its `await`, apply waiting code when it has ended, and start that."""
        if self._run is not None and not self._run.done():
            self._run.cancel()
        else:
            self._start_new_code()

    def drop_requests(self) -> None:
        """Do nothing: no client requests steps."""

    def stop_session(self, session: ModelSession) -> None:
        """Stop a session: waiting handlers are cancelled, `run()` continues."""
        session.stop()

    def start(self) -> None:
        """Start `run()`, if it isn't running."""
        if self._run is not None and self._run.done():
            self._run_ended(self._run)
        if self._run is None:
            # A reload may come from outside of the loop, as in a test.
            self._loop = self._loop or asyncio.get_running_loop()
            self._run = self._loop.create_task(without_exit(self._run_model()))
            self._run.add_done_callback(self._run_ended)

    async def _run_model(self) -> None:
        if self._session is None:
            self._leave_state()
        await cast("ReactorModel", self._served.model).run()

    def _leave_state(self) -> None:
        """Set the state for the time without a session, in which `run()` may read it."""
        if self._served.contract.follows_clients:
            self._state.clear()
        else:
            self._state.reset()

    async def aclose(self) -> None:
        """End `run()`; its `finally` runs."""
        await self._end_run()

    def stalled(self) -> str:
        """Return "": all of its code runs on the loop."""
        return ""

    async def serve_session(self, session: ModelSession, dispatcher: Dispatcher, connected: Connected) -> None:
        """Serve one session until it is stopped; raise the exception of `run()` or `@connected` that ended it.

        In all cases `@disconnected` follows `@connected`, and the output is flushed.
        """
        self.start()
        fields, of_seats = self._state.begin(session)
        self._session = session
        self._emitter.open(session)
        self._inputs.begin_session(session.id, reopen=False)
        self._sink.send(Started(session.id, session.started_at, fields, of_seats))
        hooks = self._hooks = SessionHooks(self._served, session, self._state, connected, self._inputs)
        try:
            # Raised if the session stops while @connected or a handler waits.
            with contextlib.suppress(SessionStopped):
                while not session.stopping:
                    await self._connect(session, dispatcher, hooks)
                    self._inputs.opened()
                    self._warn_of_closed_inputs()
                    await _handle_events(session, dispatcher, hooks)
            self._raise_end_of_run(session)
        finally:
            self._session = self._hooks = None
            self._swap.step_made()
            connected.clear()
            try:
                await hooks.close()
            finally:
                self._inputs.end_session()
                self._emitter.close()
                self._leave_state()

    async def _connect(self, session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> None:
        """Call `@connected`; call that of other code after an exception, where that comes.

        The `run()` of another instance starts after its `@connected`.
        """
        while True:
            try:
                await hooks.open()
                if self._run is None:
                    self._start_if_it_runs()
                return
            # Author's code, and native extensions, raise more than Exception.
            except BaseException as error:
                if session.stopping or must_pass(error) or not self._swap.keep_session(error):
                    raise
            await self._end_run()
            await wait_for_code(self._swap, session, dispatcher, hooks)

    async def _end_run(self) -> None:
        """Cancel `run()`, and forget it."""
        run, self._run = self._run, None
        if run is not None:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    def _warn_of_closed_inputs(self) -> None:
        if self._inputs.closed:
            logger.warning("inputs are closed; reset() them in @connected tracks=%s", ",".join(self._inputs.closed))

    def _raise_end_of_run(self, session: ModelSession) -> None:
        """Raise the reason why `run()` ended, if it ended; an exception of a model for 3.x is a crash."""
        if self._run is not None and self._run.done():
            ended, self._run = self._run, None
            session.crashed = self._served.contract.follows_clients and _has_raised(ended)
            raise _end_of(ended)

    def _run_ended(self, run: asyncio.Task[None]) -> None:
        """Start new code, or stop the session, whose end raises the error, or log the error.

        The next session starts `run()` again.
        """
        # The end of this `run()` was raised or logged already.
        if run is not self._run:
            return
        if self._swap.pending:
            self._start_new_code()
            return
        if run.cancelled() or not self._swap.keep_session(_end_of(run)):
            self._end(run)
            return
        self._run = None
        self._start_if_it_runs()

    def _start_new_code(self) -> None:
        self._run = None
        self._swap.apply()
        if self._hooks is None or self._hooks.has_begun:
            self._start_if_it_runs()
        if self._session is not None:
            self._session.wake()

    def _start_if_it_runs(self) -> None:
        if not self._swap.broken:
            self.start()

    def _end(self, run: asyncio.Task[None]) -> None:
        if self._session is not None:
            self._session.stop()
            return
        self._run = None
        if not run.cancelled() and (error := run.exception()) is not None:
            self._failed(error)
            crashed = self._served.contract.follows_clients
            then = "the model is loaded again" if crashed else "the next client starts it again"
            logger.error("run() failed without a client; %s", then, exc_info=from_author(error))
            if crashed:
                self._crash(error)


def _has_raised(run: asyncio.Task[None]) -> bool:
    return not run.cancelled() and run.exception() is not None


def _end_of(run: asyncio.Task[None]) -> BaseException:
    """Return the exception that a `run()` has ended with, or the one for a `run()` that has returned."""
    if run.cancelled():
        return asyncio.CancelledError()
    return run.exception() or RuntimeError(
        "run() returned: it has to run for the life of the model, as with `while True:`"
    )


async def _handle_events(session: ModelSession, dispatcher: Dispatcher, hooks: SessionHooks) -> None:
    """Run the handlers of events as they come, until the session stops or another instance is served."""
    while not session.stopping and hooks.is_current:
        await dispatcher.run_waiting(hooks)
        await session.alarm.wait()
