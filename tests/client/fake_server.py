"""A server that welcomes one client as its controller, and records what it receives."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from reactor_runtime.wire.containers import detach

Answers = Mapping[str, Sequence[tuple[str, Mapping[str, object]]]]
WELCOME: dict[str, object] = {
    "protocol": "reactor.v1",
    "session": "s-1",
    "role": "controller",
    "model": "fake",
    "tracks": [
        {"name": "camera", "kind": "video", "direction": "in"},
        {"name": "main_video", "kind": "video", "direction": "out"},
    ],
    "schema": {"events": {}, "messages": {}},
    "state": {},
    "resume": None,
    "limits": {},
}


class FakeServer:
    """Send `media` and read until the client leaves; with `deaf`, read nothing.

    `answers` has the messages, each type and data, to send once when the first text of a type arrives. The first
    connections are refused with the statuses of `refusals`.
    """

    def __init__(
        self,
        *,
        deaf: bool = False,
        media: bytes | None = None,
        answers: Answers | None = None,
        refusals: Sequence[int] = (),
    ) -> None:
        self.refusals = list(refusals)
        self._deaf = deaf
        self._media = media
        self._answers = dict(answers or {})
        self.texts: list[str] = []
        self.pictures: list[bytes] = []
        self.received = asyncio.Event()
        self.left = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Listen during the block; yields the address."""
        async with serve(
            self._serve, "127.0.0.1", 0, subprotocols=[Subprotocol("reactor.v1")], process_request=self._refuse
        ) as server:
            (socket,) = server.sockets
            yield f"http://127.0.0.1:{socket.getsockname()[1]}"

    def _refuse(self, connection: ServerConnection, _request: Request) -> Response | None:
        return connection.respond(HTTPStatus(self.refusals.pop(0)), "not yet\n") if self.refusals else None

    async def _serve(self, connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "reactor.welcome", "data": WELCOME}))
        if self._deaf:
            connection.transport.pause_reading()
            await self.left.wait()
            connection.transport.abort()
        if self._media is not None:
            await connection.send(self._media)
        async for item in connection:
            if isinstance(item, bytes):
                self.pictures.append(detach(item)[1])
            elif (kind := json.loads(item)["type"]) != "reactor.ping":
                self.texts.append(kind)
                self.received.set()
                for type, data in self._answers.pop(kind, ()):
                    await connection.send(json.dumps({"type": type, "data": data}))
        self.left.set()
