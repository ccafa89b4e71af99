"""The status line of `reactor run`: the last row of the terminal, which does not scroll, and single keys.

The model's process writes to the same terminal, with colours, progress bars and the debugger. A scroll region leaves
all of that as it is; Rich's `Live` would need to receive all output, and the model would lose its terminal.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

# Rows and columns below which there is no room for a status line.
SMALLEST = 4, 20
FLASH_S = 2.0
# The rate, the times and the clients are more important than the keys, the other facts less.
LEAST_FACTS = 4
HANDOVER_S = 0.1
_ICANON_ECHO = termios.ICANON | termios.ECHO
_LFLAG, _CC = 3, 6


@dataclass(frozen=True, slots=True)
class StatusKey:
    """Call `action`, which returns at once, on the thread of the status line when `key` is pressed.

    The line shows `label`, unless it is "", and what `action` returned for 2 s.
    """

    key: str
    label: str
    action: Callable[[], str | None]


def is_wanted() -> bool:
    """Return whether this process has a terminal for a status line, and a person who sees it."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return False
    return os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR") and not os.environ.get("CI")


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


class StatusLine:
    """Show a line and read keys on a thread, because a terminal that is stopped with Ctrl-S blocks each write.

    Enter `shown()` on the main thread, which receives the signals. The line leaves the terminal alone while the process
    is in the background, and does not read while another program has changed the terminal's mode: a debugger in the
    model's process, for example.
    """

    def __init__(self, keys: Sequence[StatusKey]) -> None:
        self._keys = {key.key: key for key in keys}
        self._hints = "  ".join(f"{key.key} {key.label}" for key in keys if key.label)
        self._facts: Sequence[str] = ()
        self._flash = ""
        self._closed = False
        # Guards the terminal: its mode, its scroll region, and whether it is ours.
        self._lock = threading.RLock()
        self._rows = 0
        self._before: list[Any] | None = None
        self._ours: list[Any] | None = None
        self._reads_keys = True
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._thread = threading.Thread(target=self._run, name="status-line", daemon=True)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the line in the block, and restore the terminal at its end."""
        handlers = {
            signal.SIGTSTP: self._on_stop,
            signal.SIGCONT: lambda *_: self._acquire_terminal(),
            signal.SIGWINCH: lambda *_: self._notify(),
            signal.SIGQUIT: self._on_quit,
        }
        former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._acquire_terminal()
        self._thread.start()
        try:
            yield
        finally:
            self.close()
            for number, handler in former.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Restore the terminal; may be called twice, and before the process exits at once."""
        with self._lock:
            self._closed = True
            self._release_terminal()
        self._notify()

    def show_facts(self, facts: Sequence[str]) -> None:
        """Show these facts, the most important first; any thread, returns at once."""
        self._facts = facts
        self._notify()

    def copy_to_clipboard(self, text: str) -> str:
        """Copy text to the clipboard of the person at the terminal (OSC 52), also over SSH."""
        code = base64.b64encode(text.encode()).decode()
        self._write(f"\x1b]52;c;{code}\x07")
        return "link copied"

    def _notify(self) -> None:
        # A full pipe wakes the thread as well; without a pipe the thread has ended.
        with contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def _run(self) -> None:
        flash_end_s: float | None = None
        while not self._closed:
            self._draw()
            ready = self._wait(None if flash_end_s is None else max(0.0, flash_end_s - time.monotonic()))
            if sys.stdin.fileno() in ready and self._press_keys():
                flash_end_s = time.monotonic() + FLASH_S
            elif flash_end_s is not None and time.monotonic() >= flash_end_s:
                self._flash, flash_end_s = "", None

    def _wait(self, timeout_s: float | None) -> list[int]:
        """Wait for a key, a change of the line, or the end of a message; return the readable descriptors."""
        keys = sys.stdin.fileno()
        reads_keys = self._reads_keys and self._ours is not None
        ready, _, _ = select.select([self._woken, *([keys] if reads_keys else [])], [], [], timeout_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if keys in ready and not self._is_ours():
            # Another program reads this line.
            select.select([self._woken], [], [], HANDOVER_S)
            ready.remove(keys)
        return ready

    def _press_keys(self) -> bool:
        """Call the actions of the keys that were pressed; return whether one of them has a message."""
        try:
            pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        except OSError:
            pressed = ""
        if not pressed:
            self._reads_keys = False
        # The keys of an escape sequence, as for an arrow, are no keys here.
        for key in () if pressed.startswith("\x1b") else pressed:
            if key in self._keys:
                self._flash = self._keys[key].action() or ""
        return bool(self._flash)

    def _acquire_terminal(self) -> None:
        """Read single keys and reserve the last row, unless the process is in the background."""
        with self._lock, contextlib.suppress(OSError, termios.error):
            keys = sys.stdin.fileno()
            # Changing the mode from the background would stop the process.
            if self._closed or self._ours is not None or os.tcgetpgrp(keys) != os.getpgrp():
                return
            self._before = termios.tcgetattr(keys)
            mode = termios.tcgetattr(keys)
            mode[_LFLAG] &= ~_ICANON_ECHO
            mode[_CC][termios.VMIN], mode[_CC][termios.VTIME] = 1, 0
            termios.tcsetattr(keys, termios.TCSANOW, mode)
            self._ours = termios.tcgetattr(keys)
        self._notify()

    def _release_terminal(self) -> None:
        """Restore the mode and the scroll region."""
        with self._lock:
            self._release_row()
            if self._ours is not None and self._before is not None:
                # The terminal may be closed.
                with contextlib.suppress(OSError, termios.error):
                    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._before)
            self._ours = None

    def _is_ours(self) -> bool:
        try:
            return self._ours is not None and termios.tcgetattr(sys.stdin.fileno()) == self._ours
        except termios.error:
            return False

    def _draw(self) -> None:
        """Write the line, in one write; the scroll region is set each time, because a program may have reset it."""
        with self._lock:
            try:
                columns, rows = os.get_terminal_size(sys.stdout.fileno())
            except OSError:
                return
            if self._closed or self._ours is None:
                return
            if rows < SMALLEST[0] or columns < SMALLEST[1]:
                self._release_row()
                return
            reserved = "" if self._rows == rows else self._reserve_row(rows)
            line = fit(self._facts, self._flash or self._hints, columns - 1, least=0 if self._flash else LEAST_FACTS)
            region = f"\x1b[1;{rows - 1}r\x1b[{rows};1H"
            self._write(f"{reserved}\x1b7{region}\x1b[0;7m{line}\x1b[0m\x1b[K\x1b8")

    def _reserve_row(self, rows: int) -> str:
        """Return the codes that move the cursor out of the last row, and remove the line of a smaller terminal."""
        former = f"\x1b[{self._rows};1H\x1b[2K" if 0 < self._rows < rows else ""
        self._rows = rows
        return f"\x1b7\x1b[r{former}\x1b8\x1bD\x1b[A"

    def _release_row(self) -> None:
        if self._rows:
            self._write(f"\x1b7\x1b[r\x1b[{self._rows};1H\x1b[2K\x1b8")
            self._rows = 0

    def _write(self, text: str) -> None:
        # The terminal may be closed.
        with self._lock, contextlib.suppress(OSError):
            os.write(sys.stdout.fileno(), text.encode())

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Restore the terminal on Ctrl-Z, and stop; SIGCONT takes it again."""
        self._release_terminal()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _on_quit(self, _number: int, _frame: FrameType | None) -> None:
        self._release_terminal()
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGQUIT)


def fit(facts: Sequence[str], end: str, columns: int, *, least: int = LEAST_FACTS) -> str:
    """Return facts on the left and `end` on the right, without the last facts that do not fit into `columns` cells.

    Where fewer than `least` facts would fit beside `end`, it is left out.
    """
    from rich.cells import cell_len, set_cell_size

    shown = next((n for n in range(len(facts), min(least, len(facts)) - 1, -1) if _fits(facts[:n], end, columns)), None)
    if shown is None:
        shown, end = next((n for n in range(len(facts), 1, -1) if _fits(facts[:n], "", columns)), 1), ""
    left = _joined(facts[:shown])
    return set_cell_size(f"{left}{' ' * (columns - cell_len(left) - cell_len(end) - 1)}{end} ", columns)


def _fits(facts: Sequence[str], end: str, columns: int) -> bool:
    from rich.cells import cell_len

    return cell_len(_joined(facts)) + cell_len(end) + (2 if end else 0) < columns


def _joined(facts: Sequence[str]) -> str:
    return " " + " · ".join(facts)
