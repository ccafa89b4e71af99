"""The upload of a file over HTTP; an event then refers to the file by its id."""

from __future__ import annotations

import contextlib
import http.client
import json
import mimetypes
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlencode

from reactor_runtime.client.address import Address
from reactor_runtime.client.dial import http_connection
from reactor_runtime.client.errors import UploadError

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class File:
    """A file to upload, as bytes or as a path."""

    content: bytes | Path
    name: str
    content_type: str

    @classmethod
    def from_content(cls, content: bytes | str | os.PathLike[str], name: str | None, content_type: str | None) -> Self:
        """Derive the name from a path and the content type from the name, unless they are given."""
        if not isinstance(content, bytes):
            content = Path(content)
            name = content.name if name is None else name
        guessed = mimetypes.guess_type(name or "")[0]
        return cls(content, name or "", content_type or guessed or "application/octet-stream")

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[bytes | BinaryIO, int]]:
        """Yield the body of the request and its size."""
        if isinstance(self.content, bytes):
            yield self.content, len(self.content)
            return
        with self.content.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size


class Upload:
    """Upload one file: `send` blocks its thread; `cancel`, on any thread, makes `send` return."""

    def __init__(self, address: Address, key: str, file: File, *, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._key = key
        self._file = file
        self._connection = http_connection(address, timeout_s=TIMEOUT_S, tls=tls)
        self._cancelled = False

    def send(self) -> dict[str, str]:
        """Send the file and return the value for an event's parameter, `{"upload": id}`, once the server has it.

        Raises `UploadError` when the server refuses it, `OSError` for a file that can't be read.
        """
        name = self._file.name or "the file"
        with self._file.opened() as (body, size), contextlib.closing(self._connection):
            try:
                status, text = self._request(body, size)
            except (OSError, http.client.HTTPException) as error:
                raise UploadError(f"{name} was not sent: {error or type(error).__name__}") from error
        if status != http.client.CREATED:
            raise UploadError(f"{name} was refused: {text.strip()}", status=status)
        return {"upload": str(json.loads(text)["upload"])}

    def cancel(self) -> None:
        """Stop sending, and do not wait for the answer."""
        self._cancelled = True
        # The connection may be closed already.
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _request(self, body: bytes | BinaryIO, size: int) -> tuple[int, str]:
        query = urlencode({"key": self._key, "name": self._file.name})
        headers = {**self._address.headers, "Content-Type": self._file.content_type, "Content-Length": str(size)}
        self._connection.connect()
        if self._cancelled:
            raise OSError("it was cancelled")
        # A server that refuses a file may answer and close before it has received all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.request("POST", f"{self._address.root}/uploads?{query}", body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
