"""The engine as a child process: start it with its end of the ipc, end it, kill it with its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from reactor_runtime.ipc.credits import CREDITS_BYTES
from reactor_runtime.ipc.ring import create_memory
from reactor_runtime.ipc.subreaper import ABORT, END

SOCKET_BUFFER_BYTES = 1 << 20
KILLED_S = 1.0
# By default, OpenMP's threads spin between two operations of a model, on the cores that encode and send its frames.
OPENMP_WAITS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


class EngineProcess:
    """Start `python -m reactor_runtime.engine` with one end of a socket pair; keep `socket` and `memory_fd`.

    On Linux the child is a subreaper, which starts the engine and ends after all of its descendants (`ipc.subreaper`).
    The engine inherits the environment, replaced by `variables`, stdin, the process group, and stdout or stderr where
    its descriptor in `output_fds` is None, so that `breakpoint()` works in a model. Its threads of OpenMP sleep while
    they wait, unless the environment has `OMP_WAIT_POLICY` or `GOMP_SPINCOUNT`.
    Start it from the thread that ends last: the kernel ends the child when that thread ends.
    """

    def __init__(
        self,
        output_fds: tuple[int | None, int | None] = (None, None),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        with contextlib.ExitStack() as unless_started:
            self.memory_fd = create_memory(CREDITS_BYTES)
            unless_started.callback(os.close, self.memory_fd)
            ours, theirs = socket.socketpair()
            unless_started.callback(ours.close)
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
            arguments = [str(theirs.fileno()), str(self.memory_fd), str(os.getpid())]
            with theirs, _sigint_blocked():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "reactor_runtime.engine", *arguments],
                    pass_fds=(theirs.fileno(), self.memory_fd),
                    stdout=output_fds[0],
                    stderr=output_fds[1],
                    env={**os.environ, **_openmp_waits(), **own_path(), **(variables or {})},
                )
            unless_started.pop_all()
        ours.setblocking(False)
        self.socket = ours

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory_bytes(self) -> int | None:
        """Return the resident memory of it and its descendants; None where the system has no /proc, or it has ended."""
        try:
            return _resident_bytes(self.pid)
        except (OSError, ValueError):
            return None

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; return the exit status as `subprocess` does, None when the time is over. Blocks."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, deadline: float) -> int:
        """Wait until it ends by itself, and kill it at `deadline` (monotonic seconds); return its status. Blocks."""
        status = self.wait(max(0.0, deadline - time.monotonic()))
        if status is None:
            self.kill()
            status = self.wait(KILLED_S)
        # The subreaper is stopped, or waits for a process in an uninterruptible call.
        if status is None:
            self._process.kill()
            status = self._process.wait()
        return status

    def kill(self) -> None:
        """Kill it and all its descendants without waiting."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(END)

    def abort(self) -> None:
        """Abort it without waiting: it prints the stack of each thread, even while stopped or without the GIL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(ABORT)
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Close the memory; the process must have ended."""
        os.close(self.memory_fd)


def _resident_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants; a descendant that has just ended counts as empty."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    total = pages * os.sysconf("SC_PAGE_SIZE")
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += _resident_bytes(int(child))
    return total


def _openmp_waits() -> dict[str, str]:
    return {} if OPENMP_WAITS.keys() & os.environ.keys() else OPENMP_WAITS


def own_path() -> dict[str, str]:
    """Return a PYTHONPATH with which the child imports this code, even if another version, or none, is installed."""
    root = str(Path(__file__).parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": root if not inherited else os.pathsep.join((root, inherited))}


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Start a child with SIGINT blocked: Ctrl-C must not end its interpreter before it ignores the signal."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
