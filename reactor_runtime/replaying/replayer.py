"""A replay on a thread of its own, as fast as it computes, whose frames are stored and compared with the recording."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.recording.configs import ReplayConfig
from reactor_runtime.recording.entries import hash_pieces, in_first_seat
from reactor_runtime.recording.file import SessionRecording, read_recording
from reactor_runtime.recording.pieces import Metadata, Pieces
from reactor_runtime.replaying.frame_store import FrameStore
from reactor_runtime.replaying.recorded_frames import RecordedFrames
from reactor_runtime.testing.comparison import Replay
from reactor_runtime.testing.session_replay import replay_recording

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The number of parts for which differing frames are reported.
MOST_PARTS = 1000
STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class ReplayedSession:
    """Hold a recording and the contract of the model that replays it; see `ReplayConfig` for what is of the config."""

    recording: SessionRecording
    frames: RecordedFrames
    contract: Contract
    project: Path
    over_recorded: bool = False
    config_file: str = ""
    merged_config: str = ""

    @classmethod
    def open(
        cls,
        file: str,
        *,
        project: str,
        module: str,
        class_name: str,
        over_recorded: bool,
        config_file: str = "",
        merged_config: str = "",
    ) -> ReplayedSession:
        """Read a recording, and import the class of a project."""
        recording = read_recording(Path(file))
        model = import_class(Path(project), module, class_name)
        assert issubclass(model, Model), "other classes are refused"
        contract = Contract.of(model)
        frames = RecordedFrames.of(recording, contract.fps)
        return cls(recording, frames, contract, Path(project), over_recorded, config_file, merged_config)

    def replay_config(self, values: dict[str, Any]) -> ReplayConfig:
        """Return the config of the replay; without values, a file of the project is left to the model."""
        file, merged = (Path(name) if name else None for name in (self.config_file, self.merged_config))
        unread = None if file is not None and not values else values
        return ReplayConfig(unread, self.over_recorded, file, merged)


class Replayer:
    """Replay a session once. `on_progress` is called on the thread of the replay, for each output and at the end.

    `result` is "" until the replay has ended, and then a line on how its output compares with the recording.
    """

    def __init__(self, session: ReplayedSession, on_progress: Callable[[], object]) -> None:
        self.store = FrameStore()
        self.result = ""
        self._session = session
        self._on_progress = on_progress
        self._loaded = threading.Event()
        self._load_error: BaseException | None = None
        self._stopping = False
        self._outputs = 0
        self._part = -(-len(session.frames) // MOST_PARTS)
        self._differing: set[int] = set()

    @property
    def differing(self) -> list[list[int]]:
        """Return where frames differ from the recording: the first and the last of each run, in parts of 1/1000."""
        parts = sorted(self._differing)
        runs = [[part for _, part in run] for _, run in groupby(enumerate(parts), lambda each: each[1] - each[0])]
        last = len(self._session.frames) - 1
        return [[run[0] * self._part, min(last, run[-1] * self._part + self._part - 1)] for run in runs]

    def start(self, config: dict[str, Any]) -> None:
        """Start the thread, and return when the model is loaded; raise what `load()` raises."""
        # The process does not wait for a long step.
        thread = threading.Thread(target=self._run, args=(config,), name="reactor-replay", daemon=True)
        thread.start()
        self._loaded.wait()
        if self._load_error is not None:
            raise self._load_error
        # Registered last, it is called first: `weakref.finalize`, which closes a studio, has an exit handler too.
        atexit.register(self._stop, thread)

    def _stop(self, thread: threading.Thread) -> None:
        self._stopping = True
        thread.join(STOP_S)

    def _run(self, config: dict[str, Any]) -> None:
        session = self._session
        try:
            result = replay_recording(
                session.recording,
                session.contract.model,
                session.replay_config(config),
                project=session.project,
                on_loaded=self._loaded.set,
                on_output=self._add_output,
                is_stopped=lambda: self._stopping,
            )
        # The author's code may raise anything.
        except BaseException as error:  # noqa: BLE001
            if not self._loaded.is_set():
                self._load_error = error
                self._loaded.set()
                return
            self.result = f"the replay ended with {type(error).__name__}, see the log"
            logger.error("the replay ended frames=%d of=%d: %s", len(self.store), len(session.frames), error)
        else:
            if self._stopping:
                return
            self.result = _describe(result)
            logger.info("replayed frames=%d of=%d: %s", len(self.store), len(session.frames), self.result)
        if self.store.full:
            logger.warning("only %d frames can be shown: %s", len(self.store), self.store.full)
        self._on_progress()

    def _add_output(self, step: int, pieces: Pieces, metadata: Metadata) -> None:  # noqa: ARG002  (see OnOutput)
        recorded, hashes = self._session.recording.outputs[self._outputs].hashes, hash_pieces(pieces)
        frames = self._session.frames.of_output(self._outputs)
        for index, frame in enumerate(frames):
            # Frames that only the new code makes are not shown: the last recorded one is marked for them.
            end = None if frame == frames[-1] else index + 1
            if _between(recorded, index, end) != _between(hashes, index, end):
                self._differing.add(frame // self._part)
            # Code that makes fewer frames than before shows its last one for longer.
            # Of a session with several seats the first is shown.
            self.store.append(in_first_seat(_frame_of(pieces, index)), in_first_seat(_frame_of(metadata, index)))
        self._outputs += 1
        self._on_progress()


def _frame_of(values: Mapping[str, Sequence[T]], index: int) -> dict[str, T]:
    return {track: of_track[min(index, len(of_track) - 1)] for track, of_track in values.items()}


def _between(hashes: Mapping[str, Sequence[str]], begin: int, end: int | None) -> dict[str, Sequence[str]]:
    """Return the hashes of some frames of an output, by track."""
    return {track: of_track[begin:end] for track, of_track in hashes.items() if begin < len(of_track)}


def _describe(result: Replay) -> str:
    if not result.differences:
        return "equal to the recording"
    if not result.different:
        return str(result.differences[0])
    return f"{result.different} of {result.frames} frames and pieces of sound differ"
