"""Where the author's code is at this moment, looked up from another thread."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType

from reactor_runtime.errors import is_ours

DEBUGGERS = ("bdb.py", "pydevd.py")
_ASYNCIO = Path(asyncio.__file__).parent


def author_stack(thread: int | None) -> str:
    """Write the frames of a thread as a traceback does, without ours; all of them where none is the author's."""
    frame = _newest_frame(thread)
    if frame is None:
        return ""
    lines = traceback.extract_stack(frame)
    theirs = [line for line in lines if not (is_ours(line.filename) or _starts_code(line.filename))]
    return "".join(traceback.format_list(theirs or lines))


def is_in_our_code(thread: int | None) -> bool:
    """Tell whether a thread is in a call of ours, as when it waits for room."""
    frame = _newest_frame(thread)
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    return frame is not None and is_ours(frame.f_code.co_filename)


def is_in_debugger(thread: int | None) -> bool:
    """Tell whether somebody looks at a thread's code with `breakpoint()` or an editor: it takes as long as it takes."""
    frame = _newest_frame(thread)
    while frame is not None:
        if frame.f_code.co_filename.endswith(DEBUGGERS):
            return True
        frame = frame.f_back
    return False


def _newest_frame(thread: int | None) -> FrameType | None:
    return None if thread is None else sys._current_frames().get(thread)


def _starts_code(filename: str) -> bool:
    """Tell the code that starts programs, threads and loops."""
    return filename.startswith("<frozen ") or filename == threading.__file__ or Path(filename).parent == _ASYNCIO
