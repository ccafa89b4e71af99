"""The last reload of a server with `--reload`, by its status."""

from __future__ import annotations

from reactor_runtime.wire.reload import ReloadError, ReloadMessage

ERROR: ReloadError = {
    "message": "NameError: name 'brightnes' is not defined",
    "hint": "did you mean brightness?",
    "file": "pipeline.py",
    "line": 41,
    "text": "    yield frame * brightnes",
}
REASON = "load() in pipeline.py has changed"
APPLIED: ReloadMessage = {"status": "applied", "reason": None, "detail": None, "progress": None, "error": None}
RELOADS: dict[str, ReloadMessage] = {
    "applied": APPLIED,
    "loading": {**APPLIED, "status": "loading", "reason": REASON, "detail": "shard 2 of 4", "progress": 0.5},
    "restarting": {**APPLIED, "status": "restarting", "reason": "reactor.yaml has changed"},
    "failed": {**APPLIED, "status": "failed", "error": ERROR},
}
