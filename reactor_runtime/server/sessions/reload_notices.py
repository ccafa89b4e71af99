"""`reactor.reload`: the outcome of the newest reload of an engine, for the clients of its slot."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from reactor_runtime import errors
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.options import ReloadReport, ServeOptions
from reactor_runtime.wire.reload import ReloadError, ReloadMessage, ReloadStatus

HIDDEN: ReloadError = {"message": "the new code can't run", "hint": None, "file": None, "line": None, "text": None}


class ReloadNotices:
    """Send clients the outcome of reloads; `newest` is the last message, None without `--reload`."""

    def __init__(
        self,
        options: ServeOptions,
        *,
        send: Callable[[str, dict[str, Any]], None],
        on_report: Callable[[ReloadReport], None],
    ) -> None:
        self.newest = None if options.reload is None else _message(ReloadStatus.APPLIED)
        self._options = options
        self._send = send
        self._on_report = on_report
        self._reason = ""

    @property
    def restarts(self) -> bool:
        """Return whether the engine is being started again."""
        return self.newest is not None and self.newest["status"] == ReloadStatus.RESTARTING

    def on_engine_reload(self, message: ipc.Reloaded | ipc.Loading) -> None:
        """Send the outcome of a reload, or keep the progress of one that loads the model again."""
        if isinstance(message, ipc.Loading):
            if self._loads:
                self.newest = _message(
                    ReloadStatus.LOADING, self._reason, detail=message.detail, progress=message.progress
                )
            return
        error = None if message.error is None else errors.from_json(message.error)
        self._reason = message.reason
        self.newest = _message(message.status, message.reason, error=None if error is None else self._error(error))
        self._on_report(ReloadReport(message.status, message.reason, error))
        self.send_newest()

    def send_progress(self) -> None:
        """Send how far the model is that a reload loads again; do nothing if there is none."""
        if self._loads:
            self.send_newest()

    def send_newest(self) -> None:
        """Send the last message again; do nothing without `--reload`."""
        if self.newest is not None:
            self._send("reactor.reload", dict(self.newest))

    @property
    def _loads(self) -> bool:
        return self.newest is not None and self.newest["status"] == ReloadStatus.LOADING

    def _error(self, error: errors.ReactorError) -> ReloadError:
        """Return the error for clients, with the file relative to the project."""
        where = error.where
        if not self._options.exposes_errors:
            return HIDDEN
        return {
            "message": error.message,
            "hint": error.hint or None,
            "file": None if where is None else os.path.relpath(where.file, self._options.manifest.project),
            "line": None if where is None else where.line,
            "text": None if where is None else where.text,
        }


def _message(
    status: str,
    reason: str = "",
    *,
    detail: str | None = None,
    progress: float | None = None,
    error: ReloadError | None = None,
) -> ReloadMessage:
    return {"status": status, "reason": reason or None, "detail": detail, "progress": progress, "error": error}
