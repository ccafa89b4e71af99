"""Replay of a recording: the same inputs at the same steps, on a fake clock, compared with the recorded output."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from reactor_runtime import config as config_file
from reactor_runtime import manifest
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import volatile_fields
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.author import load_failure, session_failure
from reactor_runtime.engine.session import runs_in_handler
from reactor_runtime.engine.session_host import SessionHost
from reactor_runtime.engine.session_log import OnFile, ReloadOutcome
from reactor_runtime.errors import ReactorError, UsageError, from_json
from reactor_runtime.ipc.messages import ClientEvent, StartSession
from reactor_runtime.recording.configs import ReplayConfig, comparable, config_differences, parse_config
from reactor_runtime.recording.contracts import contract_differences, kinds_of
from reactor_runtime.recording.entries import to_pieces
from reactor_runtime.recording.file import SessionRecording, StoredRead, read_recording
from reactor_runtime.recording.pieces import Metadata
from reactor_runtime.testing.comparison import Comparison, OnOutput, Replay
from reactor_runtime.testing.recorder import OutputRecorder
from reactor_runtime.testing.replayed_events import SESSION, ReplayedEvents
from reactor_runtime.testing.replayed_input import ReplayedBuffer, ReplayedReads, ReplayPosition
from reactor_runtime.testing.studio import PATIENCE_S, Studio

OnStep = Callable[[int], object]
MOST_LINES = 10


def replay(
    file: str | Path,
    model: type[Model] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    config_from: Literal["recording", "project"] | None = None,
) -> Replay:
    """Run a recorded session again and compare its output with the recording, frame by frame.

    The class and the config are those of the project in the current directory; `model` and `config` override them.
    `config_from="recording"` loads the model with the recorded config, which may come from anyone. Raises the exception
    that the model raises, and UsageError for a file that is no recording, for a recording of another contract, and,
    without `config_from`, for a recording with another config.
    """
    recording = read_recording(Path(file))
    project = manifest.load(Path()) if Path(manifest.FILE_NAME).is_file() else None
    if model is None:
        model = _model_of(project)
    over = dict(config or {})
    if config_from == "recording":
        return replay_recording(recording, model, ReplayConfig(over, over_recorded=True))
    own = GivenConfig({}) if project is None else project.given_config()
    current = comparable(own, recording.header.config)
    if config_from is None and (lines := config_changes(recording, current, over)):
        raise other_config(
            recording, lines, hint='replay(file, config_from="recording") uses it, if you trust the file'
        )
    if not over:
        return replay_recording(recording, model, ReplayConfig(own.values, file=own.file))
    values = config_file.load(own.file) if own.values is None else own.values
    return replay_recording(recording, model, ReplayConfig(config_file.laid_over(values, over)))


def replay_recording(
    recording: SessionRecording,
    model: type[Model],
    config: ReplayConfig,
    *,
    project: Path | None = None,
    on_loaded: Callable[[], object] = lambda: None,
    on_output: OnOutput = lambda *_: None,
    on_step: OnStep = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Replay:
    """Replay as `replay` does, up to the step in which `is_stopped()` becomes true.

    `on_loaded` is called after `load()`, `on_output` with the number of a step and its arrays, which may change when it
    returns, and `on_step` after each step.
    """
    contract = Contract.of(model)
    refuse_other_contract(recording, contract)
    given = config.of(recording.header.config)
    volatile = {kind: volatile_fields(message) for kind, message in contract.messages.items()}
    comparison = Comparison(recording, on_output, volatile)
    log = _ReplayLog(recording, comparison, on_step, config.of)
    with _ReplayStudio(model, given, project=project, logs=log, make_buffer=log.make_buffer) as studio:
        studio.refuse_other_tracks(recording)
        on_loaded()
        studio.replay(recording, log, comparison, is_stopped)
    return comparison.result


@contextlib.contextmanager
def author_errors(contract: Contract, project: Path) -> Iterator[Callable[[], None]]:
    """Convert exceptions of the author's code in the block; those before the function is called are of `load()`."""
    loaded = False

    def on_loaded() -> None:
        nonlocal loaded
        loaded = True

    try:
        yield on_loaded
    except ReactorError:
        raise
    except Exception as error:
        raise (session_failure(error, project) if loaded else load_failure(error, contract, project)) from error


