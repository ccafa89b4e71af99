"""How far a model has loaded, for clients that wait: the last line that it logged or printed, and its progress."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence

from reactor_runtime.logs.streams import StandardStream

LONGEST = 200
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]")

# As tqdm prints it: "Loading checkpoint shards:  50%|█████     | 2/4 [00:01<00:01]". Hugging Face uses it.
BAR = re.compile(r"(?P<label>.*?):? *(?P<percent>100|\d{1,2})%\|[^|]*\| *(?P<rest>.*)")


class Progress:
    """Combine what the model reports with the lines it writes; `on_change(line, fraction)` gets each change.

    A message that the model reports stays until the next report. A progress bar in the last line has the fraction that
    the bar shows, unless the model has reported one.
    """

    def __init__(self, on_change: Callable[[str, float | None], object]) -> None:
        self._on_change = on_change
        self._reported: float | None = None
        self._message = ""
        self._last: tuple[str, float | None] = "", None

    def add_line(self, line: str) -> None:
        """Add a line that the model logged or printed; on any thread."""
        if self._message:
            return
        bar = BAR.fullmatch(line)
        if bar is None:
            self._change(line, self._reported)
        else:
            fraction = int(bar["percent"]) / 100 if self._reported is None else self._reported
            self._change(f"{bar['label']} {bar['rest']}".strip(), fraction)

    def report(self, fraction: float | None, message: str) -> None:
        """Set the fraction, and the message, which lines replace if it is empty; on any thread."""
        self._reported = fraction if fraction is None else round(fraction, 2)
        self._message = message.strip()[:LONGEST]
        self._change(self._message or self._last[0], self._reported)

    def _change(self, line: str, fraction: float | None) -> None:
        if (line, fraction) != self._last:
            self._last = line, fraction
            self._on_change(line, fraction)


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
