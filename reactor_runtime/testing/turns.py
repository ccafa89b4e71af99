"""Threads on a fake clock: time stands still while one of the model's runs, and goes on when all of them wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reactor_runtime.testing.clock import FakeClock

POLL_S = 0.010
PAUSED_POLL_S = 0.100


class FakeTurns:
    """Keep count of the model's threads that run, for a loop that waits until none does.

    A session that polls `should_stop()` waits there until a command or an input comes, or 10 ms have passed, 100 ms
    with monitoring disabled: otherwise it would poll for ever, as time stands still while it runs.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.post: Callable[[Callable[[], object]], object] = _nowhere
        self._clock = clock
        self._lock = threading.Lock()
        self._known: set[threading.Thread] = set()
        self._running: set[threading.Thread] = set()
        self._given_up: set[threading.Thread] = set()
        self._polling: list[_FakeGate] = []
        clock.spent_in_thread = self.spend

    @property
    def running(self) -> bool:
        return bool(self._running)

    def give_up(self) -> None:
        """Let time go on without those that run: they have had long enough, or wait for something of the author's."""
        with self._lock:
            self._given_up |= self._running
            self._running.clear()

    def gate(self) -> _FakeGate:
        return _FakeGate(self)

    def begin(self, thread: threading.Thread) -> None:
        with self._lock:
            self._known.add(thread)
            self._running.add(thread)

    def end(self, thread: threading.Thread) -> None:
        self.rest(thread)

    def poll(self, *, paused: bool) -> None:
        if threading.current_thread() not in self._known:
            return
        gate = self.gate()
        self.post(lambda: self._polling.append(gate))
        self._wait(gate, PAUSED_POLL_S if paused else POLL_S)

    def spend(self, seconds: float) -> bool:
        """Let time pass for the thread that calls; False if it is none of the model's."""
        if threading.current_thread() not in self._known:
            return False
        self._wait(self.gate(), seconds)
        return True

    def notify_input(self) -> None:
        with self._lock:  # what has happened may be what those waited for
            self._running |= self._given_up
            self._given_up.clear()
        polling, self._polling = self._polling, []
        for gate in polling:
            gate.open()

    def go_on(self, thread: threading.Thread) -> None:
        with self._lock:
            if thread in self._known:
                self._running.add(thread)

    def rest(self, thread: threading.Thread) -> None:
        """Take note that a thread waits, and have the loop look again whether others run."""
        with self._lock:
            self._running.discard(thread)
            self._given_up.discard(thread)
        self.post(_look_again)

    def _wait(self, gate: _FakeGate, seconds: float) -> None:
        deadline = self._clock.now() + seconds
        self.post(lambda: self._clock.call_at(deadline, gate.open))
        gate.wait()


class _FakeGate:
    """Where the thread that made it waits; it counts as running from the moment the loop opens it."""

    def __init__(self, turns: FakeTurns) -> None:
        self._turns = turns
        self._thread = threading.current_thread()
        self._lock = threading.Lock()
        self._opened = threading.Event()

    def wait(self) -> None:
        with self._lock:
            if not self._opened.is_set():
                self._turns.rest(self._thread)
        self._opened.wait()

    def open(self) -> None:
        with self._lock:
            if not self._opened.is_set():
                self._turns.go_on(self._thread)
                self._opened.set()


def _look_again() -> None:
    """Do nothing: that something was posted wakes the loop."""


def _nowhere(callback: Callable[[], object]) -> None:
    raise AssertionError(f"{callback} was posted before there was a loop")
