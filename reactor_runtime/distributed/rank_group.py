"""All ranks of a runner: started together, called together, and ended together."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import selectors
import socket
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any, NoReturn

from reactor_runtime.distributed.errors import RunnerUnhealthy, WorkerCrashed
from reactor_runtime.distributed.exchange import MessageKind, RankMessage, receive_from, send_to
from reactor_runtime.distributed.outcomes import desync, position_of, raised_in, timeout, written_by
from reactor_runtime.distributed.owner import GRACE_S, RunnerOwner
from reactor_runtime.distributed.packing import PackedValue, unpack
from reactor_runtime.distributed.rank_process import OUTPUT_END_S, RankDescriptors, RankProcess
from reactor_runtime.distributed.remote_error import RemoteError
from reactor_runtime.distributed.shared_slot import SharedSlot
from reactor_runtime.errors import describe_exit
from reactor_runtime.oom_kills import OomKills

logger = logging.getLogger(__name__)

# How long the process of a rank that has closed its socket may take to end, and its output to arrive.
CLOSED_S = OUTPUT_END_S + 0.5
# How long a rank that is aborted may take to print where it is, also on a busy machine.
ABORT_S = 3.0
SHUT_DOWN = "the runner has been shut down"


class RankGroup:
    """Start and call the processes of a runner; one call at a time, from any thread.

    `worker` is the class of the workers. The first trouble ends all ranks: the call that meets it raises it, or the
    next one if a rank ends between two calls, and each later call raises RuntimeError.
    """

    def __init__(self, worker: type, world_size: int, *, with_process_group: bool) -> None:
        self._name = worker.__name__
        self.module = worker.__module__
        self._world_size = world_size
        self._with_process_group = with_process_group
        self._pid = os.getpid()
        self._ranks: list[RankProcess] = []
        self._requests: SharedSlot | None = None
        self._results: SharedSlot | None = None
        self._port: socket.socket | None = None
        # Held during a call.
        self._calls = threading.Lock()
        self._calling_thread: int | None = None
        # Held to change what follows.
        self._lock = threading.Lock()
        self._trouble: RunnerUnhealthy | None = None
        self._reported = False
        self._closing = False
        self._on_lost: weakref.WeakMethod[Any] | None = None
        # Written to when a rank ends or the runner is shut down: a call that waits then looks at the two above.
        self._wake, self._woken = socket.socketpair()

    @property
    def healthy(self) -> bool:
        return self._trouble is None and not self._closing

    def start(self, load: PackedValue, *, timeout_s: float, call_timeout_s: float, owner: RunnerOwner | None) -> None:
        """Start all ranks and wait until each has loaded its worker; raise its exception, and end all, if one fails."""
        atexit.register(self.shutdown)
        logger.info("loading ranks=%d worker=%s", self._world_size, self._name)
        began = time.monotonic()
        try:
            self._start_processes()
            self.call(MessageKind.LOAD, load, timeout_s, others_s=call_timeout_s)
        except BaseException:
            self.kill()
            self.shutdown()
            raise
        logger.info("loaded ranks=%d worker=%s seconds=%.1f", self._world_size, self._name, time.monotonic() - began)
        if owner is not None:
            owner.on_runner_start(self)
            with self._lock:
                self._on_lost = weakref.WeakMethod(owner.on_runner_lost)
                lost = self._trouble
            if lost is not None:
                owner.on_runner_lost(lost)

    def call(self, kind: MessageKind, value: PackedValue, timeout_s: float, *, others_s: float | None = None) -> Any:
        """Call a method of all workers, and return the result of rank 0.

        When the first rank has raised an exception, the others have `others_s` left.
        """
        if self._calling_thread == threading.get_ident():
            raise RuntimeError("the runner is used inside of its own call")
        with self._calls:
            self._calling_thread = threading.get_ident()
            try:
                body, buffers = self._exchange(kind, value, timeout_s, others_s)
            finally:
                self._calling_thread = None
        # The author's classes may do anything here, so the lock is free again.
        return unpack(body, buffers) if body else None

    def shutdown(self) -> None:
        """End all ranks when they have answered the current call, and kill those that are there after 30 s."""
        # A forked process has our exit handlers too.
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closing = True
        self._wake_call()
        for rank in self._ranks:
            rank.finish()
        deadline = time.monotonic() + GRACE_S
        for rank in self._ranks:
            if not rank.exited.wait(max(0.0, deadline - time.monotonic())):
                logger.warning("killed: it has not ended within %.0f s rank=%d", GRACE_S, rank.rank)
                rank.kill()
        for rank in self._ranks:
            # A process in an uninterruptible call does not end.
            rank.exited.wait(CLOSED_S)
        # A signal handler may have interrupted a call, which then ends with an error.
        if self._calling_thread != threading.get_ident():
            with self._calls:
                self._close()
        atexit.unregister(self.shutdown)

    def shutdown_soon(self) -> None:
        """Shut down on a thread; for the end of a runner that nothing refers to any longer."""
        if os.getpid() == self._pid and not self._closing:
            threading.Thread(target=self.shutdown, name="reactor-rank-shutdown").start()

    def kill(self) -> None:
        """Kill all ranks without waiting."""
        for rank in self._ranks:
            rank.kill()

    def _start_processes(self) -> None:
        self._requests = SharedSlot()
        self._results = SharedSlot()
        self._oom_kills = OomKills()
        self._port = _bound_socket()
        variables = {
            "WORLD_SIZE": str(self._world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._port.getsockname()[1]),
        }
        if self._with_process_group:
            # Rank 0 serves the store on this very socket: no other program can take the port meanwhile.
            self._port.listen()
            variables |= _loopback()
        for number in range(self._world_size):
            leads = number == 0
            descriptors = RankDescriptors(
                self._requests.fd,
                self._results.fd if leads else -1,
                self._port.fileno() if leads and self._with_process_group else -1,
            )
            own = {"RANK": str(number), "LOCAL_RANK": str(number)}
            self._ranks.append(RankProcess(number, variables | own, descriptors, self._on_exit))
        if self._with_process_group:
            self._port.close()

    def _exchange(
        self, kind: MessageKind, value: PackedValue, timeout_s: float, others_s: float | None
    ) -> tuple[bytes | bytearray, list[memoryview]]:
        self._check_usable()
        assert self._requests is not None, "the runner has started"
        self._requests.write(value.buffers)
        replies: dict[int, RankMessage] = {}
        trouble: RunnerUnhealthy | None = None
        try:
            message = RankMessage(kind, value.body, tuple(value.sizes))
            self._collect(message, replies, time.monotonic() + timeout_s, others_s)
        except _Woken:
            trouble = self._trouble
        except TimeoutError:
            trouble = self._late(kind, replies, timeout_s)
        except BaseException:
            # A signal has interrupted the call: its replies would be taken for those of the next.
            self._reported = True
            self._fail(RunnerUnhealthy(f"{kind.method} of {self._name} was interrupted"))
            raise
        raised = raised_in(replies)
        outcomes = {raised[rank].kind if rank in raised else "" for rank in replies}
        if trouble is None and len(outcomes) > 1:
            trouble = desync(self._name, kind, self._world_size, replies, raised)
        if self._closing:
            raise RuntimeError(SHUT_DOWN)
        if trouble is not None:
            raise self._first_trouble(trouble)
        if raised:
            raise raised[0].to_exception()
        return self._result(replies[0])

    def _check_usable(self) -> None:
        if self._closing:
            raise RuntimeError(SHUT_DOWN)
        if self._trouble is None:
            return
        if self._reported:
            raise RuntimeError(f"the runner can't be used any longer: {self._trouble.message}") from self._trouble
        raise self._first_trouble(self._trouble)

    def _collect(
        self, message: RankMessage, replies: dict[int, RankMessage], deadline: float, others_s: float | None
    ) -> None:
        """Send a message to all ranks, and receive their replies; raise TimeoutError at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for rank in self._ranks:
                self._send(rank, message, deadline)
                selector.register(rank.socket, selectors.EVENT_READ, rank)
            while len(replies) < self._world_size:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    if key.data is None:
                        self._on_woken()
                        continue
                    selector.unregister(key.fileobj)
                    reply = replies[key.data.rank] = self._receive(key.data, deadline)
                    if message.kind is MessageKind.LOAD and reply.kind is MessageKind.RETURNED:
                        logger.info("loaded rank=%d of=%d", key.data.rank, self._world_size)
                    if reply.kind is MessageKind.RAISED and others_s is not None:
                        deadline = min(deadline, time.monotonic() + others_s)

    def _send(self, rank: RankProcess, message: RankMessage, deadline: float) -> None:
        try:
            send_to(rank.socket, message, deadline)
        except TimeoutError:
            raise
        except OSError:
            self._await_end(rank)

    def _receive(self, rank: RankProcess, deadline: float) -> RankMessage:
        try:
            return receive_from(rank.socket, deadline)
        except EOFError:
            self._await_end(rank)

    def _on_woken(self) -> None:
        """End the call if that is why it was woken; an earlier call may have left the byte."""
        self._woken.recv(1)
        if self._closing or self._trouble is not None:
            raise _Woken

    def _await_end(self, rank: RankProcess) -> NoReturn:
        """Wait for the end of a rank that has closed its socket, which sets the trouble; end the call."""
        if not rank.exited.wait(CLOSED_S):
            rank.kill()
            if not rank.exited.wait(CLOSED_S):
                self._fail(WorkerCrashed(f"rank {rank.rank} of {self._name} has closed its socket, and does not end"))
        raise _Woken

    def _result(self, reply: RankMessage) -> tuple[bytes | bytearray, list[memoryview]]:
        """Return the pickled result of rank 0 and its buffers; raise the reason if it could not be sent."""
        if reply.kind is MessageKind.UNSENT:
            remote: RemoteError = unpack(reply.body)
            raise remote.to_exception()
        assert self._results is not None, "the runner has started"
        return reply.body, self._results.read(reply.sizes)

    def _late(self, kind: MessageKind, replies: Mapping[int, RankMessage], timeout_s: float) -> RunnerUnhealthy:
        """Return the error for ranks that have not answered, after they have printed where they are."""
        if raised := raised_in(replies):
            return desync(self._name, kind, self._world_size, replies, raised)
        late = [rank for rank in self._ranks if rank.rank not in replies]
        error = timeout(self._name, kind, [rank.rank for rank in late], sorted(replies), timeout_s)
        with self._lock:
            # The ends of the ranks that follow are no crashes.
            self._trouble = trouble = self._trouble or error
        for rank in late:
            rank.abort()
        deadline = time.monotonic() + ABORT_S
        for rank in late:
            rank.exited.wait(max(0.0, deadline - time.monotonic()))
        error.details = "\n".join(position_of(rank.rank, rank.output.tail) for rank in late)
        return trouble

    def _first_trouble(self, error: RunnerUnhealthy) -> RunnerUnhealthy:
        """Return the trouble of the runner, which is `error` if it is the first, to be raised once."""
        self._reported = True
        return self._fail(error)

    def _fail(self, error: RunnerUnhealthy) -> RunnerUnhealthy:
        """Make the runner unhealthy, kill the ranks and notify the owner; return its first trouble."""
        with self._lock:
            trouble = self._trouble = self._trouble or error
            on_lost, self._on_lost = self._on_lost, None
        self.kill()
        if on_lost is not None and not self._closing and (notify := on_lost()) is not None:
            notify(trouble)
        return trouble

    def _on_exit(self, rank: RankProcess) -> None:
        """Note the end of a rank, on the thread that waited for it."""
        if self._closing or self._trouble is not None:
            return
        assert rank.status is not None, "it has ended"
        how = describe_exit(rank.status, oom_killed=self._oom_kills.happened())
        error = WorkerCrashed(
            f"rank {rank.rank} of {self._name} {how}", details=written_by(rank.rank, rank.output.tail)
        )
        self._fail(error)
        self._wake_call()

    def _wake_call(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"\0", socket.MSG_DONTWAIT)

    def _close(self) -> None:
        for each in (self._wake, self._woken, self._port, *(rank.socket for rank in self._ranks)):
            if each is not None:
                each.close()
        for slot in (self._requests, self._results):
            if slot is not None:
                slot.close()


class _Woken(Exception):
    """End a call, because the runner is shut down or has trouble."""


def _bound_socket() -> socket.socket:
    """Return a socket with a free port; until it is closed, only rank 0 takes the port, which asks for reuse."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


def _loopback() -> dict[str, str]:
    """Return the setting that makes gloo listen on this machine alone."""
    name = "lo0" if sys.platform == "darwin" else "lo"
    return {} if "GLOO_SOCKET_IFNAME" in os.environ else {"GLOO_SOCKET_IFNAME": name}
