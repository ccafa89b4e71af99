"""The files that clients of the running session uploaded, by the ids that events use."""

from __future__ import annotations

import logging
import mimetypes
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.ipc.messages import UploadedBytes

logger = logging.getLogger(__name__)

MOST_FILES = 64
MOST_BYTES = 1 << 30


class SessionUploads(Mapping[str, UploadedFile]):
    """Map ids to the newest files of a session, at most 64 and 1 GiB; a dropped file stays readable for the model.

    The thread that reads the server's messages adds files and checks events against them; the model's thread begins and
    ends sessions. Files of another session are dropped. `on_file` is called with each file and the id of its client.
    """

    def __init__(self, on_file: Callable[[UploadedFile, str], None] = lambda *_: None) -> None:
        self._on_file = on_file
        self._session: str | None = None
        self._files: dict[str, UploadedFile] = {}
        # The ids that events have referred to.
        self._used: set[str] = set()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def begin_session(self, session: str) -> None:
        """Accept files of this session from now on."""
        with self._lock:
            self._session = session

    def receive_file(self, upload: UploadedBytes) -> None:
        """Add a file that the server received; one on disk is opened, and its path removed.

        A file without a name is called `upload`, with the suffix of its type.
        """
        content = Path(upload.path) if upload.path else upload.file
        name = upload.name or f"upload{mimetypes.guess_extension(upload.content_type) or '.bin'}"
        try:
            file = UploadedFile.received(upload.id, content, name=name, content_type=upload.content_type)
        except OSError as error:
            logger.error("the file of an upload can't be opened: %s", error)
            return
        with self._lock:
            if upload.session == self._session:
                self._add(file, upload.client)

    def add(self, file: UploadedFile, client: str = "") -> None:
        """Add a file under its id, in place of one with the same id."""
        with self._lock:
            self._add(file, client)

    def clear(self) -> None:
        """Drop all files; the session is over."""
        with self._lock:
            self._session = None
            self._files.clear()
            self._used.clear()
            self._size_bytes = 0

    def _add(self, file: UploadedFile, client: str) -> None:
        self._drop(file.id)
        self._files[file.id] = file
        self._size_bytes += file.size_bytes
        while len(self._files) > MOST_FILES or (self._size_bytes > MOST_BYTES and len(self._files) > 1):
            self._drop(next(iter(self._files)))
        # Last: another thread looks for the file at once.
        self._on_file(file, client)

    def _drop(self, id: str) -> None:
        file = self._files.pop(id, None)
        self._size_bytes -= 0 if file is None else file.size_bytes

    @property
    def files(self) -> tuple[UploadedFile, ...]:
        """Return the files; that counts as no reference to them."""
        with self._lock:
            return tuple(self._files.values())

    def is_used(self, id: str) -> bool:
        """Return whether an event has referred to a file, or the file is dropped."""
        return id in self._used or id not in self._files

    def __getitem__(self, id: str) -> UploadedFile:
        file = self._files[id]
        self._used.add(id)
        return file

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._files))

    def __len__(self) -> int:
        return len(self._files)
