"""Code that does not return after a save: which of it is reported, and which is ended."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reactor_runtime.engine.reload.save_watch import SIGNAL, TRIES, TRY_S, CodeEnded, SaveWatch
from reactor_runtime.ipc.messages import Reloaded
from tests.timeouts import TIMEOUT_S

KILL = signal.pthread_kill

# A project's code: it holds the loop until a test lets it return.
CODE = """
import time

def hold(until):
    while not until(): time.sleep(0.001)
"""


class Loop:
    """A loop that the main thread runs, a watch of it, and the interruptions that it has sent."""

    def __init__(self, project: Path) -> None:
        file = project / "pipeline.py"
        file.write_text(CODE)
        code: dict[str, Callable[[Callable[[], bool]], None]] = {}
        exec(compile(CODE, file, "exec"), code)
        self.hold = code["hold"]
        self.sent: queue.SimpleQueue[Reloaded] = queue.SimpleQueue()
        self.signals = 0
        self._callbacks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.watch = SaveWatch(
            self._callbacks.put,
            self.sent.put,
            project=project,
            is_busy=lambda: True,
            is_loading=lambda: False,
        )
        self.watch.start()

    def interrupt(self, thread: int, number: int) -> None:
        """Count a signal and send it: the kernel may merge two that wait, which are counted as two."""
        self.signals += 1
        KILL(thread, number)

    def run(self, saves: Callable[[], object]) -> None:
        """Run callbacks on this thread until `saves`, which another thread runs, has returned."""

        def read() -> None:
            try:
                saves()
            finally:
                self._callbacks.put(None)

        reader = threading.Thread(target=read)
        reader.start()
        while (callback := self._callbacks.get(timeout=TIMEOUT_S)) is not None:
            callback()
        reader.join()

    def report(self) -> str:
        """Return the message of the next report of code that has not returned."""
        reloaded = self.sent.get(timeout=TIMEOUT_S)
        assert reloaded.status == "failed"
        assert reloaded.error is not None
        return str(reloaded.error["message"])


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    before = signal.getsignal(SIGNAL)
    loop = Loop(tmp_path)
    monkeypatch.setattr(signal, "pthread_kill", loop.interrupt)
    yield loop
    signal.signal(SIGNAL, before)


def test_code_that_holds_the_loop_as_soon_as_it_is_applied_is_reported_and_not_ended(loop: Loop) -> None:
    applied, returns = threading.Event(), threading.Event()
    ended: list[bool] = []

    def apply() -> None:
        applied.set()
        loop.hold(returns.is_set)
        ended.append(False)

    def saves() -> None:
        loop.watch.on_save(apply)
        assert applied.wait(TIMEOUT_S)
        assert loop.report() == "pipeline.py:5 has not returned"
        returns.set()

    loop.run(saves)
    assert ended == [False]
    assert loop.signals == 0


def test_the_next_save_ends_that_code_and_not_the_one_that_runs_after_it(loop: Loop) -> None:
    steps: list[str] = []
    applied = threading.Event()

    def no_more_signals() -> bool:
        # As long as the watch might take to give up.
        return loop.signals >= TRIES and not threading.Event().wait(3 * TRY_S)

    def apply() -> None:
        try:
            loop.hold(lambda: False)
        except CodeEnded:
            steps.append("ended")
        # As the former code does, whose step may be long.
        loop.hold(no_more_signals)
        steps.append("returned")

    def apply_next() -> None:
        steps.append("applied")
        applied.set()

    def saves() -> None:
        loop.watch.on_save(apply)
        assert loop.report() == "pipeline.py:5 has not returned"
        loop.watch.on_save(apply_next)
        assert applied.wait(TIMEOUT_S)

    loop.run(saves)
    assert steps == ["ended", "returned", "applied"]
    assert loop.signals == TRIES
    assert loop.sent.empty(), "the process is restarted only if the code does not end"
