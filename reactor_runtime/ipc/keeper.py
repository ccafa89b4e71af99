"""Processes between the server and the engine that end with neither of them before all of the engine's children have.

Two keepers, one the parent of the other, so that one of them is left whichever process is killed. Linux only.
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
KEEPERS = 2

if sys.platform == "linux":
    # signals that nobody sends by accident: what is sent to a whole process group must not end a keeper
    END, ABORT = signal.SIGRTMIN, signal.SIGRTMIN + 1
else:
    END, ABORT = signal.SIGKILL, signal.SIGABRT


def start_keepers(parent: int, release: Callable[[], None]) -> None:
    """Return in a child process, whose descendants all end when it ends, or `parent` or a keeper does.

    The process that calls this and one more become keepers, which hold nothing once they have called `release` and end
    with the child's status. `END` kills the child and its descendants, `ABORT` has it dump its threads.
    """
    if sys.platform != "linux":
        _check_parent(parent)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored nobody hears of a child's end
    for remaining in reversed(range(KEEPERS)):
        former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        _prctl(PR_SET_PDEATHSIG, END)
        _check_parent(parent)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getpid()
        child = os.fork()
        if child:
            release()
            _keep(child, innermost=not remaining)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _check_parent(parent)


def _check_parent(parent: int) -> None:
    """End this process where its parent had ended before it could ask for a signal at that."""
    if os.getppid() != parent:
        os._exit(1)


def _keep(child: int, *, innermost: bool) -> None:
    """Wait until the child ends or is to be ended, end all of this process's descendants, and end with its status."""
    os.setsid()  # so that a signal that kills the whole process group leaves this one to clean up
    _prctl(PR_SET_NAME, b"reactor-keeper")
    status = _wait(child, innermost=innermost)
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if pid == child:
            status = ended
    _end_as(0 if status is None else status)


def _wait(child: int, *, innermost: bool) -> int | None:
    """Return the status that the child ended with, None where it is to be ended; others that end are reaped."""
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
    """List this process's own children: until they are reaped here, their numbers are nobody else's."""
    me, found = str(os.getpid()), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text(errors="replace").rpartition(")")[2].split()[1] == me:
                found.append(int(path.parent.name))
    return found


def _end_as(status: int) -> None:
    """End as the child did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        _prctl(PR_SET_DUMPABLE, 0)  # one core file is enough
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os._exit(os.waitstatus_to_exitcode(status))


def _prctl(option: int, argument: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)
