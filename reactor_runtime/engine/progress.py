"""The last line that a model logged or printed while it loads, for the clients that wait."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence

from reactor_runtime.streams import StandardStream

LONGEST = 200
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]")


@contextlib.contextmanager
def watch_output(tell: Callable[[str], None], streams: Sequence[StandardStream]) -> Iterator[None]:
    """Call `tell` with each line that goes to the streams or the log meanwhile; it still goes there too."""
    last, line, over = "", "", False

    def note(text: str) -> None:
        nonlocal last, line
        if over:  # another thread may be about to call this when load() returns
            return
        *whole, line = re.split(r"[\r\n]", line[:LONGEST] + CONTROL.sub("", text))
        newest = next((found.strip() for found in (line, *reversed(whole)) if found.strip()), "")[:LONGEST]
        if newest and newest != last:
            last = newest
            tell(last)

    handler = _NoteHandler(note)
    for stream in streams:
        stream.observer = note
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        over = True
        logging.getLogger().removeHandler(handler)
        for stream in streams:
            stream.observer = None


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
