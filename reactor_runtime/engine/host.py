"""Serve the model that is loaded in this process: warm it up, load it again, and end its sessions after a crash.

It has no process and no socket: `engine.run` starts it, and `engine.ipc_reader` delivers the server's messages.
`session_host.py` has what belongs to one session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from reactor_runtime import errors
from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.config import GivenConfig
from reactor_runtime.distributed.errors import RunnerUnhealthy
from reactor_runtime.engine import author
from reactor_runtime.engine.batch import Batch
from reactor_runtime.engine.capacity import CapacityReports
from reactor_runtime.engine.dispatch import CheckedEvent
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.leaks import Leak, LeakGuard
from reactor_runtime.engine.reload.reloader import Reloader
from reactor_runtime.engine.runners import ModelRunners
from reactor_runtime.engine.seeds import SharedGenerators
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session_host import SessionHost
from reactor_runtime.engine.step_turns import StepTurns
from reactor_runtime.ipc import messages as ipc

logger = logging.getLogger(__name__)

OTHER_SEATS = "load() has set another number of seats: restart the server"


class Host:
    """Serve a loaded model; belongs to the thread and loop of `serve`.

    `receive_message` takes the server's messages. `leaks` compares the use of resources after each session. With
    `ends_at_crash`, an exception after which the model has to be loaded again ends `serve`, and `crashed` is true. Each
    of the `slots`, one for each outlet, serves one session at a time.
    """

    def __init__(
        self,
        served: ServedModel,
        outlets: Sequence[Outlet],
        parts: HostParts,
        *,
        leaks: LeakGuard | None = None,
        ends_at_crash: bool = False,
    ) -> None:
        self.served = served
        self._parts = parts
        self._leaks = leaks
        self._ends_at_crash = ends_at_crash
        # The exception after which the model has to be loaded again.
        self._crashed_by: BaseException | None = None
        # Read by the thread that answers heartbeats.
        self.loads_again = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = 0
        is_shared = len(outlets) > 1
        self.step_turns = StepTurns(parts.clock.now) if is_shared else None
        self.generators = SharedGenerators() if is_shared else None
        self.batch = Batch.of(served, parts.clock)
        send, in_batches = outlets[0].sink.send, self.batch is not None
        self.capacity = (
            CapacityReports(len(outlets), parts.clock, send, parts.read_memory, in_batches=in_batches)
            if is_shared
            else None
        )
        self.runners = ModelRunners(outlets[0].sink.send, self._runner_lost)
        self.slots = [SessionHost(self, index, outlet, parts) for index, outlet in enumerate(outlets)]
        if is_shared:
            # Each slot has attached its inputs and calls; `load()` and the warm-up use those of the first.
            self.slots[0].attach(served.version)
        self.slots[0].pace.begin_load()

    @property
    def reloader(self) -> Reloader | None:
        return self.slots[0].reloader

    @property
    def lost(self) -> BaseException | None:
        """Return why the model can't be served any longer; None while it can."""
        return self.runners.lost or self._crashed_by

    @property
    def crashed(self) -> bool:
        """Return whether no other session may start with this model."""
        return self.lost is not None

    def load_again(self, contract: Contract, given: GivenConfig) -> Version:
        """Make and load another instance; the one that is served continues if that fails."""
        reload, project = self._parts.reload, self._parts.project
        assert reload is not None, "only the reloader calls this"
        self.loads_again = True
        with contextlib.ExitStack() as stack:
            stack.enter_context(reload.while_loading(contract))
            stack.callback(setattr, self, "loads_again", False)
            config = model_config(contract.model, given, project)
            made = Version(author.make_model(contract, config.values, project), contract, config.values)
            pace = self.slots[0].pace
            stack.callback(pace.end_load)
            pace.begin_load()
            try:
                self.slots[0].attach(made)
                author.call_load(made.model, config, project)
                contract.style.check_loaded(made.model)
                loaded = author.as_loaded(made, pace.loaded_fps)
                if loaded.contract.seats != self.slots[0].served.contract.seats:
                    raise errors.LoadError(OTHER_SEATS, where=location_of(contract.model, "load"))
            except errors.ReactorError:
                self.slots[0].attach(self.served.version)
                raise
        return loaded

    def serve_loaded(self) -> None:
        """Serve the model as its `load()` has left it; raise a LoadError for what can't be served.

        Where several sessions share the model, each slot serves a copy of it after the warm-up.
        """
        loaded = author.as_loaded(self.served.version, self.slots[0].pace.loaded_fps)
        if self.step_turns is not None:
            self.served.version = loaded
        self.slots[0].serve_version(loaded)

    def begin_session(self, slot: int) -> None:
        """Count a session that starts."""
        self._running += 1
        if self.capacity is not None:
            self.capacity.begin_session(slot)
        if self._leaks is not None:
            self._leaks.begin()

    def end_session(self, slot: int) -> Sequence[Leak]:
        """Count a session that has ended; return the kinds of resources that keep growing.

        The use of a session can be measured only when no other session runs.
        """
        self._running -= 1
        if self.capacity is not None:
            self.capacity.end_session(slot)
        return () if self._leaks is None or self._running else self._leaks.compare()

    def crash(self, error: BaseException) -> None:
        """Serve no other session with this model, because of this exception, and end those that run."""
        if self._ends_at_crash:
            self._crashed_by = error
            for slot in self.slots:
                slot.end()

    def _runner_lost(self, error: RunnerUnhealthy) -> None:
        """End the session with this error, and then `serve`; any thread."""
        # If there is no loop yet, `serve` will see it.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_with, error)

    def _end_with(self, lost: RunnerUnhealthy) -> None:
        logger.error("the model can't be served any longer: %s", lost)
        self.receive_message(ipc.Shutdown())

    async def warm_up(self, on_step: Callable[[int, int], object] = lambda *_: None) -> None:
        """Make the model's `warmup` steps in a session without a client; raise LoadError if one fails.

        Comes before `serve`. `on_step` is called before each step, with its number and the number of steps.
        """
        await self.slots[0].warm_up(on_step)
        for slot in self.slots:
            slot.first_step.warmed_up = self.slots[0].first_step.warmed_up

    def stalled(self) -> str:
        """Return the stack of author's code that made no progress in another thread since the last call, else ""."""
        return next(filter(None, [slot.stalled() for slot in self.slots]), "")

    async def serve(self) -> None:
        """Serve sessions until Shutdown, or until the model has crashed."""
        self._loop = asyncio.get_running_loop()
        if self.runners.lost is not None:
            self._end_with(self.runners.lost)
        await asyncio.gather(*(slot.serve() for slot in self.slots))
        await self.runners.shutdown()
        # Last, because it waits for author's code that may block its thread.
        for slot in self.slots:
            slot.close()

    def receive_message(self, message: ipc.Message | CheckedEvent) -> None:
        """Handle a message of the server, or a checked event; return at once."""
        match message:
            case ipc.ReloadFiles():
                assert self.reloader is not None, "the reader answers for a model that several sessions share"
                self.reloader.reload(author.given_config(message), message.presets, everything=message.everything)
            case ipc.Shutdown():
                for slot in self.slots:
                    slot.end()
            case _:
                self.slots[0].receive_message(message)
