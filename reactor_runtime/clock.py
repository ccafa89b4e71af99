"""Monotonic time and waiting on absolute deadlines, for the server's loop and the model's loop.

On Linux the event loop reads a timerfd, which wakes within 0.1 ms and costs nothing while it waits; a loop's own timers
have a resolution of 1 ms. Other systems use the loop's timers.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import functools
import heapq
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

TIMER_ABSTIME = 1
# 136 years after boot; kernel timers and C integers accept it.
LATEST_S = 2.0**32
MOST_CANCELLED = 64


class Timer(Protocol):
    """Represent a callback that is called once unless cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Return monotonic seconds and call back at a deadline; tests use a fake clock."""

    def now(self) -> float: ...

    def call_at(self, deadline: float, callback: Callable[[], None]) -> Timer: ...

    def close(self) -> None:
        """Call no pending callback any more, and free the timer."""


class SystemClock:
    """Serve one event loop, that of the first `call_at`; close it before the loop ends.

    `now` is CLOCK_MONOTONIC, the same in all processes of a machine, so times may be sent over ipc.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timerfd: _TimerFd | None = None
        self._waiting: list[tuple[float, int, _Waiting]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        if self._loop is None:
            self._open(asyncio.get_running_loop())
        if self._timerfd is None:
            return asyncio.get_running_loop().call_at(min(deadline, LATEST_S), callback)
        waiting = _Waiting(callback, self._on_cancel)
        heapq.heappush(self._waiting, (deadline, next(self._order), waiting))
        if self._waiting[0][2] is waiting:
            self._timerfd.arm(deadline)
        return waiting

    def close(self) -> None:
        if self._timerfd is not None and self._loop is not None:
            self._loop.remove_reader(self._timerfd.fd)
            self._timerfd.close()
            self._timerfd = None
        self._waiting.clear()
        self._cancelled = 0

    def _on_cancel(self) -> None:
        """Remove the cancelled entries once they outnumber the others; a distant one would stay until its deadline."""
        self._cancelled += 1
        if self._cancelled > max(MOST_CANCELLED, len(self._waiting) // 2):
            self._waiting = [entry for entry in self._waiting if entry[2].callback is not None]
            heapq.heapify(self._waiting)
            self._cancelled = 0

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timerfd = _TimerFd.create()
        if self._timerfd is not None:
            loop.add_reader(self._timerfd.fd, self._fire)

    def _fire(self) -> None:
        assert self._timerfd is not None, "the reader is removed before the timer is closed"
        self._timerfd.clear()
        while self._waiting and (self._waiting[0][0] <= time.monotonic() or self._waiting[0][2].callback is None):
            callback = heapq.heappop(self._waiting)[2].take()
            if callback is None:
                self._cancelled -= 1
            else:
                callback()
        if self._waiting and self._timerfd is not None:
            self._timerfd.arm(self._waiting[0][0])


class Alarm:
    """Wake one task at a deadline, or earlier when `ring` is called.

    A ring without a waiting task is kept, so none is missed between a check and the wait after it. Wake-ups may be
    spurious: check the condition again. Call `ring` on the loop's thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, deadline: float | None = None) -> bool:
        """Wait until `deadline` in monotonic seconds, or without one, until `ring` is called.

        Returns whether other tasks and callbacks of the loop could run meanwhile.
        """
        if self._rung or (deadline is not None and deadline <= self._clock.now()):
            self._rung = False
            return False
        assert self._sleeper is None, "an alarm wakes one task"
        sleeper = self._sleeper = asyncio.get_running_loop().create_future()
        timer = None
        if deadline is not None:
            timer = self._clock.call_at(deadline, lambda: None if sleeper.done() else sleeper.set_result(None))
        try:
            await sleeper
        finally:
            self._sleeper = None
            self._rung = False
            if timer is not None:
                timer.cancel()
        return True


class _Waiting:
    __slots__ = ("_on_cancel", "callback")

    def __init__(self, callback: Callable[[], None], on_cancel: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback
        self._on_cancel = on_cancel

    def take(self) -> Callable[[], None] | None:
        """Return the due callback; cancelling has no effect from then on."""
        callback, self.callback = self.callback, None
        return callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._on_cancel()


class _TimerFd:
    """Wrap a timerfd, with `os` since Python 3.13 and with ctypes before."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def create(cls) -> _TimerFd | None:
        if sys.platform != "linux":
            return None
        if sys.version_info >= (3, 13):
            try:
                return cls(os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC))
            # No descriptor is left.
            except OSError:
                return None
        fd = _libc().timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        return cls(fd) if fd >= 0 else None

    def arm(self, deadline: float) -> None:
        nanoseconds = max(1, int(min(deadline, LATEST_S) * 1e9))
        if sys.version_info >= (3, 13):
            os.timerfd_settime_ns(self.fd, flags=os.TFD_TIMER_ABSTIME, initial=nanoseconds)
            return
        spec = _ITimerSpec(0, 0, *divmod(nanoseconds, 1_000_000_000))
        if _libc().timerfd_settime(self.fd, TIMER_ABSTIME, ctypes.byref(spec), None) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def clear(self) -> None:
        try:
            os.read(self.fd, 8)
        except OSError as error:
            # The timer was armed again since the loop saw it ready: nothing to read yet.
            if error.errno != errno.EAGAIN:
                raise

    def close(self) -> None:
        os.close(self.fd)


class _ITimerSpec(ctypes.Structure):
    _fields_ = [
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    ]


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
