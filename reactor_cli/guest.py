"""The author's modules as guests in a command's own process: they find what they find in the engine's."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def make_room() -> TextIO:
    """Prepare for importing the author's modules; returns stdout, for results alone from here on; close it.

    Whatever else is printed goes to stderr: by C code, child processes, threads and exit handlers too. The command's
    arguments are not theirs, and what Python puts on the path for our own start isn't there either.
    """
    sys.argv[:] = sys.argv[:1]
    if not sys.flags.safe_path:
        del sys.path[0]
    sys.stdout.flush()
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return results
