"""The terminal of `reactor connect`: a frame at the top, lines that scroll below it, a prompt, and piped input.

Each output is a single write, so that the output of a session does not mix with the text that is being typed. Rich's
`Live` cannot replace this: it draws below the scrolling lines, where the prompt is, and draws all its lines each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from io import FileIO
from typing import Any

PROMPT = "> "
MAX_LINES_AHEAD = 100
# The share of the terminal's height that the frame fills.
_FRAME_HEIGHT = 0.6
_CLEAR_LINE = "\r\x1b[K"


class TerminalScreen:
    """Control stdout while a session is shown; `close` restores the terminal."""

    def __init__(self) -> None:
        self._top: list[str] = []
        self._size = (0, 0)
        self._prompting = False
        self._terminal = _Terminal()
        self._lock = threading.Lock()

    @property
    def frame_size(self) -> tuple[int, int]:
        """Columns and rows available for a frame."""
        columns, rows = shutil.get_terminal_size()
        return columns, max(1, int(rows * _FRAME_HEIGHT) - 1)

    def print_lines(self, text: str) -> None:
        """Write lines below the frame, above the text that is being typed."""
        with self._lock:
            typed = f"{PROMPT}{_typed()}" if self._prompting else ""
            self._write(f"{_CLEAR_LINE}{text}\n{typed}")

    def show_top(self, top: Sequence[str]) -> None:
        """Show lines at the top of the terminal; writes only the lines that have changed."""
        size = shutil.get_terminal_size()
        with self._lock:
            redraw = (size.columns, size.lines) != self._size or len(top) != len(self._top)
            parts = [self._scroll_region(len(top), size.lines)] if redraw else []
            before = [] if redraw else self._top
            changed = [
                f"\x1b[{number};1H{line}\x1b[K"
                for number, line in enumerate(top, 1)
                if redraw or before[number - 1] != line
            ]
            self._top, self._size = list(top), (size.columns, size.lines)
            if changed:
                self._write("".join((*parts, "\x1b7\x1b[?25l", *changed, "\x1b8\x1b[?25h")))

    def start_prompt(self, complete: Callable[[str], list[str]], on_line: Callable[[str | None], object]) -> None:
        """Read lines on a thread and call `on_line` there with each, and with None at the end; tab calls `complete`."""
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
                on_line(line)

        threading.Thread(target=read, name="prompt", daemon=True).start()

    def close(self) -> None:
        """Restore the terminal and end the prompt."""
        with self._lock:
            end = f"\x1b[r\x1b[{self._size[1]};1H" if self._top else ""
            self._write(f"{end}{_CLEAR_LINE}")
            self._terminal.restore()

    def _scroll_region(self, rows: int, height: int) -> str:
        """Return the codes that exclude the top rows from scrolling and move the cursor to the last line."""
        # Existing lines scroll up instead of being overwritten.
        room = "\n" * (rows if not self._top else 0)
        typed = f"{PROMPT}{_typed()}" if self._prompting else ""
        return f"\x1b[r{room}\x1b[2J\x1b[{rows + 1};{height}r\x1b[{height};1H{typed}"

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        left = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]


class _Terminal:
    """Save the terminal's attributes to restore them: a prompt that is still open at the end does not."""

    def __init__(self) -> None:
        self._attributes: Any = None
        if sys.stdin.isatty():
            import termios

            self._attributes = termios.tcgetattr(sys.stdin.fileno())

    def restore(self) -> None:
        if self._attributes is not None:
            import termios

            # The terminal may be closed.
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._attributes)


class LineReader:
    """Read lines of a pipe or a file on a thread, because an event loop cannot wait for a file.

    Reads at most 100 lines ahead. Belongs to the event loop on which it was made.
    """

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._free = threading.Semaphore(MAX_LINES_AHEAD)
        threading.Thread(target=self._run, args=(descriptor,), name="input", daemon=True).start()

    async def next_line(self) -> str | None:
        """Return the next line, or None at the end, after which a further call waits for ever."""
        line = await self._lines.get()
        self._free.release()
        return line

    def _run(self, descriptor: int) -> None:
        # Unbuffered: Python fails at exit if a daemon thread holds the lock of a buffer.
        # A descriptor that cannot be read, as under nohup, counts as ended.
        with contextlib.suppress(OSError), FileIO(descriptor, closefd=False) as file:
            for line in file:
                self._free.acquire()
                self._post(line.decode("utf-8", "replace").rstrip("\r\n"))
        self._post(None)

    def _post(self, line: str | None) -> None:
        # The loop may be closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _typed() -> str:
    with contextlib.suppress(ImportError):
        import readline

        return readline.get_line_buffer()
    return ""


def _complete_with(complete: Callable[[str], list[str]]) -> None:
    """Complete the last word by tab, if readline is available."""
    with contextlib.suppress(ImportError):
        import readline

        def candidate(_: str, number: int) -> str | None:
            found = complete(readline.get_line_buffer())
            return found[number] if number < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(candidate)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
