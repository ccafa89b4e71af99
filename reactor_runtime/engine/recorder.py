"""Records sessions: their entries go through a queue to a thread, which writes a file for each session."""

from __future__ import annotations

import contextlib
import logging
import platform
import queue
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine.seeds import MOST_SEEDS
from reactor_runtime.ipc.messages import ClientEvent, StartSession
from reactor_runtime.recording.entries import (
    EndEntry,
    Entry,
    EventEntry,
    FrameEntry,
    Header,
    MessageEntry,
    OutputEntry,
    ReadEntry,
    UploadEntry,
    hash_pieces,
    to_pieces,
)
from reactor_runtime.recording.file import RecordingWriter, encode_array, hash_file
from reactor_runtime.version import version

logger = logging.getLogger(__name__)

MOST_QUEUED_BYTES = 64 << 20
# Of an entry without files, on the average.
ENTRY_BYTES = 500
CLOSE_S = 5.0
# Files that are read by name.
SETTINGS = ("reactor.yaml", "config.yml", "config.yaml")


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Where recordings go, and whether they hold the pixels of the output too."""

    directory: Path
    with_video: bool = False


class Recorder:
    """Write a recording of each session into a directory.

    `start_log` belongs to the model's thread. The queue holds at most 64 MiB. If it is full, or the disk is, this and
    all later recordings stop with one warning; with video, frames are left out before that.
    """

    def __init__(
        self,
        options: RecordOptions,
        config: str,
        project: Path,
        *,
        most_queued_bytes: int = MOST_QUEUED_BYTES,
    ) -> None:
        self._options = options
        self._config = config
        self._project = project
        self._queue = _Writing(most_queued_bytes)

    def start_log(self, start: StartSession, contract: Contract) -> _SessionRecorder | None:
        """Start the recording of a session; return None after a failure."""
        if self._queue.stopped:
            return None
        header = Header(
            model=f"{contract.model.__module__}:{contract.model.__qualname__}",
            config=self._config,
            contract=contract.to_json(),
            seed=secrets.randbelow(MOST_SEEDS),
            client=start.client,
            joined_at=start.joined_at_unix,
            started_at=time.time(),
            versions=_versions(),
        )
        self._queue.put(_Start(self._options.directory, self._project, header), 0)
        return _SessionRecorder(header.seed, self._queue, with_video=self._options.with_video)

    def close(self) -> None:
        """Wait, at most 5 s, until all is written."""
        self._queue.close()


class _SessionRecorder:
    """Put what happens in one session into the queue, as `SessionLog` describes it."""

    def __init__(self, seed: int, writing: _Writing, *, with_video: bool) -> None:
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
    directory: Path
    project: Path
    header: Header


_Job = _Start | Entry | UploadedFile


class _Writing:
    """Write entries on a thread, which starts with the first; any thread may call `put`."""

    def __init__(self, most_bytes: int) -> None:
        self.stopped = False
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
        if self.stopped:
            return
        with self._lock:
            # One entry alone may be larger, as an uploaded file.
            full = self._queued_bytes > 0 and self._queued_bytes + size_bytes > self._most_bytes
            self._queued_bytes += size_bytes
        if full:
            self._stop("the disk is too slow")
            return
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
            stopped, self.stopped = self.stopped, True
        if not stopped:
            logger.warning("recording has stopped, the stream continues; restart to record again: %s", reason)

    def _run(self) -> None:
        session: _SessionFile | None = None
        while (queued := self._jobs.get()) is not None:
            job, size_bytes, time_ns = queued
            with self._lock:
                self._queued_bytes -= size_bytes
            if self.stopped:
                continue
            try:
                if isinstance(job, _Start):
                    session = _SessionFile(job)
                # A thread of the author may still read an input when its session has ended.
                elif session is not None and not session.closed:
                    session.write(job, time_ns, flush=self._jobs.empty())
            except OSError as error:
                self._stop(str(error))
        if session is not None:
            session.close()


class _SessionFile:
    """Write the file of one session; it is closed with its EndEntry."""

    def __init__(self, start: _Start) -> None:
        start.directory.mkdir(parents=True, exist_ok=True)
        self._file, self._path = _open_new(start.directory, start.header.started_at)
        # Reading the project's files takes too long for the model's thread.
        header = replace(start.header, files=_hashes(start.project))
        self._writer = RecordingWriter(self._file, header)
        self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, job: Entry | UploadedFile, time_ns: int, *, flush: bool) -> None:
        if isinstance(job, UploadedFile):
            job = UploadEntry(job.id, job.name, job.content_type, job.read())
        self._writer.write(job, time_ns)
        if isinstance(job, EndEntry):
            self._writer.finish()
            self._file.close()
            logger.info("recorded the session file=%s", self._path)
        elif flush:
            self._file.flush()

    def close(self) -> None:
        """Close the file of a session that has not ended; what can't be written is lost."""
        with contextlib.suppress(OSError):
            self._file.close()


def _open_new(directory: Path, started_at: float) -> tuple[BinaryIO, Path]:
    """Create a file named after the time; a number follows where another session started in the same second."""
    name = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(started_at))
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
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file)
    inside = root in path.parents and not {"site-packages", "dist-packages"} & set(path.parts)
    return path if inside and path.is_file() else None
