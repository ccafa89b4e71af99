"""Letting a model's time pass: until something is so, or for a while; what its author's code raised is raised here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reactor_runtime.testing.clock import FakeClock
from reactor_runtime.testing.loop import FakeLoop
from reactor_runtime.testing.recorder import OutputRecorder

PATIENCE_S = 60.0  # of the fake clock: nobody waits that long for what a test wants to see


class Wait:
    """Run the loop of a model on its own; `owner` is the class that error messages speak of."""

    def __init__(self, owner: str, *, clock: FakeClock, loop: FakeLoop, recorder: OutputRecorder) -> None:
        self._owner = owner
        self._clock = clock
        self._loop = loop
        self._recorder = recorder

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Let time pass until it is `done()`; RuntimeError says `what` a minute of the model's time didn't bring."""
        if not self._advance(done, self._clock.now() + PATIENCE_S):
            raise RuntimeError(
                f"waited {PATIENCE_S:g} s of the model's time for {what}; if the model waits for an event or an input, "
                "send that first"
            )
        self.raise_failure()

    def advance(self, done: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until it is `done()`, no longer than some seconds; tell whether it is."""
        return self._advance(done, self._clock.now() + seconds)

    def lasting(self, seconds: float) -> None:
        """Let so much time pass, less if the model fails."""
        self._advance(lambda: bool(self._recorder.failures), self._clock.now() + seconds)
        self.raise_failure()

    def need_open(self) -> None:
        """Raise RuntimeError where the model can't be run: inside another loop, and after the end."""
        refuse_loop(self._owner)
        if self._loop.is_closed():
            raise RuntimeError(f"this {self._owner} is closed; make another")

    def raise_failure(self) -> None:
        """Raise what the author's code raised, if it has since the last time."""
        if self._recorder.failures:
            failure = self._recorder.failures[0]
            self._recorder.failures.clear()
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame

    def _advance(self, done: Callable[[], bool], until: float) -> bool:
        self.need_open()
        return self._loop.go_on(done, until=until)


def refuse_loop(owner: str) -> None:
    """Raise RuntimeError inside a running event loop, as one can't run inside another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{owner} runs an event loop of its own and can't be used inside one: make the test a plain def")
