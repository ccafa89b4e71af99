"""The last line a model logged or printed while it loads, for those who wait for it."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

LONGEST = 200
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]")


@contextlib.contextmanager
def watch_output(tell: Callable[[str], None]) -> Iterator[None]:
    """Call `tell` with each line that goes to stdout, stderr or the log meanwhile; it still goes there too."""
    last, line, over = "", "", False

    def note(text: str) -> None:
        nonlocal last, line
        if over:  # a log handler made in load() may keep the stream for good
            return
        *whole, line = re.split(r"[\r\n]", line[:LONGEST] + CONTROL.sub("", text))
        newest = next((found.strip() for found in (line, *reversed(whole)) if found.strip()), "")[:LONGEST]
        if newest and newest != last:
            last = newest
            tell(last)

    handler = _NoteHandler(note)
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(stdout, note), _Tee(stderr, note)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        over = True
        logging.getLogger().removeHandler(handler)
        sys.stdout, sys.stderr = stdout, stderr


class _Tee:
    """Pass everything on to a text stream, and note what is written."""

    def __init__(self, stream: IO[str], note: Callable[[str], None]) -> None:
        self._stream = stream
        self._note = note

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        self._note(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _NoteHandler(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  (the log's own handler says what is wrong with it; load() isn't to fail for it)
            text = str(record.msg)
        self._note(f"\n{text}\n")
