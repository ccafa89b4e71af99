"""Records sessions: their entries go through a queue to a thread, which writes a file for each session.

The file is temporary where only the sessions that a controller wants to keep are saved.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import platform
import queue
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

import numpy as np
import yaml

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine.seeds import MOST_SEEDS
from reactor_runtime.errors import UsageError
from reactor_runtime.ipc.messages import ClientEvent, Kept, StartSession
from reactor_runtime.recording.entries import (
    EndEntry,
    Entry,
    EventEntry,
    FrameEntry,
    Header,
    KeptEntry,
    MessageEntry,
    OutputEntry,
    ReadEntry,
    UploadEntry,
    hash_pieces,
    to_pieces,
)
from reactor_runtime.recording.file import RecordingWriter, encode_array, hash_file, require_extra
from reactor_runtime.version import version

logger = logging.getLogger(__name__)

MOST_QUEUED_BYTES = 64 << 20
# Of an entry without files, on the average.
ENTRY_BYTES = 500
CLOSE_S = 5.0
# The size limit of a session held for `keep`.
MOST_HELD_BYTES = 512 << 20
SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
# Settings files, hashed with the imported modules.
SETTINGS = ("reactor.yaml", "config.yml", "config.yaml")


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Where recordings go, and whether they hold the pixels of the output too.

    With `only_kept` they hold only the sessions for which `Recorder.keep` is called.
    """

    directory: Path
    with_video: bool = False
    only_kept: bool = False


