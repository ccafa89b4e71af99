"""Records sessions: their entries go through a queue to a thread, which writes a file for each session.

With `only_kept` a session is written to a temporary file, which `keep` copies.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import platform
import queue
import secrets
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_frame import InputFrame
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.config import to_text
from reactor_runtime.engine.seeds import MOST_SEEDS
from reactor_runtime.engine.session_file import ReloadedFiles, SessionFile, Written, read_settings
from reactor_runtime.engine.session_log import OnFile, ReloadOutcome
from reactor_runtime.errors import UsageError
from reactor_runtime.ipc.messages import ClientEvent, Kept, StartSession
from reactor_runtime.recording.contracts import contract_differences
from reactor_runtime.recording.entries import (
    EndEntry,
    ErrorEntry,
    EventEntry,
    FrameEntry,
    Header,
    MessageEntry,
    OutputEntry,
    ReadEntry,
    ReloadEntry,
    SentValues,
    hash_pieces,
    to_pieces,
)
from reactor_runtime.recording.file import encode_array, require_extra
from reactor_runtime.recording.pieces import Metadata
from reactor_runtime.version import version

logger = logging.getLogger(__name__)

MOST_QUEUED_BYTES = 64 << 20
# The average size of an entry, without its files and the values of an event or a message.
ENTRY_BYTES = 500
CLOSE_S = 5.0
# The thread that writes pauses for so long when it has nothing to do: each time it wakes up costs a tenth of a
# millisecond. It does not pause while more than this share of the queue is in use.
PAUSE_S, FREE_SHARE = 0.05, 0.25
# The size limit of the temporary file of a session, which `keep` makes a recording.
MOST_TEMPORARY_BYTES = 512 << 20
NOTHING_SENT = SentValues()


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Configure recordings: their directory, and how they contain the frames of the output.

    `video` is "" for hashes alone, "jpeg" for the files that the server encodes, or "lossless". With `only_kept`, a
    session is saved only if `Recorder.keep` is called.
    """

    directory: Path
    video: str = ""
    only_kept: bool = False


