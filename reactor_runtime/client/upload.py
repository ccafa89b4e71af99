"""Send a file over HTTP, for an event to name."""

from __future__ import annotations

import contextlib
import http.client
import json
import mimetypes
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlencode

from reactor_runtime.client.address import Address
from reactor_runtime.client.errors import UploadError

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class File:
    """Something to upload: its bytes, or where it lies."""

    content: bytes | Path
    name: str
    content_type: str

    @classmethod
    def of(cls, content: bytes | str | os.PathLike[str], name: str | None, content_type: str | None) -> Self:
        """Take a path's name, and guess the type by it, unless they are given."""
        if not isinstance(content, bytes):
            content = Path(content)
            name = content.name if name is None else name
        guessed = mimetypes.guess_type(name or "")[0]
        return cls(content, name or "", content_type or guessed or "application/octet-stream")

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[bytes | BinaryIO, int]]:
        """Give what is to be sent and its size."""
        if isinstance(self.content, bytes):
            yield self.content, len(self.content)
            return
        with self.content.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size


def upload(address: Address, key: str, file: File, *, tls: ssl.SSLContext | None = None) -> dict[str, str]:
    """Send a file and return what an event's parameter wants, `{"upload": id}`; blocks until the server has it.

    Raises `UploadError` when the server doesn't take it, `OSError` for a file that can't be read.
    """
    query = urlencode({"key": key, "name": file.name})
    with file.opened() as (body, size), contextlib.closing(_connection(address, tls)) as connection:
        headers = {**address.headers, "Content-Type": file.content_type, "Content-Length": str(size)}
        try:
            # Who refuses a file may answer and close before all of it is there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", f"{address.root}/uploads?{query}", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise UploadError(f"{file.name or 'the file'} was not sent: {error or type(error).__name__}") from error
    if answer.status != http.client.CREATED:
        raise UploadError(f"{file.name or 'the file'} was not taken: {text.strip()}", status=answer.status)
    return {"upload": str(json.loads(text)["upload"])}


def _connection(address: Address, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if address.secure:
        return http.client.HTTPSConnection(address.place, timeout=TIMEOUT_S, context=tls)
    return http.client.HTTPConnection(address.place, timeout=TIMEOUT_S)
