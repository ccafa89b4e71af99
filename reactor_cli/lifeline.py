"""A pipe that ends a child process when its parent, which holds the writing end, has ended in any way.

`python -m reactor_cli.lifeline FD …` runs `reactor …` as such a child.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def end_at_eof(reader: int) -> None:
    """End this process with SIGTERM when all writers of a pipe are closed; a thread waits for that."""

    def watch() -> None:
        os.read(reader, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="reactor-lifeline", daemon=True).start()


def command(reader: int, *arguments: str) -> list[str]:
    """Return the command line of a `reactor` with these arguments that ends at the end of the pipe."""
    return [sys.executable, "-m", "reactor_cli.lifeline", str(reader), *arguments]


if __name__ == "__main__":
    end_at_eof(int(sys.argv.pop(1)))
    runpy.run_module("reactor_cli", run_name="__main__", alter_sys=True)
