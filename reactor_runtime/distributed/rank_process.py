"""One rank as a process: it is started with its end of the socket, watched until its end, and killed with its group."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reactor_runtime.distributed.rank_output import RankOutput
from reactor_runtime.ipc.process import own_path

# How long the output of a rank that has ended may take to arrive.
OUTPUT_END_S = 1.5


@dataclass(frozen=True, slots=True)
class RankDescriptors:
    """Hold the descriptors that a rank inherits: the slots of requests and results, and the socket of the store.

    -1 stands for none.
    """

    requests: int
    results: int = -1
    store: int = -1


class RankProcess:
    """Start one rank in a session and process group of its own, and call `on_exit` when it has ended, on a thread.

    `exited` is set after that, and `status` is the exit status, as in `subprocess`. The process ends with this one: on
    Linux the kernel kills it, elsewhere it notices the end of its socket. Raises OSError if it can't be started.
    """

    def __init__(
        self,
        rank: int,
        variables: Mapping[str, str],
        descriptors: RankDescriptors,
        on_exit: Callable[[RankProcess], object],
    ) -> None:
        self.rank = rank
        self.status: int | None = None
        self.exited = threading.Event()
        self._on_exit = on_exit
        # Otherwise a signal could be sent to another process of the same number.
        self._lock = threading.Lock()
        started = threading.Event()
        failures: list[Exception] = []
        self.socket, theirs = socket.socketpair()
        read_fd, write_fd = os.pipe()
        self.output = RankOutput(rank, read_fd)
        inherited = (theirs.fileno(), descriptors.requests, descriptors.results, descriptors.store)

        def run() -> None:
            try:
                self._process = _start(variables, inherited, write_fd)
            # Raised again by the constructor.
            except Exception as error:  # noqa: BLE001
                failures.append(error)
            finally:
                theirs.close()
                os.close(write_fd)
                started.set()
            if not failures:
                self._watch()

        # The kernel ends the process with the thread that started it, so that is the one that waits for it.
        threading.Thread(target=run, name=f"reactor-rank-{rank}", daemon=True).start()
        started.wait()
        if failures:
            self.socket.close()
            raise failures[0]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill it and the processes that it has started, without waiting."""
        self._signal(signal.SIGKILL)

    def abort(self) -> None:
        """Make it print where it is, and end."""
        self._signal(signal.SIGABRT)
        self._signal(signal.SIGCONT)

    def finish(self) -> None:
        """Send no more calls: the process ends when it has answered those it was sent."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        _wait_for_end(self._process)
        with self._lock:
            _signal_group(self._process.pid, signal.SIGKILL)
            self.status = self._process.wait()
        self.output.join(OUTPUT_END_S)
        try:
            self._on_exit(self)
        finally:
            self.exited.set()

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self.status is None:
                _signal_group(self._process.pid, number)


def _start(variables: Mapping[str, str], descriptors: Sequence[int], output: int) -> subprocess.Popen[bytes]:
    arguments = [str(fd) for fd in descriptors] + [str(os.getpid())]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "reactor_runtime.distributed", *arguments],
        pass_fds=[fd for fd in descriptors if fd >= 0],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, **own_path(), **variables},
        start_new_session=True,
    )


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has ended, and keep its number taken where the system can do that."""
    if hasattr(os, "waitid"):
        # The author's code may have waited for all children.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS refuses a signal to a group whose processes have ended.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
