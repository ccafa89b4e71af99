"""Replay of a recording: the same inputs at the same steps, on a fake clock, compared with the recorded output."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.config import laid_over
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.host import Host
from reactor_runtime.errors import UsageError
from reactor_runtime.ipc.messages import ClientEvent, Hold, StartSession
from reactor_runtime.recording.contracts import contract_differences
from reactor_runtime.recording.entries import EventEntry, to_pieces
from reactor_runtime.recording.file import SessionRecording, StoredRead, read_recording
from reactor_runtime.testing.comparison import Comparison, OnOutput, Replay
from reactor_runtime.testing.recorder import OutputRecorder
from reactor_runtime.testing.replayed_input import ReplayedBuffer, ReplayedReads
from reactor_runtime.testing.studio import PATIENCE_S, Studio

OnStep = Callable[[int], object]


def replay(file: str | Path, model: type[Model] | None = None, *, config: Mapping[str, Any] | None = None) -> Replay:
    """Run a recorded session again and compare its output with the recording, frame by frame.

    The class is the recorded one, imported by its name, unless `model` gives another. `config` overrides values of the
    recorded config. Raises the exception that the model raises, and UsageError for a file that is no recording, or one
    of another contract.
    """
    recording = read_recording(Path(file))
    return replay_recording(recording, model or _model_of(recording), config=config)


def replay_recording(
    recording: SessionRecording,
    model: type[Model],
    *,
    config: Mapping[str, Any] | None = None,
    project: Path | None = None,
    on_loaded: Callable[[], object] = lambda: None,
    on_output: OnOutput = lambda _, __: None,
    on_step: OnStep = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Replay:
    """Replay as `replay` does, up to the step in which `is_stopped()` becomes true.

    `on_loaded` is called after `load()`, `on_output` with the number of a step and its arrays, which may change when it
    returns, and `on_step` after each step.
    """
    refuse_other_contract(recording, Contract.of(model))
    given = laid_over(yaml.safe_load(recording.header.config) or {}, dict(config or {}))
    comparison = Comparison(recording, on_output)
    log = _ReplayLog(recording, comparison, on_step)
    with _ReplayStudio(model, given, project=project, logs=log, make_buffer=log.make_buffer) as studio:
        on_loaded()
        studio.replay(recording, log, comparison, is_stopped)
    return comparison.result


def refuse_other_contract(recording: SessionRecording, contract: Contract) -> None:
    """Raise UsageError, with the differences, if a recording was made with another contract."""
    differences = contract_differences(recording.header.contract, contract.to_json())
    if differences:
        raise UsageError(
            f"{recording.path} was recorded with another contract: {'; '.join(differences)}",
            hint="replay it with the code that recorded it, or record again",
        )


def _model_of(recording: SessionRecording) -> type[Model]:
    module, _, name = recording.header.model.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise UsageError(
            f"{module} has no model {name}, which was recorded", hint="give the class: replay(file, Model)"
        )
    return found


class _ReplayStudio(Studio[Model]):
    """Serve one recorded session from its start to its last step."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Its block closes it, on its thread; at the exit of the process that may be another one.
        self._close.atexit = False

    def replay(
        self,
        recording: SessionRecording,
        log: _ReplayLog,
        comparison: Comparison,
        is_stopped: Callable[[], bool],
    ) -> None:
        """Replay; raise the exception that ended the session, or RuntimeError if the model makes no more steps."""
        # It may have changed what load() stored on the model.
        self.warm_up()
        log.attach(self._host, self._contract, self._loop, self._recorder)
        self._host.hold_steps(False)
        self._start(StartSession(log.session, recording.header.client, recording.header.joined_at))

        def over() -> bool:
            return log.finished or self._recorder.ended or is_stopped()

        while not over():
            before = log.progress
            self._wait.advance(over, PATIENCE_S)
            # With fewer outputs and more Idles, outputs are missing after the last step.
            if log.made_all_steps:
                break
            if log.progress == before and not over():
                raise RuntimeError(
                    f"the replay stops after step {log.step} of {recording.steps}: the model waits for an event or an "
                    "input that the recording does not have there"
                )
        if self._recorder.ended and not log.finished:
            self._wait.raise_failure()
            comparison.result.add(log.step or 0, f"the session ended after {log.step} of {recording.steps} steps")
        # The server logs exceptions of handlers, and the session continues.
        self._recorder.failures.clear()
        comparison.finish()


