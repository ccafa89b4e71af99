"""`POST /uploads`: receives a file of the controller and sends it to the engine; events of its session refer to it."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import shutil
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.routes.folder import TemporaryFolder
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.workers.engine import Engine
from reactor_runtime.wire.protocol import LONGEST_NAME, MAX_UPLOAD_BYTES

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 4
MOST_IN_MEMORY_BYTES = 1 << 20
STALLED_S = 20.0
LONGEST_TYPE = 100
HEADERS = {"Cache-Control": "no-store"}
USUAL_TYPE = "application/octet-stream"
FORMS = ("multipart/form-data",)


class Spool:
    """Keep the bytes of an upload: in memory up to 1 MiB, then in the file `path` below `folder`.

    Threads write to the disk, 1 MiB at a time. Always call `discard` at the end.
    """

    def __init__(self, folder: TemporaryFolder, path: Path) -> None:
        self.size_bytes = 0
        self._folder = folder
        self._path = path
        self._file: BinaryIO | None = None
        self._buffer = bytearray()

    async def add(self, data: bytes) -> None:
        """Add bytes. Raises OSError when the disk is full or fails."""
        self._buffer += data
        self.size_bytes += len(data)
        if len(self._buffer) > MOST_IN_MEMORY_BYTES:
            await asyncio.to_thread(self._write)

    async def finish(self) -> Path | bytes:
        """Return all bytes, or the path of the file with them."""
        if self._file is None:
            return bytes(self._buffer)
        await asyncio.to_thread(self._write)
        await asyncio.to_thread(self._file.close)
        return self._path

    async def discard(self, *, taken: bool) -> None:
        """Close the file, and remove it unless it was `taken`."""
        if self._file is not None:
            await asyncio.to_thread(self._file.close)
            if not taken:
                await asyncio.to_thread(self._path.unlink, missing_ok=True)

    def _write(self) -> None:
        if self._file is None:
            self._folder.make()
            self._path.parent.mkdir(0o700, exist_ok=True)
            self._file = self._path.open("xb")
        self._file.write(self._buffer)
        self._buffer.clear()


class UploadRefused(Exception):
    """Report that an upload is refused, with the status and the text of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UploadRoute:
    """Receive files for the running sessions; use on the server's loop.

    A large file is kept in a directory of the session until the engine has opened it, and unlinked then; the rest is
    removed when the session is over. A request is answered when the engine has received its file, so that at most
    `MOST_AT_ONCE` files of a session are in flight, also to an engine that reads nothing.
    """

    def __init__(self, admission: Admission[EngineSlot]) -> None:
        self._admission = admission
        # By session, so that none waits for the files of another.
        self._receiving: Counter[str] = Counter()
        self._cleaning: dict[str, asyncio.Task[None]] = {}
        self._folder = TemporaryFolder()

    def route(self) -> Route:
        return Route("/uploads", self._post, methods=["POST"])

    def clean(self) -> None:
        """Remove the files of servers that were killed. Blocks."""
        self._folder.remove_abandoned()

    async def aclose(self) -> None:
        """Remove all files."""
        for task in self._cleaning.values():
            task.cancel()
        await asyncio.gather(*self._cleaning.values(), return_exceptions=True)
        await asyncio.to_thread(self._folder.remove)

    async def _post(self, request: Request) -> Response:
        try:
            session, engine, client = self._served(request.query_params.get("key", ""))
            name, content_type = _name(request), _content_type(request)
            if self._receiving[session.id] >= MOST_AT_ONCE or engine.busy:
                raise UploadRefused(429, f"{MOST_AT_ONCE} files are on their way already; send one after the other")
            self._receiving[session.id] += 1
            try:
                id = await self._receive(request, session, client, (name, content_type))
            finally:
                # This operator removes counts of 0.
                self._receiving -= Counter({session.id: 1})
        except UploadRefused as refused:
            return PlainTextResponse(f"{refused}\n", status_code=refused.status, headers=HEADERS)
        return JSONResponse({"upload": id}, status_code=201, headers=HEADERS)

    def _served(self, key: str) -> tuple[ServedSession, Engine, str]:
        """Return the session that a key is for, its engine, and the client whose key it is."""
        for slot in self._admission.slots:
            client = None if slot.session is None else slot.session.uploader(key, shared=slot.shared)
            if slot.session is not None and client is not None:
                _check_open(slot.session)
                return slot.session, slot.engine, client
        raise UploadRefused(
            403, "the session with this key is over, or there was none: reactor.welcome has the upload_key"
        )

    async def _receive(
        self, request: Request, session: ServedSession, client: str, name_and_type: tuple[str, str]
    ) -> str:
        """Receive a file, send it to the engine, and return its id."""
        _check_size(int(request.headers.get("content-length", "0")))
        id = f"u-{secrets.token_hex(8)}"
        spool = Spool(self._folder, self._directory_of(session) / id)
        taken = False
        try:
            await self._spool(request, session, spool)
            content = await spool.finish()
            _check_open(session)
            path, file = (str(content), b"") if isinstance(content, Path) else ("", content)
            received = session.uploads.send_file(ipc.UploadedBytes(session.id, id, *name_and_type, path, client, file))
            taken = True
        except ClientDisconnect:
            raise UploadRefused(400, "the connection ended before the file was complete") from None
        except TimeoutError:
            raise UploadRefused(408, f"nothing came for {STALLED_S:.0f} s") from None
        except OSError as error:
            logger.error("an upload can't be written: %s", error)
            raise UploadRefused(507, "there is no room for the file") from error
        finally:
            await spool.discard(taken=taken)
        await _until_either(received, session.over)
        if not received.is_set():
            raise UploadRefused(410, "the session is over")
        return id

    def _directory_of(self, session: ServedSession) -> Path:
        """Return the directory for a session's files, which is removed when the session is over."""
        directory = self._folder.path / session.id
        if session.id not in self._cleaning:
            task = self._cleaning[session.id] = asyncio.create_task(_remove_after(session.over, directory))
            task.add_done_callback(lambda _: self._cleaning.pop(session.id, None))
        return directory

    async def _spool(self, request: Request, session: ServedSession, spool: Spool) -> None:
        pieces = request.stream()
        while True:
            async with asyncio.timeout(STALLED_S):
                piece = await anext(pieces, None)
            if piece is None:
                return
            _check_open(session)
            _check_size(spool.size_bytes + len(piece))
            await spool.add(piece)


async def _until_either(first: asyncio.Event, second: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _remove_after(over: asyncio.Event, directory: Path) -> None:
    await over.wait()
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _check_open(session: ServedSession) -> None:
    if session.over.is_set() or session.phase is SessionPhase.STOPPING:
        raise UploadRefused(410, "the session is over")


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_UPLOAD_BYTES:
        raise UploadRefused(413, f"a file may have {MAX_UPLOAD_BYTES >> 20} MiB")


def _name(request: Request) -> str:
    """Return the file's name without directories, since the author may save the file under it."""
    name = re.split(r"[/\\]", request.query_params.get("name", ""))[-1]
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UploadRefused(400, f"a name has to be printable, and no longer than {LONGEST_NAME} characters")
    return "" if name in (".", "..") else name


def _content_type(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FORMS:
        raise UploadRefused(415, "send the file itself as the body, not a form: curl --data-binary @FILE")
    # The default of curl.
    if kind == "application/x-www-form-urlencoded":
        return USUAL_TYPE
    return kind[:LONGEST_TYPE] or USUAL_TYPE
