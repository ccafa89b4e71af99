"""One engine process from start to end: its messages, whether it hangs, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from reactor_runtime import errors
from reactor_runtime.clock import Clock
from reactor_runtime.errors import LoadError, ReactorError, describe_exit
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.credits import CreditWriter
from reactor_runtime.ipc.link import Link
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.ipc.shortage import EXIT_SHORTAGE
from reactor_runtime.oom_kills import OomKills
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.workers.watchdog import Watchdog

logger = logging.getLogger(__name__)

STOP_S = 0.8
# The engine writes the rest of a recording for up to 5 s.
RECORD_STOP_S = 6.0
ABORT_S = 2.0
# The parts of the event loop's time for the messages of one engine, and of all engines.
MOST_SHARE = 0.25
ALL_SHARES = 0.5
# What a run passes on.
OfEngine = ipc.Loading | ipc.Described | ipc.Reloaded | ipc.Ready | ipc.Capacity | ipc.Failed | ipc.OfSession
LOADING_HINT = "--load-timeout limits the time until the model is loaded"


class EngineRun:
    """Start an engine process, receive its messages, and end it when its model hangs.

    `on_bundle` has a callback for each slot, in their order, which gets a bundle and the reader of the shared memory
    with its pixels. `on_message` gets every message that is not handled here, with its slot. `ready_at` is the time at
    which the model was ready, `failure` the reason why it can't be served. `ids` returns the fields of a log line.
    `oom_kills` has to be made before the process starts. Raises OSError when the process can't be started.
    """

    def __init__(
        self,
        on_message: Callable[[int, OfEngine], None],
        clock: Clock,
        start: Callable[..., EngineProcess],
        options: ServeOptions,
        *,
        on_bundle: Sequence[Callable[[ipc.Bundle, RingReader], None]],
        ids: Callable[[], Mapping[str, str]],
        oom_kills: OomKills,
    ) -> None:
        self._oom_kills = oom_kills
        self.process = start()
        # The numbers of the slots with a session.
        self.sessions: set[int] = set()
        self.failure: ReactorError | None = None
        self.ready_at: float | None = None
        self.link: Link | None = None
        self._on_bundle = on_bundle
        self._on_message = on_message
        self._ring = RingReader(self.process.memory_fd)
        # One for each slot; the engine says how many there are when it is ready.
        self._credits = [CreditWriter(self.process.memory_fd)]
        self._options = options
        self._clock = clock
        self._ids = ids
        self._watchdog = self._watchdog_for(options.step_timeout_s)
        self._ready = asyncio.Event()
        self._hung = ""
        # How long the end may take, after the model has ended.
        self._grace_s = 0.0
        self._status: int | None = None

    @property
    def lacked_resources(self) -> bool:
        """Return whether the process ended before the model was loaded for lack of memory, descriptors or processes."""
        return self._status == EXIT_SHORTAGE and self.ready_at is None and self.failure is None

    def send(self, message: ipc.ToEngine, slot: int = 0) -> None:
        if self.link is None:
            return
        match message:
            case ipc.Credit():
                if self._credits[slot].put_credit(message):
                    return
            case ipc.StartSession():
                self.sessions.add(slot)
                self._watchdog.ending.discard(slot)
            case ipc.StopSession():
                self._watchdog.ending.add(slot)
        self.link.send(message, slot)

    async def run(self, load: ipc.Load) -> None:
        """Load the model, and receive messages until the process closes its socket.

        A defect of the server in the handling of a message ends the process and not the server.
        """
        try:
            await self._receive_all(load)
        except Exception:
            logger.exception("receiving from the model's process failed: the process is killed", extra=self._ids())
            self.process.kill()

    async def _receive_all(self, load: ipc.Load) -> None:
        share = min(MOST_SHARE, ALL_SHARES / self._options.sessions)
        link = self.link = await Link.open(self.process.socket, self._receive, self._clock, share=share)
        watch_task = asyncio.create_task(self._watch())
        try:
            link.send(load)
            await link.lost
        finally:
            self.link = None
            link.close()
            watch_task.cancel()
            await asyncio.wait([watch_task])
        if not watch_task.cancelled():
            watch_task.result()

    async def end(self) -> str:
        """Wait for the end of the process, killing it if need be; return how it ended, in words."""
        end_s = STOP_S + self._grace_s
        try:
            if await asyncio.to_thread(self.process.wait, end_s) is None and not self._hung:
                self._hung = f"was killed: it did not end within {end_s:g} s, because of a thread or an exit handler"
            self._status = await asyncio.to_thread(self.process.end, time.monotonic())
            oom_killed = await asyncio.to_thread(self._oom_kills.happened)
        finally:
            # Encoding jobs may hold the reader for longer, and with it all of the memory.
            self._ring.close()
            for credits in self._credits:
                credits.close()
            self.process.close()
        return self._hung or describe_exit(self._status, oom_killed=oom_killed)

    async def stop(self) -> None:
        """Send the process a shutdown message, and kill it if it does not end.

        Takes at most 2 s, and 7 s with `--record`; longer if the model has asked for it.
        """
        self.send(ipc.Shutdown())
        stop_s = (STOP_S if self._options.record is None else RECORD_STOP_S) + self._grace_s
        await asyncio.to_thread(self.process.end, time.monotonic() + stop_s)

    def _receive(self, slot: int, message: ipc.ToServer) -> None:
        match message:
            case ipc.Bundle():
                self._on_bundle[slot](message, self._ring)
                return
            case ipc.CreditsTaken():
                awaited = self._credits[slot].credits_taken(message)
                if awaited is not None and self.link is not None:
                    self.link.send(awaited, slot)
                return
            case ipc.Heartbeat():
                self._watchdog.record_heartbeat(message)
                return
            case ipc.Grace():
                self._grace_s = message.seconds
                return
            case ipc.Ended():
                self.sessions.discard(slot)
                self._watchdog.ending.discard(slot)
            case ipc.Failed():
                self.failure = errors.from_json(message.error)
            case ipc.Ready() if self._hung:
                # The process is being killed: an aborted one may go on for a moment, and finish loading.
                return
            case ipc.Ready():
                memory = self.process.memory_fd
                self._credits += [CreditWriter(memory, each) for each in range(len(self._credits), message.sessions)]
                self.ready_at = time.monotonic()
                self._ready.set()
        self._on_message(slot, message)

    async def _watch(self) -> None:
        """End the process when the model takes too long to load, or hangs after that."""
        if self._options.load_timeout_s:
            timeout = f"{self._options.load_timeout_s:g} s"
            where = await self._wait_for_load()
            if where is not None:
                self.failure = LoadError(f"the model was not loaded within {timeout}", hint=LOADING_HINT)
                await self._end_hung(f"hung: the model was not loaded within {timeout}", where)
                return
        await self._ready.wait()
        self._watchdog = self._watchdog_for(self._options.step_timeout_s)
        where = await self._watchdog.wait_for_hang()
        what = "one step took longer than" if where else "nothing in it has answered for"
        await self._end_hung(f"hung: {what} {self._options.step_timeout_s:g} s", where)

    async def _wait_for_load(self) -> str | None:
        """Wait until the model is loaded, and return None; return its stack when that takes too long."""
        self._watchdog = self._watchdog_for(self._options.load_timeout_s)
        ready, hung = asyncio.create_task(self._ready.wait()), asyncio.create_task(self._watchdog.wait_for_hang())
        try:
            await asyncio.wait([ready, hung], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            hung.cancel()
            await asyncio.wait([ready, hung])
        # Without another wait before the end: the model may have become ready meanwhile.
        return None if self._ready.is_set() else hung.result()

    def _watchdog_for(self, timeout_s: float) -> Watchdog:
        return Watchdog(self._clock, lambda: self.send(ipc.HeartbeatRequest()), timeout_s, self._ids)

    async def _end_hung(self, how: str, where: str) -> None:
        self._hung = how
        if where:
            logger.error("the model's process %s. It is here:\n%s", how, where.rstrip("\n"), extra=self._ids())
            self.process.kill()
            return
        logger.error("the model's process %s; its threads:", how, extra=self._ids())
        self.process.abort()
        await asyncio.sleep(ABORT_S)
        self.process.kill()
