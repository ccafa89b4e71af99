"""The end of a client's connection, on an ASGI server that keeps what is sent to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from starlette.types import Message, Scope
from starlette.websockets import WebSocket

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.outbox import MOST_MESSAGES
from reactor_runtime.server.routes.websocket import Services, serve_socket
from tests.fakes import settle
from tests.server.admission_fixture import AdmissionFixture
from tests.timeouts import TIMEOUT_S

SCOPE: Scope = {
    "type": "websocket",
    "path": "/ws",
    "query_string": b"role=viewer",
    "headers": [],
    "subprotocols": ["reactor.v1"],
    "state": {},
    "client": ("127.0.0.1", 4711),
}


@pytest.fixture
def fixture() -> Iterator[AdmissionFixture]:
    fixture = AdmissionFixture()
    yield fixture
    os.close(fixture.memory)


@pytest.mark.parametrize("gone", [False, True])
async def test_a_client_that_leaves_its_messages_unread_gets_the_reason_with_the_close(
    fixture: AdmissionFixture, *, gone: bool
) -> None:
    asked: list[Message] = [{"type": "websocket.connect"}]
    sent: list[Message] = []

    async def receive() -> Message:
        if not asked:
            await asyncio.Event().wait()
        return asked.pop()

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()
        elif message["type"] == "websocket.close" and gone:
            raise OSError

    clients: set[Client] = set()
    services = Services(fixture.admission, fixture.inbound, fixture.clock, clients)
    serving = asyncio.create_task(serve_socket(WebSocket(SCOPE, receive, send), services))
    await settle()
    [client] = clients
    for _ in range(MOST_MESSAGES + 2):
        client.send_message("echo", {})
    await asyncio.wait_for(serving, TIMEOUT_S)
    assert sent[-1] == {
        "type": "websocket.close",
        "code": 1013,
        "reason": "not reading: 1000 messages or 4 MiB wait",
    }