def refuse_other_contract(recording: SessionRecording, contract: Contract, *, is_loaded: bool = False) -> None:
    """Raise UsageError, with the differences, if a recording was made with another contract.

    Before `load()` a class may lack output tracks that the recording has.
    """
    recorded, described = recording.header.contract, contract.to_json()
    if not is_loaded:
        known = {track["name"] for track in described["tracks"]}
        made = [track for track in recorded["tracks"] if track["direction"] == "out" and track["name"] not in known]
        described = {**described, "tracks": [*described["tracks"], *made]}
    differences = contract_differences(recorded, described)
    if differences:
        raise UsageError(
            f"{recording.path} was recorded with another contract: {_joined(differences)}",
            hint="replay it with the code that recorded it, or record again",
        )


def config_changes(recording: SessionRecording, current: dict[str, Any], over: dict[str, Any]) -> list[str]:
    """Return how the recorded configs differ from the current one, a line for each value that `over` does not set."""
    now = config_file.laid_over(current, over)
    recorded = [config_file.laid_over(parse_config(text), over) for text in recording.configs]
    return list(dict.fromkeys(line for each in recorded for line in config_differences(each, now)))


def other_config(recording: SessionRecording, changes: Sequence[str], *, hint: str) -> UsageError:
    """Return the error for a recording with another config, which must not reach `load()` unasked."""
    return UsageError(f"{recording.path} was recorded with another config: {_joined(changes)}", hint=hint)


def _joined(lines: Sequence[str]) -> str:
    more = [] if len(lines) <= MOST_LINES else [f"and {len(lines) - MOST_LINES} more"]
    return "; ".join([*lines[:MOST_LINES], *more])


def _model_of(project: manifest.Manifest | None) -> type[Model]:
    """Return the class of the project, not the recorded one: importing that would run any module that a file names."""
    if project is None:
        raise UsageError(
            f"there is no {manifest.FILE_NAME} in {Path.cwd()}, which would name the class",
            hint="run this in the project, or give the class: replay(file, Model)",
        )
    found = import_class(project.project, project.module, project.class_name)
    assert issubclass(found, Model), "other classes are refused"
    return found


class _ReplayStudio(Studio[Model]):
    """Serve one recorded session from its start to its last step."""

    # The recorded events were applied.
    _is_replay: ClassVar[bool] = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Its block closes it, on its thread; at the exit of the process that may be another one.
        self._close.atexit = False

    def refuse_other_tracks(self, recording: SessionRecording) -> None:
        """Raise UsageError if `load()` has not made the tracks of the recording."""
        refuse_other_contract(recording, self._contract, is_loaded=True)

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
        log.attach(self._slot, self._contract, self._loop, self._recorder)
        self._slot.pause_steps(False)
        header = recording.header
        self._start(StartSession(log.session, header.client, header.joined_at, seat=header.seat))

        def over() -> bool:
            return log.finished or self._recorder.ended or self._failed_to_load is not None or is_stopped()

        progress = log.progress
        while not over():
            before = progress.actions
            self._wait.advance(over, PATIENCE_S)
            # With fewer outputs and more Idles, outputs are missing after the last step.
            if log.made_all_steps:
                break
            if progress.actions == before and not over():
                raise RuntimeError(
                    f"the replay stops after step {progress.step} of {recording.steps}: the model waits for an event "
                    "or an input that the recording does not have there"
                )
        if self._failed_to_load is not None:
            raise from_json(self._failed_to_load)
        if self._recorder.ended and not log.finished:
            # Raise the exception that ended the session, and not an earlier one of a handler.
            del self._recorder.failures[: -1 if self._recorder.session_failed else None]
            self._wait.raise_failure()
            made = progress.step or 0
            comparison.result.add_other(made, f"the session ended after {made} of {recording.steps} steps")
        # The server logs exceptions of handlers, and the session continues.
        self._recorder.failures.clear()
        comparison.finish()

    @property
    def _failed_to_load(self) -> dict[str, Any] | None:
        """Return the error of a `load()` at a reload."""
        return None if self._recorder.reloaded is None else self._recorder.reloaded.error


