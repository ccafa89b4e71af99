"""A temporary folder, which is removed when its server ends, or by a later server where that one was killed."""

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
    """Make a folder that only this user may read, when it is first needed; any thread.

    The folder is locked as long as its server runs. `remove_abandoned` removes the folders of this user that are not
    locked; a folder gets its name when it is locked.
    """

    def __init__(self) -> None:
        self._parent = Path(tempfile.gettempdir())
        self.path = self._parent / f"reactor-uploads-{secrets.token_hex(8)}"
        self._making = threading.Lock()
        self._fd: int | None = None

    def make(self) -> None:
        """Make the folder unless it exists. Raises OSError."""
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
        """Remove the folder with its content."""
        with self._making:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def remove_abandoned(self) -> None:
        """Remove the folders of servers that were killed."""
        for path in self._parent.glob("reactor-uploads-*"):
            # The folder of another user, or another server removes it at the same time.
            with contextlib.suppress(OSError):
                if _NAME.fullmatch(path.name) and _is_abandoned(path):
                    shutil.rmtree(path)
                    logger.info("removed the uploads of a server that was killed folder=%s", path)


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
