"""The engine as a child process: started with its ends of the seam, asked to end, killed with its descendants."""

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

from reactor_runtime.ipc.keeper import ABORT, END
from reactor_runtime.ipc.ring import create_memory

SOCKET_BUFFER_BYTES = 1 << 20
KILLED_S = 1.0


class EngineProcess:
    """Start `python -m reactor_runtime.engine` with one end of a new seam; keep the other as `socket` and `memory_fd`.

    On Linux the child is a keeper, which starts the engine and ends after all of its descendants (`seam.keeper`).
    The engine inherits stdin, the process group, and without `output_fd` stdout and stderr, so that `breakpoint()`
    works in a model, and the environment, with the `variables` in place of their like. Through `nudges` it wakes
    encoder threads, as the process of number `life`. Start it from the thread that lives longest: the kernel ends the
    child when that thread ends.
    """

    def __init__(
        self,
        output_fd: int | None = None,
        variables: Mapping[str, str] | None = None,
        hints: socket.socket | None = None,
        engine_run: int = 0,
    ) -> None:
        with contextlib.ExitStack() as unless_started:
            self.memory_fd = create_memory()
            unless_started.callback(os.close, self.memory_fd)
            ours, theirs = socket.socketpair()
            unless_started.callback(ours.close)
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
            nudge_fd = -1 if hints is None else hints.fileno()
            arguments = [str(theirs.fileno()), str(self.memory_fd), str(os.getpid()), str(nudge_fd), str(engine_run)]
            with theirs, _interrupt_held():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "reactor_runtime.engine", *arguments],
                    pass_fds=(theirs.fileno(), self.memory_fd, *([] if hints is None else [nudge_fd])),
                    stdout=output_fd,
                    stderr=output_fd,
                    env={**os.environ, **_own_path(), **(variables or {})},
                )
            unless_started.pop_all()
        ours.setblocking(False)
        self.socket = ours

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; returns the exit status as `subprocess` gives it, None when the time is over. Blocks."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, deadline: float) -> int:
        """Wait until it has ended by itself, and from `deadline` (monotonic seconds) on end it. Blocks."""
        status = self.wait(max(0.0, deadline - time.monotonic()))
        if status is None:
            self.kill()
            status = self.wait(KILLED_S)
        if status is None:  # the keeper is stopped, or waits for a process that the kernel holds
            self._process.kill()
            status = self._process.wait()
        return status

    def kill(self) -> None:
        """Kill it and all its descendants; returns at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(END)

    def abort(self) -> None:
        """End it at once, and have it print where each thread is, whatever holds the lock, and if it was stopped."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(ABORT)
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Give back the descriptors; the process must have ended."""
        os.close(self.memory_fd)


def _own_path() -> dict[str, str]:
    """Have a child of a checkout import this code, even where another version, or none, is installed."""
    root = str(Path(__file__).parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": root if not inherited else os.pathsep.join((root, inherited))}


@contextlib.contextmanager
def _interrupt_held() -> Iterator[None]:
    """Have a child start with SIGINT blocked: Ctrl-C must not end its interpreter before it can decide to ignore it."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
