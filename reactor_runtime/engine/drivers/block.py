"""The driver of the block style: `start_session()` and commands run in threads, the loop plays their blocks.

The author's code never runs on the loop, so a client that leaves is noticed at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.authoring.styles.block import VideoModel
from reactor_runtime.authoring.styles.context import belonging_to, running
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.clock import Clock, Timer
from reactor_runtime.engine.dispatch import ClientChange, Dispatcher
from reactor_runtime.engine.drivers.block_context import BlockContext, Sizes
from reactor_runtime.engine.drivers.block_queue import Block, BlockQueue
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.driver import DriverParts
from reactor_runtime.engine.drivers.threads import AuthorThread, ThreadTracker
from reactor_runtime.engine.hooks import author_call
from reactor_runtime.engine.liveness import REPORT_S
from reactor_runtime.engine.output.emitter import StepTime
from reactor_runtime.engine.output.outstanding import ENCODING
from reactor_runtime.engine.session import ModelSession, SessionStopped, must_pass
from reactor_runtime.ipc.messages import EventApplied, EventRefused, MessageSent, Started, ToServer

logger = logging.getLogger(__name__)

# How many calls the session's code has made, and how many commands have begun.
Progress = tuple[int, int]

MOST_BLOCKS = 2
# The longest that commands wait for the first call of a session. Without a limit, a session that waits for a command
# before its first call would never get one.
LONGEST_SETUP_S = 1.0


class BlockDriver:
    """Serve one session after the other on the same model; belongs to the loop's thread."""

    reports_end: ClassVar[bool] = True
    runs_between_sessions: ClassVar[bool] = False

    def __init__(self, parts: DriverParts) -> None:
        self._served = parts.served
        self._emitter = parts.emitter
        self._inputs = parts.inputs
        self._clock = parts.clock
        self._sink = parts.sink
        self._state = parts.state
        self._threads = parts.threads
        self._sizes: Sizes = {}
        self._current: _VersionRun | None = None
        self._swap = parts.swap
        self._session: ModelSession | None = None

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the commands of `session`."""
        return Dispatcher(self._served, session, self._state, self._send_answer, call=self._call_command)

    def _send_answer(self, answer: ToServer) -> None:
        """Send an answer after the messages of its command, which may wait behind blocks."""
        queue = None if self._current is None else self._current.queue
        if queue is None or not isinstance(answer, EventApplied | EventRefused) or not queue.put_answer(answer):
            self._sink.send(answer)

    def swap_soon(self) -> None:
        """Apply waiting code when `start_session()` and a running command have returned; `should_stop()` is true."""
        if self._session is None:
            self._swap.apply()
            return
        if self._current is not None:
            self._current.stop(because="its code changed")
        self._session.wake()

    def drop_requests(self) -> None:
        """Do nothing: no client requests steps."""

    def stop_session(self, session: ModelSession) -> None:
        """Stop a session: `should_stop()` returns true, and calls that wait return; may be called twice."""
        session.stop()
        self._inputs.close()
        if self._current is not None:
            self._current.stop()

    def start(self) -> None:
        """Do nothing: a block model runs only in sessions."""

    async def aclose(self) -> None:
        """Do nothing: a block model runs only in sessions."""

    def stalled(self) -> str:
        """Return the stack of a session or command that made no progress since the last call, else ""."""
        return "" if self._current is None else self._current.stalled()

    async def serve_session(self, session: ModelSession, dispatcher: Dispatcher, connected: Connected) -> None:
        """Serve one session until `start_session()` and a running command have returned; raise what one of them raised.

        If `start_session()` returns by itself, the session is over when all its blocks have been shown.
        """
        fields, of_seats = self._state.begin(session)
        self._session = session
        self._emitter.open(session)
        self._inputs.begin_session(session.id, reopen=True)
        self._sink.send(Started(session.id, session.started_at, fields, of_seats))
        connected.set_early()
        connected.set()
        try:
            while await self._run_version(session, dispatcher):
                await self._wait_for_code(session)
        finally:
            self.stop_session(session)
            connected.clear()
            self._state.clear()
            self._emitter.close()
            self._session = None
            self._swap.step_made()
            if self._swap.pending:
                self._swap.apply()

    async def _run_version(self, session: ModelSession, dispatcher: Dispatcher) -> bool:
        """Run `start_session()` of one version of the model; return whether another version follows in the session."""
        run = self._current = self._begin(session)
        try:
            with running(run.context):
                if not session.stopping:
                    await self._run_to_end(session, dispatcher, run)
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as error:
            if session.stopping or must_pass(error) or isinstance(error, GeneratorExit):
                raise
            if not self._swap.pending and not self._swap.keep_session(error):
                raise
            return True
        finally:
            self._current = None
            run.close()
        return self._swap.pending and not session.stopping

    async def _wait_for_code(self, session: ModelSession) -> None:
        """Apply new code, after a wait for it if there is none that runs; commands wait meanwhile."""
        while not session.stopping and (self._swap.pending or self._swap.broken):
            if self._swap.pending:
                self._swap.apply()
            else:
                await session.alarm.wait()

    async def apply(self, change: ClientChange) -> None:
        """Seat a controller that has joined; free the seat of a controller that has left."""
        if change.joined:
            self._state.take_seat(change.client)
        elif (seat := self._state.seat_of(change.client)) is not None:
            self._state.leave_seat(seat)
        self._state.send_changes()

    def _begin(self, session: ModelSession) -> _VersionRun:
        loop = asyncio.get_running_loop()
        queue = BlockQueue(self._threads, lambda: _post(loop, session.room.ring))
        context = BlockContext(
            self._served.contract,
            session,
            queue,
            inputs=self._inputs,
            clock=self._clock,
            threads=self._threads,
            state=self._state,
            sizes=self._sizes,
            lend=self._emitter.lend,
            on_first_call=lambda: _post(loop, session.wake),
        )
        return _VersionRun(context, queue, self._clock, self._threads)

    async def _run_to_end(self, session: ModelSession, dispatcher: Dispatcher, run: _VersionRun) -> None:
        model = cast("VideoModel", self._served.model)
        over = run.session_thread.run(run.bound(model.start_session))
        over.add_done_callback(lambda _: session.wake())
        player = asyncio.create_task(self._play(session, run, over))
        player.add_done_callback(lambda _: session.wake())
        try:
            await self._handle_commands(session, dispatcher, run, lambda: over.done() or player.done())
            if over.done() and over.exception() is None and not run.stopped:
                await player
        except SessionStopped:
            logger.debug("session stopped while commands were waiting id=%s", session.id)
        finally:
            run.stop()
            session.wake()
            await asyncio.wait([over, player])
            for answer in run.queue.take_answers():
                self._sink.send(answer)
        player.result()
        over.result()

    async def _handle_commands(
        self, session: ModelSession, dispatcher: Dispatcher, run: _VersionRun, over: Callable[[], bool]
    ) -> None:
        """Run commands one after the other as they come, until the session stops or is over.

        Commands wait for the first call of the session's code: that code sets its attributes before it, and would
        overwrite what a command has set.
        """
        setup_ends: float | None = self._clock.now() + LONGEST_SETUP_S
        while not (session.stopping or run.stopped or over()):
            if setup_ends is not None and (run.context.calls or self._clock.now() >= setup_ends):
                setup_ends = None
            if setup_ends is None:
                await dispatcher.run_waiting(self)
            if session.input_pending:
                session.input_pending = False
                self._threads.notify_input()
            await session.alarm.wait(setup_ends)

    async def _call_command(
        self, model: Model, spec: EventSpec, session: ModelSession, arguments: Mapping[str, Any]
    ) -> object:
        """Run a command in its thread; after the client has left none is started, and a running one finishes."""
        if session.stopping or self._current is None:
            raise SessionStopped
        call = self._current.bound(author_call(model, spec, session, arguments))
        # The context holds the number of the event, which output of the command is marked with.
        context = contextvars.copy_context()
        try:
            result: object = await self._current.command_thread.run(lambda: context.run(call))
        finally:
            self._threads.notify_input()
        return result

    async def _play(self, session: ModelSession, run: _VersionRun, over: asyncio.Future[Any]) -> None:
        """Hand over queued items in order until the session stops, or is over and all blocks have been shown.

        A block is handed over as a whole, because the author's code may hold the interpreter while it plays.
        """
        playing: deque[int] = deque()
        while not (session.stopping or run.stopped):
            item = run.queue.peek()
            self._emitter.take_credits()
            self._settle(playing)
            if isinstance(item, MessageSent | EventApplied | EventRefused):
                self._sink.send(item)
            elif item is not None and not session.paused and self._fits(playing, item.frames):
                _trace(session, item)
                await self._hand_over(item)
                playing.append(item.frames)
            elif item is None and over.done() and not len(self._emitter.outstanding):
                return
            else:
                self._emitter.await_credit()
                await session.room.wait()
                continue
            run.queue.remove_oldest()

    async def _hand_over(self, block: Block) -> None:
        block.handed_over_at = self._clock.now()
        bundles = self._emitter.unpack(block.payload)
        if self._swap.on_trial:
            self._swap.step_made()
            # The first block of new code is shown next.
            self._emitter.drop_queued()
        self._emitter.first_step.check(bundles, block.made_in_s)
        # `made_in_s` includes the wait for the end of the block before.
        time = StepTime(block.made_in_s, author_s=0.0, adapts=self._emitter.pace.adaptive)
        await self._emitter.emit_bundles(bundles, time, applied=block.applied, whole=True)

    def _settle(self, playing: deque[int]) -> None:
        """Remove blocks of which at most the frames in encoding are outstanding."""
        while playing and len(self._emitter.outstanding) - (sum(playing) - playing[0]) <= ENCODING:
            playing.popleft()

    def _fits(self, playing: deque[int], frames: int) -> bool:
        within = sum(playing) + frames <= self._served.contract.buffer_size
        return not playing or (len(playing) < MOST_BLOCKS and within)


class _VersionRun:
    """Hold the context, queue and threads of one run of `start_session()`, and log threads that do not stop."""

    def __init__(self, context: BlockContext, queue: BlockQueue, clock: Clock, threads: ThreadTracker) -> None:
        self.context = context
        self.queue = queue
        self.session_thread = AuthorThread("reactor-session", threads)
        self.command_thread = AuthorThread("reactor-commands", threads)
        self._clock = clock
        self._seen: Progress = 0, 0
        self._stopped_at: float | None = None
        self._stopped_because = ""
        self._timer: Timer | None = None

    def bound(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return `work` with `get_ctx()` bound to this session; other sessions may run in the process."""

        def bound() -> object:
            with belonging_to(self.context):
                return work()

        return bound

    @property
    def stopped(self) -> bool:
        return self._stopped_at is not None

    def stop(self, because: str = "its client left") -> None:
        if self._stopped_at is not None:
            return
        self._stopped_because = because
        self._stopped_at = self._clock.now()
        self.context.stop()
        self._report_in_time()

    def stalled(self) -> str:
        """Return the stack of a busy thread that made no progress since the last call, else ""."""
        now, before = (self.context.calls, self.command_thread.begun), self._seen
        self._seen = now
        for thread, same in ((self.session_thread, now[0] == before[0]), (self.command_thread, now[1] == before[1])):
            if same and thread.busy and not thread.waits:
                return thread.stack()
        return ""

    def close(self) -> None:
        self.stop()
        if self._timer is not None:
            self._timer.cancel()
        self.session_thread.close()
        self.command_thread.close()

    def _report_in_time(self) -> None:
        self._timer = self._clock.call_at(self._clock.now() + REPORT_S, self._report)

    def _report(self) -> None:
        assert self._stopped_at is not None, "stop() starts the timer"
        for what, thread in (("start_session()", self.session_thread), ("a command", self.command_thread)):
            if thread.busy:
                logger.warning(
                    "%s of %s has not returned, %.0f s after %s; the next one waits. It is here:\n%s",
                    what,
                    self.context.model,
                    self._clock.now() - self._stopped_at,
                    self._stopped_because,
                    thread.stack(),
                )
        self._report_in_time()


def _trace(session: ModelSession, block: Block) -> None:
    if session.trace is not None and block.made_in_s is not None:
        now = session.trace.now()
        session.trace.span(session.id, "session", "block", now - block.made_in_s, now, frames=block.frames)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call back on the loop, from any thread; do nothing if it is closed, because then the model has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
