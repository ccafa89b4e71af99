"""The file of one recorded session, which a thread of the recorder writes."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import IO, BinaryIO

from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.errors import UsageError
from reactor_runtime.recording.entries import (
    EndEntry,
    Entry,
    Header,
    KeptEntry,
    OutputEntry,
    ReloadEntry,
    UploadEntry,
)
from reactor_runtime.recording.file import RecordingWriter, hash_content, hash_file

logger = logging.getLogger(__name__)

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
# Settings files, hashed with the imported modules.
SETTINGS = ("reactor.yaml", "config.yml", "config.yaml")


@dataclass(frozen=True, slots=True)
class ReloadedFiles:
    """Hold a reload, and the content of the project's settings and of its modules as they were executed."""

    entry: ReloadEntry
    sources: dict[str, bytes]


Written = Entry | ReloadedFiles | UploadedFile


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


class SessionFile:
    """Write the file of one session.

    A file in the directory is closed with the EndEntry. A temporary one waits for `keep`, unless it is too large.
    """

    def __init__(
        self,
        header: Header,
        directory: Path,
        project: Path,
        sources: dict[str, bytes],
        *,
        temporary: bool,
        most_temporary_bytes: int,
    ) -> None:
        self._directory = directory
        self._project = project
        self._most_temporary_bytes = most_temporary_bytes
        # None for a temporary file.
        self._path: Path | None = None
        self._file: IO[bytes]
        if temporary:
            self._file = tempfile.TemporaryFile(prefix="reactor-")  # noqa: SIM115  (`close` closes it)
        else:
            self._file, self._path = _open_new(directory, header.started_at)
        # Reading the project's modules takes too long for the model's thread.
        self._files = self._files_before = {**_hashes(project), **_hashes_of_sources(project.resolve(), sources)}
        self._writer = RecordingWriter(self._file, replace(header, files=self._files))
        self._file.flush()
        self._end: tuple[int, EndEntry] | None = None
        self._last_minute = LastMinute()

    @property
    def is_open(self) -> bool:
        """Return whether entries are recorded: the session has not ended, and is not too large."""
        return self._end is None and not self._file.closed

    @property
    def descriptors(self) -> frozenset[int]:
        """Return the descriptor of the file, unless it is closed."""
        return frozenset() if self._file.closed else frozenset({self._file.fileno()})

    def write(self, job: Written, time_ns: int, *, flush: bool) -> None:
        match job:
            case UploadedFile():
                job = UploadEntry(job.id, job.name, job.content_type, job.read())
            case OutputEntry():
                self._last_minute.add_step(job.step, time_ns)
            case ReloadedFiles():
                job = self._with_files(job)
            case EndEntry():
                self._end = time_ns, job
        self._writer.write(job, time_ns)
        if self._path is None:
            if self._file.tell() > self._most_temporary_bytes:
                self._file.close()
        elif self._end is not None:
            self._writer.finish()
            self._file.close()
            logger.info("recorded the session file=%s", self._path)
        elif flush:
            self._file.flush()

    def _with_files(self, reload: ReloadedFiles) -> ReloadEntry:
        if reload.entry.kind == "reverted":
            self._files = self._files_before
        elif reload.entry.kind != "failed":
            self._files_before = self._files
            self._files = {**self._files, **_hashes_of_sources(self._project.resolve(), reload.sources)}
        return replace(reload.entry, files=self._files)

    def keep(self, time_ns: int) -> Path:
        """Return the path of a file with the session up to now; raise UsageError if it is too large."""
        if not self._file.closed:
            self._writer.write(self._last_minute.entry(), time_ns)
            self._file.flush()
        if self._path is not None:
            return self._path
        if self._file.closed:
            raise UsageError(
                f"the session has more than {self._most_temporary_bytes >> 20} MiB of inputs, the most that is held",
                hint="start with --record DIR, which has no limit, or begin a new session",
            )
        return self._copy(time_ns)

    def _copy(self, time_ns: int) -> Path:
        copy, path = _open_new(self._directory, time_ns / SECOND_NS)
        try:
            with copy:
                self._file.seek(0)
                # After this the position is at the end, where entries are appended.
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
        hint = "begin a new session: reload the page"
        if end.error:
            return f"the recording ended with an error: {end.error}", hint
        age_s = (now_ns - ended_ns) / SECOND_NS
        return f"the recording ended {age_s:.0f} s ago, where a reload changed the contract", hint

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


def read_settings(project: Path) -> dict[str, bytes]:
    """Return the content of the project's settings, by absolute path; log those that can't be read."""
    settings = {}
    for path in (project.resolve() / name for name in SETTINGS):
        try:
            # Opening a named pipe would wait.
            if path.is_file():
                settings[str(path)] = path.read_bytes()
        except OSError as error:
            logger.warning("the recording lacks the hash of %s: %s", path.name, error.strerror)
    return settings


def _hashes(project: Path) -> dict[str, str]:
    """Return the hashes of the modules that were imported from the project, by name."""
    root = project.resolve()
    files = {file for module in list(sys.modules.values()) if (file := _file_in(root, module)) is not None}
    hashes = {path.relative_to(root).as_posix(): hash_file(path) for path in sorted(files)}
    if unreadable := [name for name, hash in hashes.items() if hash is None]:
        logger.warning("the recording lacks the hashes of files that can't be read: %s", ", ".join(unreadable))
    return {name: hash for name, hash in hashes.items() if hash is not None}


def _hashes_of_sources(root: Path, sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return the hashes of files as they were used: they may have been saved again since."""
    used = ((Path(file), content) for file, content in sources.items())
    return {path.relative_to(root).as_posix(): hash_content(content) for path, content in used if root in path.parents}


def _file_in(root: Path, module: ModuleType) -> Path | None:
    # A lazy module is not to be imported by this.
    file = inspect.getattr_static(module, "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file)
    inside = root in path.parents and not {"site-packages", "dist-packages"} & set(path.parts)
    return path if inside and path.is_file() else None
