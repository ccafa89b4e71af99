"""A terminal with a picture that stays at the top, lines that scroll below it, and a prompt under those.

Everything goes out in single writes, so that what the person types and what a session says do not mix.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

PROMPT = "> "
_MOST_OF_HEIGHT = 0.6
_CLEAR_LINE = "\r\x1b[K"


class TerminalScreen:
    """Own stdout while a session is shown; `close` leaves the terminal as it was."""

    def __init__(self) -> None:
        self._top: list[str] = []
        self._size = (0, 0)
        self._prompting = False
        self._terminal = _Terminal()
        self._lock = threading.Lock()

    @property
    def room(self) -> tuple[int, int]:
        """Columns and rows there are for a picture."""
        columns, rows = shutil.get_terminal_size()
        return columns, max(1, int(rows * _MOST_OF_HEIGHT) - 1)

    def say(self, text: str) -> None:
        """Write lines below the picture, above what is being typed."""
        with self._lock:
            typed = f"{PROMPT}{_typed()}" if self._prompting else ""
            self._write(f"{_CLEAR_LINE}{text}\n{typed}")

    def show(self, top: Sequence[str]) -> None:
        """Put lines at the top of the terminal, those that differ from what is there."""
        size = shutil.get_terminal_size()
        with self._lock:
            fresh = (size.columns, size.lines) != self._size or len(top) != len(self._top)
            parts = [self._region(len(top), size.lines)] if fresh else []
            before = [] if fresh else self._top
            changed = [
                f"\x1b[{number};1H{line}\x1b[K"
                for number, line in enumerate(top, 1)
                if fresh or before[number - 1] != line
            ]
            self._top, self._size = list(top), (size.columns, size.lines)
            if changed:
                self._write("".join((*parts, "\x1b7\x1b[?25l", *changed, "\x1b8\x1b[?25h")))

    def ask(self, complete: Callable[[str], list[str]], take: Callable[[str | None], object]) -> None:
        """Read lines on a thread and hand over each, None at their end; a tab completes what has been typed."""
        _complete_with(complete)

        def read() -> None:
            line: str | None = ""
            while line is not None:
                self._prompting = True
                try:
                    line = input(PROMPT)
                except (EOFError, OSError):
                    line = None
                self._prompting = False
                take(line)

        threading.Thread(target=read, name="prompt", daemon=True).start()

    def close(self) -> None:
        """Give the whole terminal back; nobody is asked any more."""
        with self._lock:
            end = f"\x1b[r\x1b[{self._size[1]};1H" if self._top else ""
            self._write(f"{end}{_CLEAR_LINE}")
            self._terminal.restore()

    def _region(self, rows: int, height: int) -> str:
        """Keep the rows at the top from scrolling. Making the region moves the cursor: it goes to the last line."""
        room = "\n" * (rows if not self._top else 0)  # what stands there scrolls away, and is not written over
        typed = f"{PROMPT}{_typed()}" if self._prompting else ""
        return f"\x1b[r{room}\x1b[2J\x1b[{rows + 1};{height}r\x1b[{height};1H{typed}"

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        left = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]


class _Terminal:
    """Remember how the terminal was: a prompt that is not waited for leaves it as it needs it."""

    def __init__(self) -> None:
        self._attributes: Any = None
        if sys.stdin.isatty():
            import termios

            self._attributes = termios.tcgetattr(sys.stdin.fileno())

    def restore(self) -> None:
        if self._attributes is not None:
            import termios

            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._attributes)


def _typed() -> str:
    with contextlib.suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def _complete_with(complete: Callable[[str], list[str]]) -> None:
    """Have tab complete the last word, where there is a readline."""
    with contextlib.suppress(ImportError):
        import readline

        def candidate(_: str, number: int) -> str | None:
            found = complete(readline.get_line_buffer())
            return found[number] if number < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(candidate)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
