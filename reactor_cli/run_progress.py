"""The progress of `render` and `replay` on stderr: a bar on a terminal, elsewhere a line every five seconds.

Work of unknown length has lines alone, with the time that has passed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reactor_cli import console

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_S = 5.0


class RunProgress:
    """Show how long the model loads, then how much of its `total` work is done, and the time left.

    `work` is the name of the work, such as "rendering"; `unit` that of its amounts.
    """

    def __init__(self, work: str, total: float, unit: str) -> None:
        self._work = work
        self._total = total
        self._unit = unit
        self._done = 0.0
        self._began = time.monotonic()
        self._working_since: float | None = None
        self._bar: Progress | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task("loading", total=None)
            self._bar.start()
        else:
            threading.Thread(target=self._print_lines, name="reactor-progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and restore the terminal; may be called twice."""
        self._over.set()
        if self._bar is not None:
            self._bar.stop()

    def begin_work(self) -> None:
        """Show how much of the work is done from now on, because the model is loaded."""
        self._working_since = time.monotonic()
        if self._bar is not None:
            self._bar.reset(self._task, total=self._total, description=self._work)

    def update(self, done: float) -> None:
        """Show `done` of the total as done; any thread."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def _print_lines(self) -> None:
        while not self._over.wait(LINE_S):
            console.err(self.line(time.monotonic()))

    def line(self, now: float) -> str:
        """Return the progress at the time `now` as a line."""
        if self._working_since is None:
            return f"loading … {now - self._began:.0f} s"
        done, total = (f"{amount:.10g}" for amount in (round(self._done, 1), self._total))
        line = f"{self._work} … {done} of {total} {self._unit}"
        if not self._done:
            return line
        left_s = (now - self._working_since) * (self._total - self._done) / self._done
        return f"{line}, {left_s:.0f} s left"


@contextlib.contextmanager
def elapsed_lines(work: str) -> Iterator[None]:
    """Print how long the block has run so far. A process that is killed in it leaves the terminal as it was."""
    over, began = threading.Event(), time.monotonic()

    def print_lines() -> None:
        while not over.wait(LINE_S):
            console.err(f"{work} … {time.monotonic() - began:.0f} s")

    threading.Thread(target=print_lines, name="reactor-progress", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextlib.contextmanager
def making_first_step() -> Iterator[None]:
    """Print how long a first step in the block takes so far; its failure is not logged, as the command prints it."""
    logger = logging.getLogger("reactor_runtime")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    with elapsed_lines("loading and making a first step"):
        yield


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        # The result replaces it.
        transient=True,
        console=Console(stderr=True),
    )
