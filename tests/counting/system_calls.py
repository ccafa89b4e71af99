"""Counts the system calls of a running process: by ptrace, on Linux on x86-64, without another program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64"
NAMES = {
    0: "read", 1: "write", 3: "close", 7: "poll", 9: "mmap", 11: "munmap", 16: "ioctl", 19: "readv", 20: "writev",
    24: "sched_yield", 28: "madvise", 35: "nanosleep", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg",
    77: "ftruncate", 202: "futex", 228: "clock_gettime", 230: "clock_nanosleep", 232: "epoll_wait", 233: "epoll_ctl",
    281: "epoll_pwait", 286: "timerfd_settime", 441: "epoll_pwait2",
}  # fmt: skip
# One for each turn of an event loop.
TURNS = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
_SYSCALL, _SEIZE, _INTERRUPT, _INFO = 24, 0x4206, 0x4207, 0x420E
_MARKED_STOPS, _FOLLOW_THREADS = 1, 8
# Wait for children of any kind, but only for those that this thread traces.
_ALL, _OWN = 0x40000000, 0x20000000
_STOP_AT_CALL = signal.SIGTRAP | 0x80
_ENTRY = 1


class _Info(ctypes.Structure):
    """Mirror the head of `ptrace_syscall_info`."""

    _fields_ = [
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("stack_pointer", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    ]


@contextlib.contextmanager
def counted_calls(pid: int) -> Iterator[Counter[str]]:
    """Count the system calls of a descendant in the block, by name; complete after the block.

    Raises PermissionError where the system does not allow it.
    """
    calls: Counter[str] = Counter()
    tracer = _Tracer(pid, calls)
    tracer.start()
    try:
        yield calls
    finally:
        tracer.stop()


class _Tracer:
    """Trace all threads of a process from one thread; the kernel ends the tracing with that thread."""

    def __init__(self, pid: int, calls: Counter[str]) -> None:
        self._pid = pid
        self._calls = calls
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._libc.ptrace.restype = ctypes.c_long
        self._seized = threading.Event()
        self._stopping = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._seized.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()

    def _run(self) -> None:
        try:
            for entry in Path(f"/proc/{self._pid}/task").iterdir():
                self._seize(int(entry.name))
        except OSError as error:
            self._error = error
            return
        finally:
            self._seized.set()
        with contextlib.suppress(ChildProcessError):
            while not self._stopping:
                self._on_stop(*os.waitpid(-1, _ALL | _OWN))

    def _seize(self, thread: int) -> None:
        """Trace a thread from its next system call on."""
        self._ptrace(_SEIZE, thread, _MARKED_STOPS | _FOLLOW_THREADS)
        self._ptrace(_INTERRUPT, thread)

    def _on_stop(self, thread: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            return
        number, is_event = os.WSTOPSIG(status), bool(status >> 16)
        if number == _STOP_AT_CALL:
            self._count(thread)
        # Of stops that are no system call, only signals are passed on.
        passed = 0 if is_event or number in (_STOP_AT_CALL, signal.SIGTRAP) else number
        # It may have ended meanwhile.
        with contextlib.suppress(ProcessLookupError):
            self._ptrace(_SYSCALL, thread, passed)

    def _count(self, thread: int) -> None:
        info = _Info()
        self._libc.ptrace(_INFO, thread, ctypes.sizeof(info), ctypes.byref(info))
        if info.op == _ENTRY:
            self._calls[NAMES.get(info.number, f"call {info.number}")] += 1

    def _ptrace(self, request: int, thread: int, value: int = 0) -> None:
        if self._libc.ptrace(request, thread, None, value) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
