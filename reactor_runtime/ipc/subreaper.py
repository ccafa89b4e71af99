"""Subreapers: two processes between the server and the engine that adopt and kill all descendants of the engine.

One is the parent of the other, so that one survives when any process is killed. Linux only (`PR_SET_CHILD_SUBREAPER`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
SUBREAPERS = 2

if sys.platform == "linux":
    # Other programs don't send these: a signal to the whole process group must not end a subreaper.
    END, ABORT = signal.SIGRTMIN, signal.SIGRTMIN + 1
else:
    END, ABORT = signal.SIGKILL, signal.SIGABRT


def start_subreapers(parent: int, release: Callable[[], None]) -> None:
    """Return in a child process; all its descendants are killed when it, `parent` or a subreaper ends.

    The calling process and one more become subreapers. They call `release` to close their descriptors, and end with
    the child's status. `END` kills the child and its descendants; `ABORT` makes the child dump its threads.
    """
    if sys.platform != "linux":
        _check_parent(parent)
        return
    # If SIGCHLD were ignored, the kernel would reap children itself.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for remaining in reversed(range(SUBREAPERS)):
        former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        _prctl(PR_SET_PDEATHSIG, END)
        _check_parent(parent)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getpid()
        child = os.fork()
        if child:
            release()
            _reap(child, innermost=not remaining)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    end_with_parent(parent)


def end_with_parent(parent: int) -> None:
    """Kill this process when its parent ends, or more exactly the thread that started it; only on Linux."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _check_parent(parent)


def _check_parent(parent: int) -> None:
    """End this process if its parent ended before `PR_SET_PDEATHSIG` was set."""
    if os.getppid() != parent:
        os._exit(1)


def _reap(child: int, *, innermost: bool) -> None:
    """Wait until the child ends or `END` comes, kill all descendants, and end with the child's status."""
    # A signal that kills the whole process group must not reach this process, which cleans up.
    os.setsid()
    _prctl(PR_SET_NAME, b"reactor-reaper")
    status = _wait(child, innermost=innermost)
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            # Looking for the children takes long where thousands of processes run; most models have left none.
            if not pid:
                for each in _children():
                    os.kill(each, signal.SIGKILL)
                pid, ended = os.waitpid(-1, 0)
            if pid == child:
                status = ended
    _end_as(0 if status is None else status)


def _wait(child: int, *, innermost: bool) -> int | None:
    """Return the status of the child when it ends, None when `END` comes; reap all others that end."""
    while True:
        number = signal.sigwait({signal.SIGCHLD, END, ABORT})
        if number == END:
            return None
        if number == ABORT:
            os.kill(child, signal.SIGABRT if innermost else ABORT)
            os.kill(child, signal.SIGCONT)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return ended[1]


def _children() -> list[int]:
    """Return the ids of this process's children; ids are not reused before they are reaped here."""
    me, found = str(os.getpid()), []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1] == me:
                found.append(int(pid))
    return found


def _end_as(status: int) -> None:
    """End with the status, or by the signal, of the child."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # The child has written a core file already.
        _prctl(PR_SET_DUMPABLE, 0)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os._exit(os.waitstatus_to_exitcode(status))


def _prctl(option: int, argument: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)
