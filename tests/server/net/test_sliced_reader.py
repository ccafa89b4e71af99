"""Messages that are read in slices, from sockets of a real server on the loop."""

from __future__ import annotations

import asyncio
import logging

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from reactor_runtime.server.net.http_server import ServerConfig, SocketProtocol
from reactor_runtime.server.net.message_reader import Allowance
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.timeouts import TIMEOUT_S


class Failing:
    """Return each message and pause after it, so that the next is read later than it came; fail at `fail`."""

    share = 0.05

    def __init__(self, protocol: SocketProtocol) -> None:
        self._protocol = protocol

    def allowance(self, *, is_text: bool) -> Allowance:  # noqa: ARG002  (any kind)
        return Allowance(1000, 1000, "too long")

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:  # noqa: ARG002  (any kind)
        if message == b"fail":
            raise RuntimeError("a fault of ours")
        self._protocol.post((message or b"").decode())
        return 0.01


async def _accept(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    protocol = SocketProtocol.serving(scope)
    protocol.serve(Failing(protocol))
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def test_a_failure_in_a_later_slice_ends_only_that_connection(caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig(_accept, LabelledCounter())
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SocketProtocol(config, ServerState(), {}), "127.0.0.1", 0)
    async with server, asyncio.timeout(TIMEOUT_S):
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connect(url, compression=None) as failing, connect(url, compression=None) as other:
            for socket in (failing, other):
                await socket.send("one")
                await socket.send("fail" if socket is failing else "two")
            assert await failing.recv() == "one"
            with pytest.raises(ConnectionClosed):
                await failing.recv()
            assert [await other.recv(), await other.recv()] == ["one", "two"]
            await other.send("three")
            assert await other.recv() == "three"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "reading a socket failed"
    caplog.clear()
