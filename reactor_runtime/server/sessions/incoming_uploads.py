"""The files that clients of a session upload: whose file a key is for, and when the engine has taken one.

`routes/uploads.py` receives the files.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable

from reactor_runtime.ipc import messages as ipc


class IncomingUploads:
    """Make the keys with which clients upload files, and send the files to the engine.

    Clients are known by the id that the model knows them by. Each has a key of its own, which begins with the `key` of
    the session: a front finds the worker of a session by that.
    """

    def __init__(self, send: Callable[[ipc.ToEngine], None]) -> None:
        self.key = secrets.token_urlsafe(16)
        self._secret = secrets.token_bytes(16)
        self._send = send
        # Set when the engine has taken the file with this id.
        self._untaken: dict[str, asyncio.Event] = {}

    def key_of(self, client: str) -> str:
        """Return the key of a client; a client that resumes keeps it where it keeps its id."""
        digest = hashlib.blake2b(client.encode(), key=self._secret, digest_size=12)
        return f"{self.key}.{digest.hexdigest()}"

    def client_of(self, key: str, clients: Iterable[str]) -> str | None:
        """Return which of the clients has this key, None if none has it."""
        given = key.encode(errors="replace")
        return next((each for each in clients if secrets.compare_digest(self.key_of(each).encode(), given)), None)

    def send_file(self, upload: ipc.UploadedBytes) -> asyncio.Event:
        """Send a file; return an event that is set when the engine has taken it."""
        taken = self._untaken[upload.id] = asyncio.Event()
        self._send(upload)
        return taken

    def on_taken(self, upload: str) -> None:
        self._untaken.pop(upload).set()
