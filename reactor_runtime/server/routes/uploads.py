"""`POST /uploads`: a file of the controller's, on its way to the engine, for events of its session to name."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import shutil
from collections import Counter
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.routes.folder import TemporaryFolder
from reactor_runtime.server.routes.spool import Spool
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.workers.engine import Engine
from reactor_runtime.wire.protocol import LONGEST_NAME, MAX_UPLOAD_BYTES

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 4
STALLED_S = 20.0
LONGEST_TYPE = 100
HEADERS = {"Cache-Control": "no-store"}
USUAL_TYPE = "application/octet-stream"
FORMS = ("multipart/form-data",)


class UploadRefused(Exception):
    """The file isn't taken; `status` is HTTP's, the message is for people."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UploadRoute:
    """Take files for the running sessions; belongs to the server's loop.

    Large ones lie in a directory of the session until the engine has opened them, which takes their names away; what it
    didn't get to goes when the session is over. A request is answered when the engine has taken its file, so that no
    more than `MOST_AT_ONCE` files of a session are on their way, also to an engine that reads nothing.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._coming: Counter[str] = Counter()  # by session, so that none waits for the files of another
        self._cleaning: dict[str, asyncio.Task[None]] = {}
        self._folder = TemporaryFolder()

    def route(self) -> Route:
        return Route("/uploads", self._post, methods=["POST"])

    def clean(self) -> None:
        """Remove what servers have left that were killed; blocks."""
        self._folder.remove_abandoned()

    async def aclose(self) -> None:
        """Leave nothing behind."""
        for task in self._cleaning.values():
            task.cancel()
        await asyncio.gather(*self._cleaning.values(), return_exceptions=True)
        await asyncio.to_thread(self._folder.remove)

    async def _post(self, request: Request) -> Response:
        try:
            session, engine = self._served(request.query_params.get("key", ""))
            name, content_type = _name(request), _content_type(request)
            if self._coming[session.id] >= MOST_AT_ONCE or engine.busy:
                raise UploadRefused(429, f"{MOST_AT_ONCE} files are on their way already; send one after the other")
            self._coming[session.id] += 1
            try:
                id = await self._take(request, session, name, content_type)
            finally:
                self._coming -= Counter({session.id: 1})  # which drops what comes to nothing
        except UploadRefused as refused:
            return PlainTextResponse(f"{refused}\n", status_code=refused.status, headers=HEADERS)
        return JSONResponse({"upload": id}, status_code=201, headers=HEADERS)

    def _served(self, key: str) -> tuple[ServedSession, Engine]:
        """Find the session that a key is for, and the engine that serves it."""
        for slot in self._admission.slots:
            if slot.session is not None and secrets.compare_digest(slot.session.upload_key.encode(), key.encode()):
                _check_open(slot.session)
                return slot.session, slot.engine
        raise UploadRefused(
            403, "the session with this key is over, or there was none: reactor.welcome has the upload_key"
        )

    async def _take(self, request: Request, session: ServedSession, name: str, content_type: str) -> str:
        """Receive a file whole and hand it on; returns its id."""
        _check_size(int(request.headers.get("content-length", "0")))
        id = f"u-{secrets.token_hex(8)}"
        spool = Spool(self._folder, self._directory_of(session) / id)
        taken = False
        try:
            await self._receive(request, session, spool)
            content = await spool.finish()
            _check_open(session)
            path, file = (str(content), b"") if isinstance(content, Path) else ("", content)
            received = session.send_upload(ipc.UploadedBytes(session.id, id, name, content_type, path, file))
            taken = True
        except ClientDisconnect:
            raise UploadRefused(400, "the connection ended before the file did") from None
        except TimeoutError:
            raise UploadRefused(408, f"nothing came for {STALLED_S:.0f} s") from None
        except OSError as error:
            logger.error("a client's file can't be kept: %s", error)
            raise UploadRefused(507, "there is no room for the file") from error
        finally:
            await spool.discard(taken=taken)
        await _until_either(received, session.over)
        if not received.is_set():
            raise UploadRefused(410, "the session is over")
        return id

    def _directory_of(self, session: ServedSession) -> Path:
        """Name the directory of a session's files, and see to it that it goes with the session."""
        directory = self._folder.path / session.id
        if session.id not in self._cleaning:
            task = self._cleaning[session.id] = asyncio.create_task(_remove_after(session.over, directory))
            task.add_done_callback(lambda _: self._cleaning.pop(session.id, None))
        return directory

    async def _receive(self, request: Request, session: ServedSession, spool: Spool) -> None:
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
    """Give the file's name without any directories: the author may well save it under that."""
    name = re.split(r"[/\\]", request.query_params.get("name", ""))[-1]
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UploadRefused(400, f"the name has to be printable, and no longer than {LONGEST_NAME} characters")
    return "" if name in (".", "..") else name


def _content_type(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FORMS:
        raise UploadRefused(415, "send the file itself as the body, not a form: curl --data-binary @FILE")
    if kind == "application/x-www-form-urlencoded":  # what curl says when nobody said anything
        return USUAL_TYPE
    return kind[:LONGEST_TYPE] or USUAL_TYPE
