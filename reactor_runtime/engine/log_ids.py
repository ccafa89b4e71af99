"""The fields of log lines that name the session whose code writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar

_session: ContextVar[str] = ContextVar("reactor_log_session", default="")


class LogIds(Mapping[str, str]):
    """Map the names of the fields to those of the running session, and of several that run to those of the caller's.

    The tasks of a session have its context; other code has no fields while several sessions run. Any thread.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, str]] = {}

    def begin_session(self, session: str, client: str) -> None:
        """Add a session, which the running task serves from here on."""
        _session.set(session)
        self._sessions = {**self._sessions, session: {"session": session, "client": client}}

    def end_session(self, session: str) -> None:
        """Remove a session."""
        self._sessions = {name: ids for name, ids in self._sessions.items() if name != session}

    def _current(self) -> dict[str, str]:
        sessions = self._sessions
        if len(sessions) == 1:
            return next(iter(sessions.values()))
        return sessions.get(_session.get(), {})

    def __getitem__(self, name: str) -> str:
        return self._current()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())
