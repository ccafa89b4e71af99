"""Objects of a closed connection are freed without the garbage collector: there are no reference cycles."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
from collections.abc import AsyncIterator, Iterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from websockets.exceptions import ConnectionClosed

from reactor_runtime.server.app import http_config
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.delivery.socket_sender import SocketSender
from reactor_runtime.server.net.exchange import Exchange
from reactor_runtime.server.net.http_reader import HttpReader
from reactor_runtime.server.net.http_server import UvicornProtocol
from reactor_runtime.server.net.listening import bind
from reactor_runtime.server.net.message_reader import MessageReader
from reactor_runtime.server.net.sliced_reader import SlicedReader
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.routes.websocket import Services as Served
from reactor_runtime.server.routes.websocket import socket_routes
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.server.admission_fixture import AdmissionFixture
from tests.server.client import connect
from tests.timeouts import TIMEOUT_S

KINDS = (
    Client,
    Exchange,
    HttpReader,
    MessageReader,
    Outbox,
    SlicedReader,
    SocketProtocol,
    SocketSender,
    UvicornProtocol,
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@contextlib.asynccontextmanager
async def served(services: AdmissionFixture) -> AsyncIterator[int]:
    """Serve sockets with engines that do nothing by themselves; yield the port."""
    parts = Served(services.admission, services.inbound, services.clock, set())
    routes = [*socket_routes(parts), Route("/live", lambda _: PlainTextResponse("ok\n"))]
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        config = http_config(routes, services.admission.settings.options, port=port, refusals=LabelledCounter())
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            yield port
        finally:
            server.should_exit = True
            await serving


async def none_left() -> None:
    """Wait until all objects of connections are freed, which only reference counts do here."""
    async with asyncio.timeout(TIMEOUT_S):
        while left := [type(each).__name__ for each in gc.get_objects() if type(each) in KINDS]:
            await asyncio.sleep(0.05)
            assert left


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("ending", ["closed", "broken", "refused"])
async def test_a_closed_socket_is_freed(ending: str) -> None:
    async with served(AdmissionFixture(most_waiting=0)) as port:
        async with connect(f"ws://127.0.0.1:{port}/ws?role=viewer", compression=None) as socket:
            await socket.send('{"type": "reactor.ping", "data": {"t": 1}}')
            await socket.recv()
            if ending == "broken":
                socket.transport.write(b"\x81\xfe" + struct.pack(">H", 2000) + bytes(1000))
                socket.transport.abort()
            elif ending == "refused":
                with contextlib.suppress(ConnectionClosed):
                    await socket.send(bytes(5000))
                    await socket.recv()
        del socket
        await none_left()


@pytest.mark.usefixtures("no_collector")
async def test_a_closed_http_connection_is_freed() -> None:
    async with served(AdmissionFixture()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.readuntil(b"ok\n")
        writer.close()
        await none_left()
