"""The progress of `reactor render` on stderr: a bar on a terminal, elsewhere a line every five seconds."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reactor_cli import console

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_S = 5.0


class RenderProgress:
    """Show how long the model loads, then how much of a clip of `seconds` is rendered, and the time left."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end_s = 0.0
        self._began = time.monotonic()
        self._rendering_since: float | None = None
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

    def begin_rendering(self) -> None:
        """Show from now on how much is rendered: the model is loaded."""
        self._rendering_since = time.monotonic()
        if self._bar is not None:
            self._bar.reset(self._task, total=self._seconds, description="rendering")

    def update(self, end_s: float) -> None:
        """Show that the clip is rendered up to `end_s`."""
        self._end_s = end_s
        if self._bar is not None:
            self._bar.update(self._task, completed=end_s)

    def _print_lines(self) -> None:
        while not self._over.wait(LINE_S):
            console.err(self.line(time.monotonic()))

    def line(self, now: float) -> str:
        """Return the progress at the time `now` as a line."""
        if self._rendering_since is None:
            return f"loading … {now - self._began:.0f} s"
        line = f"rendering … {self._end_s:.1f} of {self._seconds:g} s"
        if not self._end_s:
            return line
        left_s = (now - self._rendering_since) * (self._seconds - self._end_s) / self._end_s
        return f"{line}, {left_s:.0f} s left"


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
