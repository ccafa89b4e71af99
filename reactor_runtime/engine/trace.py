"""Spans of the model's process for `--trace`: collected here, written by the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from reactor_runtime.clock import Clock
from reactor_runtime.ipc.messages import TraceSpans

MOST_SPANS = 64
OLDEST_S = 0.25


class TraceRecorder:
    """Collect a session's spans and send them a few at a time; belongs to the model's loop."""

    def __init__(self, clock: Clock, send: Callable[[TraceSpans], None]) -> None:
        self.now = clock.now
        self._send = send
        self._spans: list[dict[str, Any]] = []

    def span(
        self, session: str, lane: str, name: str, began: float, ended: float | None = None, **args: object
    ) -> None:
        """Record a span from `began` to `ended`, by default now; the spans of a lane do not overlap."""
        ended = self.now() if ended is None else ended
        self._spans.append({"lane": lane, "name": name, "began": began, "ended": ended, "args": args})
        if len(self._spans) >= MOST_SPANS or ended - self._spans[0]["ended"] >= OLDEST_S:
            self.flush(session)

    def flush(self, session: str) -> None:
        """Send the spans collected so far."""
        if self._spans:
            spans, self._spans = self._spans, []
            self._send(TraceSpans(session, os.getpid(), spans))
