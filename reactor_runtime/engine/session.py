"""One session in the engine: its clients, its applied events, and whether it pauses or stops."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.authoring.styles.app import StepCompleted
from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.engine.batch import Batch
from reactor_runtime.engine.seeds import MOST_SEEDS, SharedGenerators, resumed_by, seed_generators
from reactor_runtime.engine.session_log import ReloadOutcome, SessionLog
from reactor_runtime.engine.step_turns import StepTurn
from reactor_runtime.engine.trace import TraceRecorder
from reactor_runtime.ipc.messages import ClientEvent, StepRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The number of the last event of each seat that was applied.
Applied = tuple[int, ...]
MOST_UNSHOWN = 1000
# The session of the event whose handler runs, its number and its seat.
_handled: ContextVar[tuple[str, int, int]] = ContextVar("reactor_handled", default=("", 0, 0))


class SessionStopped(Exception):
    """End the author's code at an `await` when the controller has left."""


class ModelSession:
    """Hold the state of one session: its clients, its applied events, and whether it is stopping.

    Belongs to the model's thread. `alarm` wakes the driver; `failed` is called with exceptions of the author's code,
    `on_idle` after each step that made no frame. `client` has started the session, and `clients` are there now, by id.
    A session whose `@disconnected` of the last client has run is `deserted`. A driver sets `crashed` before it raises
    an exception after which the model has to be loaded again. `steps` counts the outputs of the model, and its Idles;
    `log` receives what happens. A `stepped` session makes only the steps that a program requests. `seed` is set in the
    generators of random numbers. Events are counted for each of the `seats`. `former` is a session that was reset: this
    one continues it with its clients, and is a new session for the model.
    """

    def __init__(
        self,
        session_id: str,
        client: ClientInfo,
        clock: Clock,
        started_at_unix: float,
        *,
        failed: Callable[[BaseException], object] = lambda _: None,
        trace: TraceRecorder | None = None,
        on_idle: Callable[[], object] = lambda: None,
        log: SessionLog | None = None,
        is_reading: Callable[[], bool] = lambda: False,
        stepped: bool = False,
        seed: int | None = None,
        seats: int = 1,
        former: ModelSession | None = None,
        step_turn: StepTurn | None = None,
        generators: SharedGenerators | None = None,
        batch: Batch | None = None,
    ) -> None:
        self.id = session_id
        self.client = client
        self.stepped = stepped
        # For steps, and for the numbers that the author's code draws, where several sessions share the loaded model.
        self.step_turn = step_turn
        self.generators = generators
        # Makes its steps, with those of other sessions, if the model has a `batch()`.
        self.batch = batch
        self.seed = seed
        # The request that has reset the former session, and the one for which another session begins now.
        self.reset_by = None if former is None else former.reset_for
        self.reset_for: StepRequest | None = None
        self.clients: dict[str, ClientInfo] = {client.id: client} if former is None else former.clients
        # The ids of those that have joined, until their hooks are due: what others did before comes first.
        self.joining: set[str] = set() if former is None else former.joining
        # Those that have left, until their @disconnected is due: the events that they have sent before come first.
        self.leaving: dict[str, ClientInfo] = {} if former is None else former.leaving
        self.deserted = False
        self.alarm = Alarm(clock)
        # The first rings when there is room for frames, the second when there is room for sound alone.
        self.room, self.sound_room = Alarm(clock), Alarm(clock)
        self.started_at = clock.now()
        self.stopping = False
        self.input_pending = False
        self._paused: bool = former is not None and former._paused
        self._clock = clock
        self.applied: Applied = (0,) * seats if former is None else former.applied
        # The number, the seat and the arrival of events that no frame has shown.
        self._unshown: deque[tuple[int, int, float]] = deque(maxlen=MOST_UNSHOWN)
        self.failed = failed
        self.trace = trace
        self.on_idle = on_idle
        self.log = log
        # Whether the model waits in a read of an input.
        self.is_reading = is_reading
        self.steps = 0
        # Why the model skips steps now; "" while it makes them.
        self.refusal = ""
        # What the newest step of an app has reported, if it has.
        self.completed: StepCompleted | None = None
        # Whether the exception of the model's code is one after which it has to be loaded again.
        self.crashed = False
        # The reason that the model gave when it ended the session.
        self.end_reason = ""
        self._wall_offset_s = started_at_unix - self.started_at
        self._running: asyncio.Task[Any] | None = None

    def now(self) -> float:
        """Return the time of the session's clock, in monotonic seconds."""
        return self._clock.now()

    @property
    def controller(self) -> ClientInfo:
        """Return the controller; without one, the client that has started the session."""
        return next((each for each in self.clients.values() if each.role == "controller"), self.client)

    @property
    def joined(self) -> list[ClientInfo]:
        """Return the clients that are there, without those whose hooks are still to come."""
        return [each for each in self.clients.values() if each.id not in self.joining]

    def find_sender(self, event: ClientEvent) -> ClientInfo:
        """Return the client that has sent an event; an unknown connection is that of a controller that has resumed."""
        controllers = (each for each in self.clients.values() if each.role == "controller" and each.seat == event.seat)
        return self.find_client(event.client) or next(controllers, self.client)

    def find_client(self, client_id: str) -> ClientInfo | None:
        """Return a client that is there, or whose leaving is not handled yet."""
        return self.clients.get(client_id) or self.leaving.get(client_id)

    def count_step(self) -> None:
        """Count an output of the model, or an Idle; on the thread that returned it."""
        self.steps += 1
        # The loop may end the log meanwhile.
        log = self.log
        if log is not None:
            log.on_step(self.steps)

    def refuse_step(self, reason: str) -> None:
        """Note why the model skips a step, "" if it makes one; log it once for each change of the reason."""
        if reason and reason != self.refusal:
            logger.debug("the model skips steps id=%s: %s", self.id, reason)
        self.refusal = reason

    def log_reload(self, outcome: ReloadOutcome) -> None:
        """Report a reload to the log, and seed the generators of random numbers for the code that starts.

        Numbers that the old code has drawn in an incomplete step then have no effect.
        """
        if self.log is not None:
            self.log.on_reload(self.steps, outcome)
            self.seed_generators((self.log.seed + self.steps) % MOST_SEEDS)

    def seed_generators(self, seed: int) -> None:
        """Seed the generators of random numbers; of several sessions that use them each has its own states."""
        if self.generators is None:
            seed_generators(seed)
        else:
            self.generators.begin_session(self.id, seed)

    def fail_step(self, error: str) -> None:
        """Count a step that raised an exception, with this message, which does not end the session."""
        self.steps += 1
        if self.log is not None:
            self.log.on_error(self.steps, error)

    def end_log(self, error: str = "", *, between_steps: bool = False) -> None:
        """Report nothing of this session from now on; `error` is the message of the exception that ended it.

        One that came `between_steps` is not from the model's code, as when a process of a runner died.
        """
        log, self.log = self.log, None
        if log is not None:
            log.on_end(self.steps, error, between_steps=between_steps)

    def begin_anew(self, request: StepRequest) -> None:
        """Stop this session so that another begins with the same clients, for a request with `reset`."""
        self.reset_for = request
        self.stop()

    def stop(self, *, grace_s: float = 0.0) -> None:
        """Stop the session: wake the driver, and cancel the author's coroutine if it still waits after `grace_s`.

        May be called twice.
        """
        self.stopping = True
        if self._running is not None:
            running = self._running
            if grace_s:
                self._clock.call_at(self._clock.now() + grace_s, lambda: self._cancel(running))
            else:
                running.cancel()
        self.wake()

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        # The same task closes the generator later, which must not be cancelled.
        if self._running is task:
            task.cancel()

    @contextlib.contextmanager
    def handling(self, n: int, arrived_at: float, seat: int = 0) -> Iterator[None]:
        """Apply event `n` of a seat in the block; the server received it at `arrived_at`, 0 if unknown."""
        if arrived_at:
            self._unshown.append((n, seat, arrived_at))
        token = _handled.set((self.id, n, seat))
        try:
            yield
            self.applied = self.with_handled(self.applied)
        finally:
            _handled.reset(token)

    @property
    def handled_here(self) -> int:
        """Return the number of the event whose handler, or a task started by it, is running; 0 outside of handlers.

        Output of a handler counts as made with its event; output of other code at that time does not.
        """
        session, n, _ = _handled.get()
        return n if session == self.id else 0

    def with_handled(self, applied: Applied) -> Applied:
        """Return the numbers of applied events, including the event of `handled_here`."""
        session, n, seat = _handled.get()
        if session != self.id or n <= applied[seat]:
            return applied
        return (*applied[:seat], n, *applied[seat + 1 :])

    def shown_by(self, applied: Applied) -> tuple[float, ...]:
        """Return the arrival times of the events that a frame with this `applied` is the first to show."""
        first = []
        while self._unshown and self._unshown[0][0] <= applied[self._unshown[0][1]]:
            first.append(self._unshown.popleft()[2])
        return tuple(first)

    @property
    def paused(self) -> bool:
        """Return whether steps pause; events are still handled.

        Steps pause as soon as the last client has left, before its hook has run: a step could wait for an input.
        """
        return self._paused or self.deserted or not self.clients

    def pause(self, paused: bool) -> None:
        """Make no steps while `paused`, because the controller is away; events are still handled."""
        self._paused = paused
        self.wake()

    def desert(self, deserted: bool) -> None:
        """Pause steps while no client is there."""
        self.deserted = deserted
        self.wake()

    def notify_input(self) -> None:
        """Wake an idle model: an input can be read."""
        self.input_pending = True
        self.wake()

    def wake(self) -> None:
        """Wake everything that waits on an alarm of this session."""
        self.alarm.ring()
        self.room.ring()
        self.sound_room.ring()

    def wall_us(self, now: float) -> int:
        """Return microseconds since the epoch for monotonic seconds."""
        return int((now + self._wall_offset_s) * 1e6)

    def draw_numbers(self) -> None:
        """Draw the random numbers of this session until another one does, which may be during a wait."""
        if self.generators is not None:
            self.generators.enter(self.id)

    def with_numbers(self, work: Awaitable[T]) -> Awaitable[T]:
        """Return the author's code such that it draws the random numbers of this session."""
        if self.generators is None:
            return work
        return resumed_by(functools.partial(self.generators.enter, self.id), work)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine of the author; raise SessionStopped if the session stops before it ends."""
        if self.stopping:
            work.close()
            raise SessionStopped
        task: asyncio.Task[T] = asyncio.create_task(without_exit(self.with_numbers(work)))
        return await self.guard_task(task, task)

    async def guard_task(self, result: asyncio.Future[T], task: asyncio.Task[Any]) -> T:
        """Await a result of the author's code in `task`; raise SessionStopped if the session stops before it comes."""
        self._running = task
        try:
            return await result
        except asyncio.CancelledError:
            if not result.cancelled() or _is_being_cancelled():
                raise
            if self.stopping:
                raise SessionStopped from None
            raise RuntimeError("the model awaited something that was cancelled") from None
        finally:
            self._running = None


async def without_exit(work: Awaitable[T]) -> T:
    """Await the author's code in the running task; exceptions that would end the loop or the task become RuntimeError.

    These are its `sys.exit()`, KeyboardInterrupt, and a GeneratorExit that it raises itself.
    """
    task = asyncio.current_task()
    try:
        return await work
    except GeneratorExit as error:
        # The task itself may be closed, by the end of the loop.
        if not _runs(task):
            raise
        raise RuntimeError("the model raised GeneratorExit") from error
    except SystemExit as error:
        raise RuntimeError(f"the model called sys.exit({error.code!r})") from error
    except KeyboardInterrupt as error:
        raise RuntimeError("the model raised KeyboardInterrupt") from error


def runs_in_handler() -> bool:
    """Return whether the running code is the handler of an event, or a task that it has started."""
    return bool(_handled.get()[1])


def _runs(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def must_pass(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the running task, which must propagate."""
    return isinstance(error, asyncio.CancelledError) and _is_being_cancelled()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
