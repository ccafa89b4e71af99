"""The interface through which a session reports what its model received and returned: a recorder, or a replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.ipc.messages import ClientEvent, StartSession
from reactor_runtime.recording.pieces import Metadata, ReloadKind

# Gets the file into which the server encodes a frame, b"" if it has not, and its quality.
OnFile = Callable[[bytes, int], object]
_logs_messages: ContextVar[bool] = ContextVar("reactor_logs_messages", default=True)


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """Describe a reload, after which the code that makes frames starts again, and what is served from then on.

    `sources` maps the files of the project's modules to what they were executed from.
    """

    kind: ReloadKind
    contract: Contract
    config: dict[str, Any]
    sources: dict[str, bytes]


class SessionLog(Protocol):
    """Receive what happens in one session; `on_read` and `on_upload` on any thread, `on_step` on the author's."""

    # Set in the generators of random, NumPy and torch when the session starts.
    seed: int

    def on_begin(self) -> None:
        """Prepare for the session, before any of its code runs."""

    def on_step(self, step: int) -> None:
        """Receive the end of a step, counted from 1: the model has returned an output, or Idle."""

    def on_output(
        self, step: int, bundles: Sequence[Mapping[Any, Any]], metadata: Metadata
    ) -> Sequence[Mapping[str, OnFile]]:
        """Receive an output that passed its checks, and the metadata of its frames.

        The arrays may change once this returns. Returns for each bundle what gets the files of its frames, by track;
        nothing where they are not needed. It is called on the loop's thread, and not for a frame that is not sent.
        """

    def on_event(self, step: int, event: ClientEvent, *, skipped: bool, waiting: bool) -> None:
        """Receive an event that is about to be handled, or is skipped because a later one of its name waits.

        `waiting` is whether it is a client that comes or goes while the model waits in a read of an input.
        """

    def on_applied(self) -> None:
        """Receive the end of the handler of the last event."""

    def on_reload(self, step: int, outcome: ReloadOutcome) -> None:
        """Receive a reload, after which the code that makes frames starts again."""

    def on_error(self, step: int, error: str) -> None:
        """Receive the message of an exception that this step raised; the session waits for new code."""

    def on_read(self, step: int, track: str, call: int, items: Sequence[Item[Any]] | None) -> None:
        """Receive what read number `call` of an input track returned; no items if it raised TimeoutError.

        `items` is None if the read was cancelled. Reads are counted from the start of the session or the last reload.
        """

    def on_upload(self, file: UploadedFile, *, is_kept: bool = False) -> None:
        """Receive a file that a client uploaded, or one that is in memory since the session before a reset."""

    def on_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        """Receive a message of the model, or one that a handler returned as its reply."""

    def on_end(self, step: int, error: str, *, between_steps: bool = False) -> None:
        """Receive the end of the session; `error` is the message of the exception that ended it, or "".

        One that came `between_steps` is not from the model's code, as when a process of a runner died.
        """


class SessionLogs(Protocol):
    """Make the log of each session."""

    def start_log(
        self, start: StartSession, contract: Contract, reloaded: ReloadOutcome | None = None
    ) -> SessionLog | None:
        """Return the log of a session that starts with this contract; None if it is not logged.

        `reloaded` describes what is served, None if it cannot change.
        """
        ...


class CurrentLog:
    """Pass reads, uploads and messages on to the log of the session that runs, if it has one; any thread."""

    def __init__(self) -> None:
        self._current: tuple[SessionLog, Callable[[], int]] | None = None

    @contextlib.contextmanager
    def running(self, log: SessionLog | None, steps: Callable[[], int]) -> Iterator[None]:
        """Use this log in the block; `steps` returns the number of steps that its session has made."""
        self._current = None if log is None else (log, steps)
        try:
            yield
        finally:
            self._current = None

    def on_read(self, track: str, call: int, items: Sequence[Item[Any]] | None) -> None:
        if (current := self._current) is not None:
            log, steps = current
            log.on_read(steps(), track, call, items)

    def on_upload(self, file: UploadedFile) -> None:
        if (current := self._current) is not None:
            current[0].on_upload(file)

    def on_message(self, kind: str, data: dict[str, Any]) -> None:
        if (current := self._current) is not None and _logs_messages.get():
            log, steps = current
            log.on_message(steps(), kind, data)


@contextlib.contextmanager
def messages_unlogged() -> Iterator[None]:
    """Leave messages that are sent in the block out of the log, because a replay does not run its code."""
    token = _logs_messages.set(False)
    try:
        yield
    finally:
        _logs_messages.reset(token)