class _ReplayLog:
    """Repeat the recorded events and reloads at their steps, and pass on what the model returns to be compared.

    It is the `SessionLog` of the one session of a replay. `on_step` may be called on a thread of the model, all else
    belongs to the loop's. `configured` returns the config of the replay for a recorded one.
    """

    session = SESSION

    def __init__(
        self,
        recording: SessionRecording,
        comparison: Comparison,
        on_step: OnStep,
        configured: Callable[[str], GivenConfig],
    ) -> None:
        self.seed = recording.header.seed
        # Its step is None before the session begins, as in the warm-up.
        self.progress = ReplayPosition()
        self._recording = recording
        self._comparison = comparison
        self._on_step = on_step
        self._events = ReplayedEvents(recording, self.progress, comparison, configured)
        self._kinds = kinds_of(recording.header.contract, "in")
        self._reads: dict[str, list[StoredRead]] = defaultdict(list)
        for read in recording.reads:
            self._reads[read.track].append(read)
        end = recording.end
        # A session whose model failed did so in the step after the last.
        failed = end is not None and bool(end.error) and not end.between_steps
        self._last_step = recording.steps + (1 if failed else 0)
        self._studio: _Attached | None = None

    def attach(
        self, host: SessionHost, contract: Contract, loop: asyncio.AbstractEventLoop, recorder: OutputRecorder
    ) -> None:
        """Use these parts of a studio from here on."""
        self._events.attach(host, contract)
        self._studio = _Attached(host, loop, recorder)

    def make_buffer(self, track: str, *arguments: Any, **options: Any) -> InputBuffer[Any]:
        reads = ReplayedReads(self._recording, self._reads[track], self.progress, self._events, kind=self._kinds[track])
        return ReplayedBuffer(reads, *arguments, **options)

    @property
    def finished(self) -> bool:
        """Return whether all that was recorded has happened."""
        return self.made_all_steps and self._comparison.has_all_outputs

    @property
    def made_all_steps(self) -> bool:
        """Return whether the recorded steps were made, with the one that failed, and their events handled."""
        return not self.progress.handling and (self.progress.step or 0) >= self._last_step

    def start_log(
        self,
        start: StartSession,
        contract: Contract,  # noqa: ARG002
        reloaded: ReloadOutcome | None = None,  # noqa: ARG002
    ) -> _ReplayLog | None:
        return self if start.session == self.session else None

    def on_begin(self) -> None:
        self.progress.begin()
        self._events.send_next()

    @property
    def _attached(self) -> _Attached:
        assert self._studio is not None, "a studio is attached before it starts the session"
        return self._studio

    def on_step(self, step: int) -> None:
        self.progress.step = step
        self.progress.actions += 1
        loop = self._attached.loop
        in_handler = runs_in_handler()
        if threading.get_ident() == self._attached.thread:
            self._end_step(step, in_handler)
        else:
            loop.call_soon_threadsafe(self._end_step, step, in_handler)

    def _end_step(self, step: int, in_handler: bool) -> None:
        if in_handler:
            self._events.release_output()
        self.progress.wake_reads()
        self._events.send_next()
        if step >= self._last_step:
            self._attached.host.pause_steps(True)
        self._comparison.result.steps = min(step, self._recording.steps)
        self._on_step(step)

    def on_reload(self, step: int, outcome: ReloadOutcome) -> None:  # noqa: ARG002  (the signature of SessionLog)
        self._events.on_reload()

    def on_error(self, step: int, error: str) -> None: ...

    def on_event(self, step: int, event: ClientEvent, *, skipped: bool, waiting: bool) -> None: ...

    def on_applied(self) -> None:
        self._events.on_applied()

    def on_output(
        self, step: int, bundles: Sequence[Mapping[Any, Any]], metadata: Metadata
    ) -> Sequence[Mapping[str, OnFile]]:
        # The studio would keep all frames.
        self._attached.recorder.clear()
        if not self._events.discards_output:
            self._comparison.compare_output(step, to_pieces(bundles), metadata)
            self._events.send_next()
        return ()

    def on_read(self, step: int, track: str, call: int, items: Sequence[Item[Any]] | None) -> None: ...

    def on_upload(self, file: UploadedFile, *, is_kept: bool = False) -> None: ...

    def on_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        self._comparison.compare_message(step, kind, data)

    def on_end(self, step: int, error: str, *, between_steps: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class _Attached:
    """Hold the parts of a studio; made on the thread of its loop."""

    host: SessionHost
    loop: asyncio.AbstractEventLoop
    recorder: OutputRecorder
    thread: int = field(default_factory=threading.get_ident)