class Recorder:
    """Write a recording of each session into a directory.

    `start_log` belongs to the model's thread. The queue holds at most 64 MiB. If it is full, or the disk is, this and
    all later recordings stop with one warning; with video, frames are left out before that. With `only_kept`, sessions
    are held in a temporary file of at most 512 MiB and one entry, until the next one starts. `on_kept` gets the results
    of `keep` on the thread that writes.
    """

    def __init__(
        self,
        options: RecordOptions,
        config: str,
        project: Path,
        *,
        on_kept: Callable[[Kept], object] = lambda _: None,
        most_queued_bytes: int = MOST_QUEUED_BYTES,
        most_held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        self._options = options
        self._config = config
        self._project = project
        self._most_held_bytes = most_held_bytes
        self._queue = _WriterThread(most_queued_bytes, on_kept)
        try:
            require_extra()
        except UsageError as error:
            self._queue.failure = error

    def start_log(
        self, start: StartSession, contract: Contract, config: dict[str, Any] | None = None
    ) -> _SessionRecorder | None:
        """Start the recording of a session; return None after a failure."""
        if self._queue.failure is not None:
            return None
        header = Header(
            model=f"{contract.model.__module__}:{contract.model.__qualname__}",
            config=self._config if config is None else yaml.safe_dump(config, sort_keys=False),
            contract=contract.to_json(),
            seed=secrets.randbelow(MOST_SEEDS),
            client=start.client,
            joined_at=start.joined_at_unix,
            started_at=time.time(),
            versions=_versions(),
        )
        self._queue.put(_Start(self._options, self._project, header, self._most_held_bytes), 0)
        return _SessionRecorder(header.seed, self._queue, with_video=self._options.with_video)

    def keep(self, session: str) -> None:
        """Save the recording of the session up to now, and mark its last minute; any thread.

        With `only_kept` it is copied to a new file, else it is marked in its file.
        """
        self._queue.put_keep(_Keep(session))

    def close(self) -> None:
        """Wait, at most 5 s, until all is written."""
        self._queue.close()


class _SessionRecorder:
    """Put what happens in one session into the queue, as `SessionLog` describes it."""

    def __init__(self, seed: int, writing: _WriterThread, *, with_video: bool) -> None:
        self.seed = seed
        self._writing = writing
        self._with_video = with_video
        self._frames: dict[str, int] = {}

    def on_begin(self) -> None: ...

    def on_step(self, step: int) -> None: ...

    def on_applied(self) -> None: ...

    def on_output(self, step: int, bundles: Sequence[Mapping[Any, Any]]) -> None:
        pieces = to_pieces(bundles)
        self._writing.put(OutputEntry(step, hash_pieces(pieces)))
        if not self._with_video:
            return
        for track, arrays in pieces.items():
            for array in arrays:
                number = self._frames[track] = self._frames.get(track, -1) + 1
                if array.ndim == 3 and self._writing.half_empty:
                    # The author may change the array when the step continues.
                    self._writing.put(FrameEntry(track, number, array.copy()), array.nbytes)

    def on_event(self, step: int, event: ClientEvent, *, skipped: bool) -> None:
        entry = EventEntry(step, event.name, event.data_json, skipped)
        self._writing.put(entry, ENTRY_BYTES + len(event.data_json))

    def on_read(self, step: int, track: str, call: int, items: Sequence[Item[Any]]) -> None:
        files = tuple(item.file or encode_array(item.array()) for item in items)
        self._writing.put(ReadEntry(step, track, call, files), ENTRY_BYTES + sum(map(len, files)))

    def on_upload(self, file: UploadedFile) -> None:
        self._writing.put(file, file.size_bytes)

    def on_message(self, step: int, kind: str, data: dict[str, Any]) -> None:
        self._writing.put(MessageEntry(step, kind, data))

    def on_end(self, step: int, error: str) -> None:
        self._writing.put(EndEntry(step, error))


@dataclass(frozen=True, slots=True)
class _Start:
    options: RecordOptions
    project: Path
    header: Header
    most_held_bytes: int


@dataclass(frozen=True, slots=True)
class _Keep:
    session: str


_Job = _Start | _Keep | Entry | UploadedFile


class _WriterThread:
    """Write entries on a thread, which starts with the first; any thread may call `put`.

    `failure` is why nothing is recorded any more.
    """

    def __init__(self, most_bytes: int, on_kept: Callable[[Kept], object]) -> None:
        self.failure: UsageError | None = None
        self._on_kept = on_kept
        self._most_bytes = most_bytes
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[_Job, int, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def half_empty(self) -> bool:
        return self._queued_bytes < self._most_bytes // 2

    def put(self, job: _Job, size_bytes: int = ENTRY_BYTES) -> None:
        """Queue a job; with too many bytes in the queue, stop recording."""
        if self.failure is not None:
            return
        with self._lock:
            # One entry alone may be larger, as an uploaded file.
            full = self._queued_bytes > 0 and self._queued_bytes + size_bytes > self._most_bytes
            self._queued_bytes += size_bytes
        if full:
            self._stop("the disk is too slow")
            return
        self._post(job, size_bytes)

    def put_keep(self, job: _Keep) -> None:
        """Queue a job that is always answered."""
        self._post(job, 0)

    def _post(self, job: _Job, size_bytes: int) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reactor-recorder", daemon=True)
            self._thread.start()
        self._jobs.put((job, size_bytes, time.time_ns()))

    def close(self) -> None:
        """Write what is queued, and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(CLOSE_S)

    def _stop(self, reason: str) -> None:
        with self._lock:
            before = self.failure
            self.failure = UsageError(f"recording has stopped: {reason}", hint="restart to record again")
        if before is None:
            logger.warning("recording has stopped, the stream continues; restart to record again: %s", reason)

    def _run(self) -> None:
        session: _SessionFile | None = None
        while (queued := self._jobs.get()) is not None:
            job, size_bytes, time_ns = queued
            with self._lock:
                self._queued_bytes -= size_bytes
            try:
                if isinstance(job, _Keep):
                    self._on_kept(self._keep(job, session, time_ns))
                elif self.failure is None:
                    session = self._write(job, session, time_ns)
            except OSError as error:
                self._stop(str(error))
            # The thread has to answer every keep.
            except Exception as error:
                logger.exception("the recorder failed")
                self._stop(f"{type(error).__name__}: {error}")
            if self.failure is not None and session is not None:
                # This frees the space of a temporary file.
                session.close()
                session = None
        if session is not None:
            session.close()

    def _write(
        self, job: _Start | Entry | UploadedFile, session: _SessionFile | None, time_ns: int
    ) -> _SessionFile | None:
        """Write one entry, or start a file; return the session that is recorded from now on."""
        if isinstance(job, _Start):
            if session is not None:
                session.close()
            return _SessionFile(job)
        # A thread of the author may still read an input when its session has ended.
        if session is not None and session.is_open:
            session.write(job, time_ns, flush=self._jobs.empty())
        return session

    def _keep(self, job: _Keep, session: _SessionFile | None, time_ns: int) -> Kept:
        try:
            if self.failure is not None:
                raise self.failure
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


class LastMinute:
    """Find the step with which the last minute of a session begins, to the second."""

    def __init__(self) -> None:
        # The time of a step in each second.
        self._seconds: deque[tuple[int, int]] = deque()
        self._step = 0

    def add_step(self, step: int, time_ns: int) -> None:
        self._step = step
        seconds = self._seconds
        if not seconds or time_ns - seconds[-1][0] >= SECOND_NS:
            seconds.append((time_ns, step))
        while len(seconds) > 1 and seconds[1][0] <= time_ns - MINUTE_NS:
            seconds.popleft()

    def entry(self) -> KeptEntry:
        return KeptEntry(self._step, self._seconds[0][1] if self._seconds else 0)


class _SessionFile:
    """Write the file of one session.

    A file in the directory is closed with the EndEntry. A temporary one is held for `keep`, unless it is too large.
    """

    def __init__(self, start: _Start) -> None:
        self._start = start
        # None for a temporary file.
        self._path: Path | None = None
        self._file: IO[bytes]
        if start.options.only_kept:
            self._file = tempfile.TemporaryFile(prefix="reactor-")  # noqa: SIM115  (`close` closes it)
        else:
            self._file, self._path = _open_new(start.options.directory, start.header.started_at)
        # Reading the project's files takes too long for the model's thread.
        header = replace(start.header, files=_hashes(start.project))
        self._writer = RecordingWriter(self._file, header)
        self._file.flush()
        self._end: tuple[int, EndEntry] | None = None
        self._last_minute = LastMinute()

    @property
    def is_open(self) -> bool:
        """Return whether entries are recorded: the session has not ended, and is not too large."""
        return self._end is None and not self._file.closed

    def write(self, job: Entry | UploadedFile, time_ns: int, *, flush: bool) -> None:
        match job:
            case UploadedFile():
                job = UploadEntry(job.id, job.name, job.content_type, job.read())
            case OutputEntry():
                self._last_minute.add_step(job.step, time_ns)
            case EndEntry():
                self._end = time_ns, job
        self._writer.write(job, time_ns)
        if self._path is None:
            if self._file.tell() > self._start.most_held_bytes:
                self._file.close()
        elif self._end is not None:
            self._writer.finish()
            self._file.close()
            logger.info("recorded the session file=%s", self._path)
        elif flush:
            self._file.flush()

    def keep(self, time_ns: int) -> Path:
        """Return the path of a file with the session up to now; raise UsageError if it is too large."""
        if not self._file.closed:
            self._writer.write(self._last_minute.entry(), time_ns)
            self._file.flush()
        if self._path is not None:
            return self._path
        if self._file.closed:
            raise UsageError(
                f"the session has more than {self._start.most_held_bytes >> 20} MB of inputs, the most that is held",
                hint="start with --record DIR, which has no limit, or begin a new session",
            )
        return self._copy(time_ns)

    def _copy(self, time_ns: int) -> Path:
        copy, path = _open_new(self._start.options.directory, time_ns / SECOND_NS)
        try:
            with copy:
                self._file.seek(0)
                # This leaves the position at the end.
                shutil.copyfileobj(self._file, copy)
        except OSError:
            self._file.seek(0, os.SEEK_END)
            path.unlink()
            raise
        return path

    def why_ended(self, now_ns: int) -> tuple[str, str]:
        """Return why the recording ended before now, and what to do; "" for both if it did not."""
        if self._end is None:
            return "", ""
        ended_ns, end = self._end
        hint = "to record new code, begin a new session: reload the page"
        if end.error:
            return f"the recording ended with an error: {end.error}", hint
        age_s = (now_ns - ended_ns) / SECOND_NS
        ended = f"the recording ended {age_s:.0f} s ago, at a reload"
        return f"{ended}: a replay runs one version of the code", hint

    def close(self) -> None:
        """Close the file of a session that has not ended; what can't be written is lost."""
        with contextlib.suppress(OSError):
            self._file.close()


def _open_new(directory: Path, at: float) -> tuple[BinaryIO, Path]:
    """Create a file named after the time; a number follows where there is one of the same second."""
    directory.mkdir(parents=True, exist_ok=True)
    name = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(at))
    number = 1
    while True:
        path = directory / (f"{name}.mcap" if number == 1 else f"{name}_{number}.mcap")
        try:
            return path.open("xb"), path
        except FileExistsError:
            number += 1


def _versions() -> dict[str, str]:
    torch = sys.modules.get("torch")
    return {
        "reactor-live": version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        **({} if torch is None else {"torch": str(torch.__version__)}),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _hashes(project: Path) -> dict[str, str]:
    """Return the hashes of the project's settings and of the modules that were imported from it, by name."""
    root = project.resolve()
    modules = [file for module in list(sys.modules.values()) if (file := _file_in(root, module)) is not None]
    settings = [root / name for name in SETTINGS if (root / name).is_file()]
    hashes = {path.relative_to(root).as_posix(): hash_file(path) for path in sorted({*modules, *settings})}
    if unreadable := [name for name, hash in hashes.items() if hash is None]:
        logger.warning("the recording lacks the hashes of files that can't be read: %s", ", ".join(unreadable))
    return {name: hash for name, hash in hashes.items() if hash is not None}


def _file_in(root: Path, module: ModuleType) -> Path | None:
    # A lazy module is not to be imported by this.
    file = inspect.getattr_static(module, "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file)
    inside = root in path.parents and not {"site-packages", "dist-packages"} & set(path.parts)
    return path if inside and path.is_file() else None
