"""Ctrl-C in commands that run a model and finish a file after its step."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

STDERR = 2
INTERRUPTED = 130


@contextlib.contextmanager
def interrupts(restore_terminal: Callable[[], None]) -> Iterator[threading.Event]:
    """Set the event at the first Ctrl-C, so that the step and the file are finished; end the process at the second."""
    stop = threading.Event()

    def on_interrupt(*_: object) -> None:
        if stop.is_set():
            restore_terminal()
            # An exception would be raised in the author's code, which may catch it.
            os._exit(INTERRUPTED)
        stop.set()
        # Printing may be what the signal has interrupted.
        os.write(STDERR, b"\nstopping after this step; Ctrl-C again stops at once\n")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
