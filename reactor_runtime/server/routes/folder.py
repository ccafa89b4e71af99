"""A temporary folder of one server's, that is removed with it, or by a later one where it was killed."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

_NAME = re.compile(r"reactor-uploads-[0-9a-f]{16}")


class TemporaryFolder:
    """Be a folder that nobody else may look into, made when it is first needed; any thread.

    It is locked for as long as its server lives, which the kernel sees to. `remove_abandoned` removes those of this
    user's that nobody locks any more; it has its name only once it is locked.
    """

    def __init__(self) -> None:
        self._parent = Path(tempfile.gettempdir())
        self.path = self._parent / f"reactor-uploads-{secrets.token_hex(8)}"
        self._making = threading.Lock()
        self._fd: int | None = None

    def make(self) -> None:
        """See to it that the folder is there; raises OSError."""
        with self._making:
            if self._fd is None:
                unnamed = self.path.with_name(f".{self.path.name}")
                unnamed.mkdir(0o700, exist_ok=True)
                fd = os.open(unnamed, os.O_RDONLY)
                try:
                    _lock(fd)
                    unnamed.rename(self.path)
                except OSError:
                    os.close(fd)
                    raise
                self._fd = fd

    def remove(self) -> None:
        """Remove it, and all that is in it."""
        with self._making:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def remove_abandoned(self) -> None:
        """Remove the folders of servers that were killed."""
        for path in self._parent.glob("reactor-uploads-*"):
            with contextlib.suppress(OSError):  # it is another user's, or another server is faster
                if _NAME.fullmatch(path.name) and _is_abandoned(path):
                    shutil.rmtree(path)
                    logger.info("removed what a server that was killed has left folder=%s", path)


def _is_abandoned(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return os.fstat(fd).st_uid == os.getuid() and _lock(fd)
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
