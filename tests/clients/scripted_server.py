"""A server that carries out one row of `conformance.json` per address: it welcomes, closes, and welcomes again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import simplejpeg
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader

Row = dict[str, Any]
ROWS: list[Row] = json.loads(Path(__file__).with_name("conformance.json").read_text())
JPEG = simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8))
TRACK = {"name": "main_video", "kind": "video", "direction": "out"}
ABORTED, WITHOUT_A_CODE = 1006, 1005
UNREACHABLE = "unreachable"
TICKET = "t-1"
RETURNING = "t-1.secret"
# The phase in which a worker meets a client that was redirected to it.
AT_WORKER = {"redirected": "connected", "redirected, kept": "kept", "redirecting": "opening"}
ELSEWHERE = {UNREACHABLE: "http://127.0.0.1:9", "ftp": "ftp://127.0.0.1"}


def status_of(row: Row) -> HTTPStatus:
    """Return the HTTP status a row is about; what asks for a row of another kind is no WebSocket."""
    kind, _, number = str(row["close"]).partition(" ")
    return HTTPStatus(int(number)) if kind == "HTTP" else HTTPStatus.UPGRADE_REQUIRED


def name_of(row: Row) -> str:
    """Name a row, for the ids of tests."""
    said = f" after {row['said']}" if "said" in row else ""
    return f"{row['role']} {row['phase']}: {row['close']}{said}"


@dataclass
class Script:
    """Serve one row: `visits` counts the connections so far, refused ones included."""

    row: Row
    visits: int = 0

    def refuse(self) -> HTTPStatus | None:
        """Count a request, and return the status to refuse it with; None for a WebSocket."""
        self.visits += 1
        first = {"connecting": 1, "reconnecting": 2}.get(self.row["phase"])
        if first is None or not str(self.row["close"]).startswith("HTTP"):
            return None
        is_final = self.row["client"] == "final"
        is_due = self.visits == first or (self.visits > first and is_final)
        return status_of(self.row) if is_due else None

    async def serve(self, connection: ServerConnection) -> None:
        phase, role = self.row["phase"], self.row["role"]
        if phase == "reconnecting" and self.row["close"] == UNREACHABLE and self.visits == 2:
            connection.transport.abort()
            return
        if self.visits > 1:
            await self._welcome_again(connection)
            return
        if phase == "waiting" and role == "controller":
            await say(connection, "reactor.queue", position=1, length=1)
        elif phase == "waiting":
            await self._welcome(connection, None)
        elif phase != "opening":
            await self._welcome(connection, "s-1")
        await self._wait_for_client(connection)
        await self._say_the_end(connection)
        if phase == "left":
            await say(connection, "reactor.session", phase="started", session="s-2")
            await connection.send(frame(0))
            await connection.wait_closed()
        else:
            await self._close(connection)

    async def _welcome_again(self, connection: ServerConnection) -> None:
        resume = query_of(connection).get("resume")
        assert (resume == "secret") == (self.row["phase"] in ("kept", "not kept")) or self.row["error"]
        is_kept = self.row["phase"] == "kept" and resume is not None
        await self._welcome(connection, "s-1" if is_kept else "s-2")
        await connection.wait_closed()

    async def _welcome(self, connection: ServerConnection, session: str | None) -> None:
        keeps = self.row["phase"] in ("kept", "not kept")
        await say(
            connection,
            "reactor.welcome",
            protocol="reactor.v1",
            session=session,
            role=self.row["role"],
            model="scripted",
            tracks=[TRACK],
            schema={"events": {"work": {}}, "messages": {}},
            state={},
            resume="secret" if keeps else None,
            upload_key=None,
            shared=False,
            limits={"resume_grace_s": 60 if keeps else None},
        )
        if session is not None:
            await say(connection, "reactor.session", phase="started", session=session)
            await connection.send(frame(0 if self.visits == 1 else 1))

    async def _wait_for_client(self, connection: ServerConnection) -> None:
        """Wait until the client has done what a test does before the close."""
        expected = {"reactor.ping"}
        if self.row["phase"] not in ("opening", "waiting"):
            expected |= {"reactor.ack", "work"} if self.row["role"] == "controller" else {"reactor.ack"}
        while expected:
            expected.discard(json.loads(await connection.recv())["type"])

    async def _say_the_end(self, connection: ServerConnection) -> None:
        said = self.row.get("said")
        if said == "failed":
            await say(connection, "reactor.session", phase="failed", message="load() failed")
        elif said is not None:
            await say(connection, "reactor.session", phase="ended", reason=said, message="said before")

    async def _close(self, connection: ServerConnection) -> None:
        code = self.row["close"]
        if code == WITHOUT_A_CODE:
            connection.protocol.send_close()
            connection.transport.write(b"".join(connection.protocol.data_to_send()))
            await connection.wait_closed()
        elif code == ABORTED or not isinstance(code, int):
            connection.transport.abort()
        else:
            await connection.close(code, "scripted")


@dataclass
class Front:
    """Redirect the first connection to the worker of a row, at the path below, and serve the next one."""

    row: Row
    path: str
    visits: int = 0

    def refuse(self) -> None:
        """Count a request; none is refused."""
        self.visits += 1

    async def serve(self, connection: ServerConnection) -> None:
        close, query = self.row["close"], query_of(connection)
        if self.visits == 1:
            assert query == {"role": self.row["role"], "redirect": "1"}
            assert connection.request is not None, "it was accepted"
            worker = f"http://{connection.request.headers['Host']}{self.path}/worker"
            where = {"url": ELSEWHERE.get(close, worker), "ticket": TICKET, "returning": RETURNING}
            await say(connection, "reactor.redirect", **where)
            await connection.close(1000, "continue at the worker")
            return
        expected = {"role": self.row["role"], "redirect": "1"}
        if self.row["phase"] == "redirecting":
            del expected["redirect"]
        assert query == expected
        assert secrets_of(connection) == ([] if close == 1001 else [RETURNING])
        await Script(self.row)._welcome(connection, "s-2")
        await connection.wait_closed()


@dataclass
class Worker:
    """Serve the client of a front, which has a ticket and then the secret of its session, and nothing else."""

    script: Script

    def refuse(self) -> HTTPStatus | None:
        return self.script.refuse()

    async def serve(self, connection: ServerConnection) -> None:
        secret = {"ticket": TICKET} if self.script.visits == 1 else {"resume": "secret"}
        assert query_of(connection) == {"role": self.script.row["role"], **secret}
        assert secrets_of(connection) == []
        await self.script.serve(connection)


def scripts_of(row: Row, path: str) -> dict[str, Script | Front | Worker]:
    """Return what serves a row, by path."""
    if not row["phase"].startswith("redirect"):
        return {path: Script(row)}
    phase = "connecting" if str(row["close"]).startswith("HTTP") else AT_WORKER[row["phase"]]
    return {path: Front(row, path), f"{path}/worker": Worker(Script({**row, "phase": phase}))}


def secrets_of(connection: ServerConnection) -> list[str]:
    """Return the secrets of lost sessions that a client offers among its subprotocols."""
    assert connection.request is not None, "it was accepted"
    offered = connection.request.headers["Sec-WebSocket-Protocol"].split(", ")
    return [name.removeprefix("reactor.return.") for name in offered if name != "reactor.v1"]


def query_of(connection: ServerConnection) -> dict[str, str]:
    assert connection.request is not None, "it was accepted"
    return dict(parse_qsl(urlsplit(connection.request.path).query))


@contextlib.asynccontextmanager
async def scripted_server(rows: list[Row]) -> AsyncIterator[str]:
    """Serve row N under the path /N for the duration of the block; gives the address."""
    scripts: dict[str, Script | Front | Worker] = {}
    for number, row in enumerate(rows):
        scripts |= scripts_of(row, f"/{number}")

    def script_of(path: str) -> Script | Front | Worker:
        return scripts[urlsplit(path).path.removesuffix("/ws")]

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        if request.path.endswith("/health"):
            return connection.respond(HTTPStatus.OK, '{"status": "ready"}')
        if "Upgrade" not in request.headers:
            return connection.respond(status_of(rows[int(request.path.split("/")[1])]), "refused")
        status = script_of(request.path).refuse()
        return None if status is None else connection.respond(status, "refused")

    async def handle(connection: ServerConnection) -> None:
        assert connection.request is not None, "it was accepted"
        with contextlib.suppress(ConnectionClosed):
            await script_of(connection.request.path).serve(connection)

    protocols = [Subprotocol("reactor.v1")]
    async with serve(handle, "127.0.0.1", 0, subprotocols=protocols, process_request=refuse) as server:
        (socket,) = server.sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"


async def say(connection: ServerConnection, type: str, **data: Any) -> None:
    await connection.send(json.dumps({"type": type, "data": data}))


def frame(seq: int) -> bytes:
    return attach(MediaHeader("main_video", seq, seq * 1000, 0), JPEG)
