"""What the status line of `reactor run` shows, and what its keys do."""

from __future__ import annotations

import os
import signal
import threading
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

from reactor_cli import console
from reactor_cli.status_line import StatusKey, StatusLine

if TYPE_CHECKING:
    from reactor_runtime.server.options import LoadingProgress, ServerStatistics


class RunStatus:
    """Show the statistics of a server in a status line; the keys use `url` and `reload` once the server listens.

    With `reloads` there is a key that reloads the project.
    """

    def __init__(self, *, reloads: bool = False) -> None:
        self.url = ""
        self.reload: Callable[[], object] | None = None
        keys = [StatusKey("o", "open", self._open), StatusKey("c", "copy link", self._copy)]
        if reloads:
            keys.append(StatusKey("r", "", self._reload))
        self.line = StatusLine([*keys, StatusKey("q", "quit", _quit)])

    def show(self, statistics: ServerStatistics) -> None:
        """Show the statistics; any thread."""
        self.line.show_facts(facts_of(statistics))

    def _open(self) -> str | None:
        if not self.url:
            return None
        open_browser(self.url)
        return "page opened"

    def _reload(self) -> str | None:
        if self.reload is None:
            return None
        self.reload()
        return "reloading"

    def _copy(self) -> str | None:
        return self.line.copy_to_clipboard(self.url) if self.url else None


def open_browser(url: str) -> None:
    """Open a page on a thread, because some browsers return only when they are closed."""
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()


def _quit() -> str:
    # As Ctrl-C does: a second one ends the process at once.
    os.kill(os.getpid(), signal.SIGINT)
    return "stopping"


def facts_of(statistics: ServerStatistics) -> list[str]:
    """Return the parts of the line, the most important first."""
    if statistics.loading is not None:
        return _loading(statistics.loading)
    facts = ["waiting for a client" if statistics.fps is None else f"{statistics.fps:.1f} fps"]
    if statistics.fps is not None and statistics.step_ms is not None:
        facts.append(f"step {statistics.step_ms:.1f} ms")
    if statistics.fps is not None and statistics.late_ms is not None:
        facts.append(f"late {statistics.late_ms:.1f} ms")
    facts.append(f"{statistics.clients} {'client' if statistics.clients == 1 else 'clients'}")
    if statistics.memory_bytes is not None:
        facts.append(console.size_text(statistics.memory_bytes))
    if statistics.slots > 1:
        facts.append(f"{statistics.sessions} of {statistics.slots} sessions")
    elif statistics.session:
        minutes, seconds = divmod(int(statistics.session_s), 60)
        facts.append(f"session {statistics.session} {minutes}:{seconds:02}")
    return facts


def _loading(loading: LoadingProgress) -> list[str]:
    # The time of a model that waits to be loaded is 0, and it has a detail after a load that failed.
    if not loading.elapsed_s and loading.detail:
        return ["not loaded: save a file to try again"]
    # The time of a model that waits to be loaded is 0, and it has a detail after a load that failed.
    if not loading.elapsed_s and loading.detail:
        return ["not loaded: save a file to try again"]
    facts = [f"loading {loading.elapsed_s:.0f} s"]
    if loading.progress is not None:
        facts.append(f"{loading.progress:.0%}")
    if loading.detail:
        facts.append(console.printable(loading.detail).replace("\t", " ").replace("\n", " "))
    return facts
