"""Counts the calls of Python functions and builtins of running processes, on all of their threads.

Processes that start with `variables` count between two signals, and write a file at each: at the second the counts.
"""

from __future__ import annotations

import json
import os
import signal
import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIGNAL = signal.SIGUSR1
# It is imported at the start of each interpreter that finds it. The main thread is profiled from the signal on; other
# threads exist before it.
SITECUSTOMIZE = """
import json, os, signal, sys, threading
from collections import Counter

counts = None


def profile(frame, event, argument):
    if counts is None:
        return
    code = frame.f_code
    caller = code.co_filename, code.co_qualname
    if event == "call":
        counts["python", *caller] += 1
    elif event == "c_call":
        counts["builtin", *caller] += 1


def toggle(*_):
    global counts
    sys.setprofile(None)
    found, counts = counts, Counter() if counts is None else None
    written = os.path.join({folder!r}, f"{{os.getpid()}}.new")
    with open(written, "w") as file:
        json.dump([[*key, count] for key, count in list((found or {{}}).items())], file)
    os.replace(written, written.removesuffix("new") + "json")
    if counts is not None:
        sys.setprofile(profile)


threading.setprofile(profile)
signal.signal(signal.{signal}, toggle)
"""


class PythonCalls:
    """Count the calls of processes that have `variables` in their environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        source = SITECUSTOMIZE.format(folder=str(folder), signal=SIGNAL.name)
        (folder / "sitecustomize.py").write_text(textwrap.dedent(source))
        self.variables: Mapping[str, str] = {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}

    def toggle(self, pid: int) -> None:
        """Start to count in a process, or end it; done once the file is `written`."""
        os.kill(pid, SIGNAL)

    def written(self, pid: int) -> bool:
        return self._file(pid).exists()

    def of(self, pid: int) -> tuple[Counter[str], Counter[str]]:
        """Return how often each Python function was called, and how often each has called a builtin; once."""
        found = {"python": Counter[str](), "builtin": Counter[str]()}
        rows = json.loads(self._file(pid).read_text())
        self._file(pid).unlink()
        for kind, file, name, count in rows:
            found[kind][f"{_short(file)} {name}"] += count
        return found["python"], found["builtin"]

    def _file(self, pid: int) -> Path:
        return self._folder / f"{pid}.json"


def _short(file: str) -> str:
    """Return the path of a source file from its package on."""
    for mark in ("reactor_runtime/", "site-packages/", "lib/python"):
        before, found, after = file.rpartition(mark)
        if found:
            return mark.removeprefix("site-packages/") + after if before else file
    return Path(file).name
