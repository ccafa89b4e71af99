"""The last line that a model logged or printed while it loads, for clients that wait until it has loaded."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence

from reactor_runtime.streams import StandardStream

LONGEST = 200
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]")


@contextlib.contextmanager
def watch_output(on_line: Callable[[str], None], streams: Sequence[StandardStream]) -> Iterator[None]:
    """Call `on_line` with each new line that the block writes to the streams or the log, which receive it as usual."""
    last, line, ended = "", "", False

    def add_text(text: str) -> None:
        nonlocal last, line
        # Another thread may call this after load() has returned.
        if ended:
            return
        *whole, line = re.split(r"[\r\n]", line[:LONGEST] + CONTROL.sub("", text))
        newest = next((found.strip() for found in (line, *reversed(whole)) if found.strip()), "")[:LONGEST]
        if newest and newest != last:
            last = newest
            on_line(last)

    handler = _TextHandler(add_text)
    for stream in streams:
        stream.observer = add_text
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        ended = True
        logging.getLogger().removeHandler(handler)
        for stream in streams:
            stream.observer = None


class _TextHandler(logging.Handler):
    def __init__(self, add_text: Callable[[str], None]) -> None:
        super().__init__()
        self._add_text = add_text

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        # The arguments do not fit the message: the log's own handler reports that, and load() continues.
        except Exception:  # noqa: BLE001
            text = str(record.msg)
        self._add_text(f"\n{text}\n")