class Recorder:
    """Write a recording of each session into a directory.

    `start_log` belongs to the model's thread. The queue holds at most 64 MiB. If the queue is full, the recording with
    most of its bytes stops; if the disk is full, the one being written. With video, frames are left out before that.
    The next session is recorded again. Recordings that stop one after the other for the same reason have one warning.
    With `only_kept`, a session is in a temporary file, of at most 512 MiB and one entry more, until the next starts.
    `on_kept` gets the results of `keep` on the thread that writes.
    """

    def __init__(
        self,
        options: RecordOptions,
        config: dict[str, Any],
        project: Path,
        *,
        on_kept: Callable[[Kept], object] = lambda _: None,
        most_queued_bytes: int = MOST_QUEUED_BYTES,
        most_temporary_bytes: int = MOST_TEMPORARY_BYTES,
    ) -> None:
        self._options = options
        self._config = to_text(config)
        self._project = project
        self._most_temporary_bytes = most_temporary_bytes
        self._queue = _WriterThread(most_queued_bytes, on_kept)
        try:
            require_extra()
        except UsageError as error:
            self._queue.unavailable = error

    def start_log(
        self, start: StartSession, contract: Contract, reloaded: ReloadOutcome | None = None
    ) -> _SessionRecorder | None:
        """Start the recording of a session; return None if the packages for it are missing."""
        if self._queue.unavailable is not None:
            return None
        header = Header(
            model=f"{contract.model.__module__}:{contract.model.__qualname__}",
            config=self._config if reloaded is None else to_text(reloaded.config),
            contract=contract.to_json(),
            seed=secrets.randbelow(MOST_SEEDS) if start.seed is None else start.seed,
            client=start.client,
            joined_at=start.joined_at_unix,
            started_at=time.time(),
            versions=_versions(),
            seat=start.seat,
        )
        sources = {**({} if reloaded is None else reloaded.sources), **read_settings(self._project)}
        recording = _Recording()
        start_file = _Start(self._options, self._project, header, sources, self._most_temporary_bytes)
        self._queue.put(recording, start_file, 0)
        return _SessionRecorder(header, self._queue, recording, video=self._options.video, project=self._project)

    @property
    def descriptors(self) -> frozenset[int]:
        """Return the descriptors of the file that is written, if any; any thread."""
        return self._queue.descriptors

    def keep(self, session: str) -> None:
        """Save the recording of the session up to now, and mark its last minute; any thread.

        With `only_kept` it is copied to a new file, else it is marked in its file.
        """
        self._queue.put_keep(_Keep(session))

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait until all is written; log a warning if that takes longer."""
        self._queue.close(timeout_s)


class _SessionRecorder:
    """Implement `SessionLog`: queue the entries of one session.

    The recording ends with new code that has another contract, unless its first step fails.
    """

    def __init__(
        self, header: Header, writing: _WriterThread, recording: _Recording, *, video: str, project: Path
    ) -> None:
        self.seed = header.seed
        self._contract = header.contract
        self._client = header.client
        self._writing = writing
        self._recording = recording
        self._video = video
        self._project = project
        self._frames: dict[str, Iterator[int]] = defaultdict(itertools.count)
        # Whether the session is over, or its recording.
        self._ended = False
        # The steps before code with another contract, and before a read that was cancelled.
        self._other_contract_at: int | None = None
        self._cancelled_at: int | None = None

    def on_begin(self) -> None: ...

    def on_step(self, step: int) -> None:  # noqa: ARG002  (the signature of SessionLog)
        self._end_at_other_contract()

    def on_reload(self, step: int, outcome: ReloadOutcome) -> None:
        if self._ended:
            return
        waiting, self._cancelled_at = self._cancelled_at == step, None
        if contract_differences(self._contract, outcome.contract.to_json()):
            self._other_contract_at = step
            return
        # Code on trial with another contract has no entry, so a return to the old code is not "reverted" but "failed".
        kind = outcome.kind if self._other_contract_at is None else "failed"
        self._other_contract_at = None
        config = to_text(outcome.config)
        entry = ReloadEntry(step, kind, waiting, config)
        # The queue refers to the sources, which it does not copy.
        self._put(ReloadedFiles(entry, {**outcome.sources, **read_settings(self._project)}))

    def on_error(self, step: int, error: str) -> None:
        self._end_at_other_contract()
        self._put(ErrorEntry(step, error))

    def _end_at_other_contract(self) -> None:
        """End the recording before code with another contract, now that this code is kept."""
        if self._other_contract_at is not None:
            logger.warning("the recording of the session ends: a reload has changed the contract")
            self._put(EndEntry(self._other_contract_at))
            self._other_contract_at, self._ended = None, True

    def on_applied(self) -> None: ...

    def on_output(
        self, step: int, bundles: Sequence[Mapping[Any, Any]], metadata: Metadata | None = None
    ) -> Sequence[Mapping[str, OnFile]]:
        if self._ended:
            return ()
        pieces = to_pieces(bundles)
        metadata_bytes = len(json.dumps(metadata)) if metadata else 0
        self._put(OutputEntry(step, hash_pieces(pieces), metadata or {}), ENTRY_BYTES + metadata_bytes)
        if not self._video:
            return ()
        on_files: list[dict[str, OnFile]] = []
        for bundle in bundles:
            frames = {track.key: array for track, array in bundle.items() if array.ndim == 3}
            numbers = {track: next(self._frames[track]) for track in frames}
            if self._video == "jpeg":
                on_files.append({track: partial(self._put_file, track, number) for track, number in numbers.items()})
                continue
            for track, number in numbers.items():
                if self._writing.half_empty:
                    # The author may change the array when the step continues.
                    self._put(FrameEntry(track, number, frames[track].copy()), frames[track].nbytes)
        return on_files

    def _put_file(self, track: str, number: int, file: bytes, quality: int) -> None:
        if file:
            kept = file if self._writing.half_empty else b""
            self._put(FrameEntry(track, number, kept, quality), ENTRY_BYTES + len(kept))

    def _put(self, entry: Written, size_bytes: int = ENTRY_BYTES) -> None:
        # After the end the file of another session may be open.
        if not self._ended:
            self._writing.put(self._recording, entry, size_bytes)

    def on_event(self, step: int, event: ClientEvent, *, skipped: bool, waiting: bool = False) -> None:
        self._end_at_other_contract()
        client = "" if event.client == self._client else event.client
        entry = EventEntry(step, event.name, event.data_json, skipped, client, waiting, event.seat)
        self._put(entry, ENTRY_BYTES + len(event.data_json))

    def on_read(self, step: int, track: str, call: int, items: Sequence[Item[Any]] | None) -> None:
        if self._ended:
            return
        if items is None:
            self._cancelled_at = step
            return
        self._cancelled_at = None
        files = tuple(item.file or encode_array(item.array()) for item in items)
        sent = tuple(_sent_values(item.array()) for item in items)
        metadata_bytes = sum(len(values.metadata or "") for values in sent)
        entry = ReadEntry(step, track, call, files, sent if any(values != NOTHING_SENT for values in sent) else ())
        self._put(entry, ENTRY_BYTES + sum(map(len, files)) + metadata_bytes)

    def on_upload(self, file: UploadedFile, *, is_kept: bool = False) -> None:
        self._put(file, ENTRY_BYTES if is_kept else file.size_bytes)

    def on_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        self._put(MessageEntry(step, kind, data), ENTRY_BYTES + len(json.dumps(data)))

    def on_end(self, step: int, error: str, *, between_steps: bool = False) -> None:
        self._end_at_other_contract()
        self._put(EndEntry(step, error, between_steps))
        self._ended = True


@dataclass(frozen=True, slots=True)
class _Start:
    options: RecordOptions
    project: Path
    header: Header
    sources: dict[str, bytes]
    most_temporary_bytes: int


@dataclass(frozen=True, slots=True)
class _Keep:
    session: str


_Job = _Start | _Keep | Written


@dataclass(slots=True, eq=False)
class _Queued:
    """Hold a job in the queue; None if its recording has stopped meanwhile."""

    job: _Job | None
    size_bytes: int
    time_ns: int
    recording: _Recording | None


class _Recording:
    """Hold what is queued of one recording, and why it has stopped before its end."""

    def __init__(self) -> None:
        self.failure: UsageError | None = None
        self.queued: set[_Queued] = set()
        self.queued_bytes = 0


class _WriterThread:
    """Write entries on a thread; any thread may call `put` and `put_keep`.

    `unavailable` is why nothing can be recorded, `descriptors` are those of the open file.
    """

    def __init__(self, most_bytes: int, on_kept: Callable[[Kept], object]) -> None:
        self.unavailable: UsageError | None = None
        self.descriptors: frozenset[int] = frozenset()
        self._on_kept = on_kept
        self._most_bytes = most_bytes
        self._queued_bytes = 0
        # The recordings with queued entries.
        self._recordings: set[_Recording] = set()
        # The last warning, until a recording ends well.
        self._reported = ""
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        # Set while the thread should not pause.
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reactor-recorder", daemon=True)
        self._thread.start()

    @property
    def half_empty(self) -> bool:
        return self._queued_bytes < self._most_bytes // 2

    def put(self, recording: _Recording, job: _Job, size_bytes: int = ENTRY_BYTES) -> None:
        """Queue a job of a recording; with too many bytes in the queue, stop the one that has most of them."""
        stopped = []
        with self._lock:
            if recording.failure is not None:
                return
            queued = _Queued(job, size_bytes, time.time_ns(), recording)
            recording.queued.add(queued)
            recording.queued_bytes += size_bytes
            self._recordings.add(recording)
            self._queued_bytes += size_bytes
            # One entry alone may be larger, as an uploaded file.
            while self._queued_bytes > max(self._most_bytes, size_bytes):
                largest = max(self._recordings, key=lambda each: each.queued_bytes)
                self._drop(largest, "the disk is too slow")
                stopped.append(largest)
            if self._queued_bytes > FREE_SHARE * self._most_bytes:
                self._hurry.set()
        if stopped:
            self._report("the disk is too slow")
        if recording not in stopped:
            self._jobs.put(queued)
        if isinstance(job, _Start):
            # The thread reads files of the project, which may change soon.
            self._hurry.set()

    def put_keep(self, job: _Keep) -> None:
        """Queue a job that is always answered."""
        self._jobs.put(_Queued(job, 0, time.time_ns(), None))
        self._hurry.set()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, and end the thread."""
        self._jobs.put(None)
        self._hurry.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.warning("the recording lacks its end, which was not written within %g s", timeout_s)

    def _drop(self, recording: _Recording, reason: str) -> None:
        """Stop a recording, and drop what is queued of it; the caller has the lock."""
        hint = "begin a new session, which is recorded again"
        recording.failure = UsageError(f"the recording has stopped: {reason}", hint=hint)
        for queued in recording.queued:
            # The thread has to know that another session has begun.
            queued.job = queued.job if isinstance(queued.job, _Start) else None
        recording.queued.clear()
        self._queued_bytes -= recording.queued_bytes
        recording.queued_bytes = 0
        self._recordings.discard(recording)

    def _stop(self, recording: _Recording | None, reason: str) -> None:
        with self._lock:
            if recording is None or recording.failure is not None:
                return
            self._drop(recording, reason)
        self._report(reason)

    def _report(self, reason: str) -> None:
        before, self._reported = self._reported, reason
        if before != reason:
            logger.warning("the recording has stopped, the session continues; the next one is recorded: %s", reason)

    def _take(self, queued: _Queued) -> _Job | None:
        """Free the room of a job, and return it."""
        recording = queued.recording
        with self._lock:
            if recording is not None and queued in recording.queued:
                recording.queued.remove(queued)
                recording.queued_bytes -= queued.size_bytes
                self._queued_bytes -= queued.size_bytes
                if not recording.queued:
                    self._recordings.discard(recording)
            return queued.job

    def _run(self) -> None:
        session: SessionFile | None = None
        # The recording that is in this file.
        current: _Recording | None = None
        while (queued := self._jobs.get()) is not None:
            job = self._take(queued)
            if isinstance(job, _Start):
                if session is not None:
                    session.close()
                session, current = None, queued.recording
            try:
                if isinstance(job, _Keep):
                    self._on_kept(self._keep(job, session, current, queued.time_ns))
                elif isinstance(job, _Start):
                    session = None if current is None or current.failure is not None else _open(job)
                # A thread of the author may still read an input when its session has ended.
                elif job is not None and queued.recording is current and session is not None and session.is_open:
                    session.write(job, queued.time_ns, flush=self._jobs.empty())
                    if isinstance(job, EndEntry):
                        self._reported = ""
            except OSError as error:
                self._stop(current, str(error))
            # The thread has to answer every keep.
            except Exception as error:
                logger.exception("the recorder failed")
                self._stop(current, f"{type(error).__name__}: {error}")
            if current is not None and current.failure is not None and session is not None:
                # This frees the space of a temporary file.
                session.close()
                session = None
            self.descriptors = frozenset() if session is None else session.descriptors
            if self._jobs.empty():
                self._hurry.wait(PAUSE_S)
                self._hurry.clear()
        self.descriptors = frozenset()
        if session is not None:
            session.close()

    def _keep(self, job: _Keep, session: SessionFile | None, current: _Recording | None, time_ns: int) -> Kept:
        try:
            failure = self.unavailable if current is None else current.failure
            if failure is not None:
                raise failure
            if session is None:
                raise UsageError("no session has started")
            path = session.keep(time_ns)
        except UsageError as error:
            logger.warning("the session can't be kept: %s", error)
            return Kept(job.session, "", error.message, error.hint)
        except OSError as error:
            logger.warning("the session can't be kept: %s", error)
            return Kept(job.session, "", str(error))
        except Exception as error:
            logger.exception("the session can't be kept")
            return Kept(job.session, "", f"{type(error).__name__}: {error}")
        logger.info("kept the session file=%s", path)
        message, hint = session.why_ended(time_ns)
        if message:
            logger.warning("%s", message)
        return Kept(job.session, str(path), message, hint)


def _open(start: _Start) -> SessionFile:
    return SessionFile(
        start.header,
        start.options.directory,
        start.project,
        start.sources,
        temporary=start.options.only_kept,
        most_temporary_bytes=start.most_temporary_bytes,
    )


def _sent_values(array: object) -> SentValues:
    """Return what the client sent with a frame or a piece of sound."""
    if not isinstance(array, InputFrame):
        return NOTHING_SENT
    metadata = None if array.metadata is None else base64.b64encode(array.metadata).decode()
    return SentValues(array.pts, metadata, array.capture_time_us)


def _versions() -> dict[str, str]:
    torch = sys.modules.get("torch")
    return {
        "reactor-live": version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        **({} if torch is None else {"torch": str(torch.__version__)}),
        "machine": f"{platform.system()} {platform.machine()}",
    }
