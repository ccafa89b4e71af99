"""`--trace FILE`: writes the stages of each frame and event on a time line, for Perfetto.

The loop queues records; a thread converts them to JSON and writes them. `trace_events.py` has the format.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from reactor_runtime.errors import UsageError
from reactor_runtime.ipc.messages import Bundle, TraceSpans
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.telemetry.trace_events import (
    Event,
    Stages,
    TraceNames,
    dropped,
    sent,
    shown,
    spans,
    to_text,
)

logger = logging.getLogger(__name__)

MOST_WAITING = 20_000
MOST_BYTES = 256 << 20
WRITE_S = 0.2

Make = Callable[[TraceNames], Iterable[Event]]


class Trace:
    """Write records to a file on a thread, five times a second; use on the server's loop.

    At most 20,000 records wait; further ones are dropped and counted in the file. At 256 MiB the file is renamed to
    `FILE.1`, which replaces an earlier one, and a new file begins. A file that is cut off is valid but for its last
    `]`. Raises UsageError when the file can't be written; a later failure ends the trace with a line in the log.
    """

    def __init__(
        self, path: Path, *, most_bytes: int = MOST_BYTES, most_waiting: int = MOST_WAITING, write_s: float = WRITE_S
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._most_waiting = most_waiting
        self._write_s = write_s
        self._waiting: deque[Make] = deque()
        self._lost = 0
        self._names = TraceNames()
        self._over = threading.Event()
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise UsageError(
                f"can't write the trace to {path}: {error.strerror}", hint="--trace takes a file"
            ) from error
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="reactor-trace", daemon=True)
        self._thread.start()

    def shown(self, bundle: Bundle, stages: Stages) -> None:
        """Record the stages of a bundle that was shown."""
        self._record(lambda names: shown(names, bundle, stages))

    def dropped(self, bundle: Bundle, at: float, reason: str) -> None:
        """Record a bundle that is not shown."""
        self._record(lambda names: dropped(names, bundle, at, reason))

    def sent(self, client: str, item: str | bytes | MediaFile, posted_at: float, send_s: float) -> None:
        """Record an item that a client's socket took, and the seconds until the socket was ready again."""
        header, size = (item.header, len(item.data)) if isinstance(item, MediaFile) else (None, len(item))
        self._record(lambda names: sent(names, client, header, size, posted_at, send_s))

    def spans(self, traced: TraceSpans, engine: str = "") -> None:
        """Record the spans of the engine, with its number where there are several."""
        self._record(lambda names: spans(names, traced, engine))

    def close(self) -> None:
        """Write the records that wait, and close the file. Blocks."""
        self._over.set()
        self._thread.join()

    def _record(self, make: Make) -> None:
        if len(self._waiting) < self._most_waiting:
            self._waiting.append(make)
        else:
            self._lost += 1

    def _run(self) -> None:
        try:
            self._begin()
            while not self._over.wait(self._write_s):
                self._write_waiting()
            self._write_waiting()
            self._end()
        except OSError as error:
            logger.warning("the trace ends here, it can't be written file=%s: %s", self._path, error.strerror)
            self._file.close()
            self._waiting = deque(maxlen=0)

    def _begin(self) -> None:
        first, *others = self._names.begin()
        self._write(b"[\n" + to_text(first) + _texts(others))

    def _end(self) -> None:
        self._write(b"\n]\n")
        self._file.close()

    def _write_waiting(self) -> None:
        texts = []
        for _ in range(len(self._waiting)):
            texts.append(_texts(self._waiting.popleft()(self._names)))
        if self._lost:
            lost, self._lost = self._lost, 0
            logger.warning("trace records were dropped: the disk is too slow lost=%d", lost)
            texts.append(_texts([self._names.lost(lost)]))
        self._write(b"".join(texts))
        if self._written > self._most_bytes:
            self._end()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file, self._written = self._path.open("wb", buffering=0), 0
            self._begin()

    def _write(self, data: bytes) -> None:
        """Write whole events without a buffer, so that a killed process leaves whole events."""
        self._written += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]


def _texts(events: Iterable[Event]) -> bytes:
    return b"".join(b",\n" + to_text(event) for event in events)
