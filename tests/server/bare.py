"""A model that goes on and on, and connections to its server that speak no more than they are told to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator

from tests.server.running import RunningServer

SECRET = "correct-horse"
MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield gray(self.state.level)
"""


@contextlib.asynccontextmanager
async def bare(server: RunningServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def handshake(server: RunningServer, **headers: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    fields = {
        "Host": f"127.0.0.1:{server.port}", "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET /ws?role=viewer HTTP/1.1\r\n{lines}\r\n".encode()