class _ReplayLog:
    """Send the recorded events at their steps, and pass on what the model returns to be compared.

    It is the `SessionLog` of the one session of a replay. `on_step` may be called on a thread of the model, all else
    belongs to the loop's.
    """

    session = "s-1"

    def __init__(self, recording: SessionRecording, comparison: Comparison, on_step: OnStep) -> None:
        self.seed = recording.header.seed
        # None before the session begins, as in the warm-up.
        self.step: int | None = None
        # Grows with each step and each event.
        self.progress = 0
        self._recording = recording
        self._comparison = comparison
        self._on_step = on_step
        self._events: deque[EventEntry] = deque(event for event in recording.events if not event.skipped)
        self._reads: dict[str, list[StoredRead]] = defaultdict(list)
        for read in recording.reads:
            self._reads[read.track].append(read)
        # An event was sent and is not handled yet.
        self._handling = False
        failed = recording.end is not None and bool(recording.end.error)
        # A session that failed did so in the step after the last.
        self._last_step = recording.steps + (1 if failed else 0)
        self._studio: _Attached | None = None

    def attach(self, host: Host, contract: Contract, loop: asyncio.AbstractEventLoop, recorder: OutputRecorder) -> None:
        """Use these parts of a studio from here on."""
        self._studio = _Attached(host, contract, loop, recorder)

    def make_buffer(self, track: str, *arguments: Any, **options: Any) -> InputBuffer[Any]:
        reads = ReplayedReads(self._recording, self._reads[track], lambda: self.step)
        return ReplayedBuffer(reads, *arguments, **options)

    @property
    def finished(self) -> bool:
        """Return whether all that was recorded has happened."""
        return self.made_all_steps and self._comparison.has_all_outputs

    @property
    def made_all_steps(self) -> bool:
        """Return whether the recorded steps were made, and their events handled."""
        return not self._handling and (self.step or 0) >= self._last_step

    def start_log(
        self,
        start: StartSession,
        contract: Contract,  # noqa: ARG002
        config: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> _ReplayLog | None:
        return self if start.session == self.session else None

    def on_begin(self) -> None:
        self.step = 0
        for upload in self._recording.uploads:
            file = UploadedFile.received(upload.id, upload.content, name=upload.name, content_type=upload.content_type)
            self._attached.host.uploads.add(file)
        self._send_next()

    @property
    def _attached(self) -> _Attached:
        assert self._studio is not None, "a studio is attached before it starts the session"
        return self._studio

    def on_step(self, step: int) -> None:
        self.step = step
        self.progress += 1
        loop = self._attached.loop
        if threading.get_ident() == self._attached.thread:
            self._end_step(step)
        else:
            loop.call_soon_threadsafe(self._end_step, step)

    def _end_step(self, step: int) -> None:
        self._send_next()
        if step >= self._last_step:
            self._attached.host.hold_steps(True)
        self._comparison.result.steps = min(step, self._recording.steps)
        self._on_step(step)

    def _send_next(self) -> None:
        """Send the next event that is due, unless one is being handled, and hold the model until none is due.

        Only one waits at a time, so that none is superseded by a later one.
        """
        host = self._attached.host
        while not self._handling and self._events and self._events[0].step <= (self.step or 0):
            event = self._events.popleft()
            sent = ClientEvent(self.session, self._recording.header.client, None, event.name, event.data_json)
            checked = check_event(self._attached.contract.events, sent, host.uploads)
            if isinstance(checked, CheckedEvent):
                self._handling = True
                host.receive_message(Hold(self.session, True))
                host.receive_message(checked)
            else:
                self._comparison.result.add(event.step, f"event {event.name} is refused: {checked.message}")

    def on_event(self, step: int, event: ClientEvent, *, skipped: bool) -> None: ...

    def on_applied(self) -> None:
        self.progress += 1
        self._handling = False
        self._send_next()
        if not self._handling:
            self._attached.host.receive_message(Hold(self.session, False))

    def on_output(self, step: int, bundles: Sequence[Mapping[Any, Any]]) -> None:
        # The studio would keep all frames.
        self._attached.recorder.clear()
        self._comparison.compare_output(step, to_pieces(bundles))

    def on_read(self, step: int, track: str, call: int, items: Sequence[Item[Any]]) -> None: ...

    def on_upload(self, file: UploadedFile) -> None: ...

    def on_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        self._comparison.compare_message(step, kind, data)

    def on_end(self, step: int, error: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Attached:
    """Hold the parts of a studio; made on the thread of its loop."""

    host: Host
    contract: Contract
    loop: asyncio.AbstractEventLoop
    recorder: OutputRecorder
    thread: int = field(default_factory=threading.get_ident)
