"""Sockets that are read in slices, served by a real server on the loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request

from reactor_runtime.server.net.message_reader import Allowance
from reactor_runtime.server.net.protocols import EdgeConfig, LimitedSocket
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.timeouts import TIMEOUT_S


class Failing(LimitedSocket):
    """Rest after each message, so that the next is read later than it came, and fail at `fail`."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        self.start_reading()

    def allowance(self, *, is_text: bool) -> Allowance:  # noqa: ARG002  (any kind)
        return Allowance(1000, 1000, "too long")

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:  # noqa: ARG002  (any kind)
        if message == b"fail":
            raise RuntimeError("a fault of ours")
        self.conn.send_text(message or b"")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.rest(0.01)


async def _accept(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG001  (as ASGI has it)
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def test_a_failure_while_reading_later_ends_that_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    config = EdgeConfig(_accept, LabelledCounter(), log_config=None, ws=Failing)
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Failing(config, ServerState(), {}), "127.0.0.1", 0)
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
