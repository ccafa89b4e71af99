from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

import pytest
import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from reactor_runtime.cluster.front import worker_socket
from reactor_runtime.cluster.front.worker_socket import WorkerSocket
from reactor_runtime.wire.protocol import SUBPROTOCOL
from tests.timeouts import TIMEOUT_S

LARGE = bytes(300_000)


@contextlib.asynccontextmanager
async def worker(
    handle: Callable[[ServerConnection], Awaitable[None]],
    refuse: Callable[[ServerConnection, Request], Response | None] | None = None,
) -> AsyncIterator[str]:
    """Serve what a worker does with a connection; yield its URL."""
    subprotocols = [Subprotocol(SUBPROTOCOL)]
    async with serve(handle, "127.0.0.1", 0, subprotocols=subprotocols, process_request=refuse) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"ws://127.0.0.1:{port}/ws"


async def opened(url: str, received: list[str | bytes], on_writable: Callable[[], None] = lambda: None) -> WorkerSocket:
    socket = WorkerSocket(url, on_message=received.append, on_writable=on_writable)
    async with asyncio.timeout(TIMEOUT_S):
        await socket.open(None)
    return socket


async def ended(socket: WorkerSocket) -> tuple[int, str] | None:
    return await asyncio.wait_for(socket.closed, TIMEOUT_S)


async def test_messages_arrive_in_order_also_those_before_the_close() -> None:
    async def handle(connection: ServerConnection) -> None:
        for message in ("one", LARGE, "two"):
            await connection.send(message)
        await connection.close(4002, "it is over")

    received: list[str | bytes] = []
    async with worker(handle) as url:
        socket = await opened(url, received)
        assert await ended(socket) == (4002, "it is over")
    assert received == ["one", LARGE, "two"]


async def test_what_is_sent_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_socket, "CLOSING_S", TIMEOUT_S)
    arrived: list[str | bytes] = []

    async def handle(connection: ServerConnection) -> None:
        async for message in connection:
            arrived.append(message)

    async with worker(handle) as url:
        socket = await opened(url, [])
        socket.send("grüße")
        socket.send(LARGE)
        socket.close()
        await ended(socket)
    assert arrived == ["grüße", LARGE]


async def test_a_close_reaches_a_worker_that_sends_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_socket, "CLOSING_S", TIMEOUT_S)
    closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def handle(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await connection.send(LARGE)
        await connection.wait_closed()
        closed.set_result(connection.close_code)

    received: list[str | bytes] = []
    async with worker(handle) as url:
        socket = await opened(url, received)
        socket.close()
        so_far = len(received)
        await ended(socket)
        assert await asyncio.wait_for(closed, TIMEOUT_S) == 1000
    assert len(received) == so_far


async def test_a_worker_that_does_not_answer_the_close_is_left_after_a_second() -> None:
    async def serve_silently(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        connection.receive_data(request)
        (event,) = connection.events_received()
        assert isinstance(event, Request)
        connection.send_response(connection.accept(event))
        writer.write(b"".join(connection.data_to_send()))
        await reader.read()
        writer.close()

    connection = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)])
    async with await asyncio.start_server(serve_silently, "127.0.0.1", 0) as server:
        socket = await opened(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", [])
        socket.close()
        socket.close()
        assert await ended(socket) is None


async def test_a_broken_connection_has_no_close_code() -> None:
    async def handle(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with worker(handle) as url:
        socket = await opened(url, [])
        assert await ended(socket) is None
        socket.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_connection_that_was_broken_can_be_closed(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def handle(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async def abort_and_close() -> None:
        async with worker(handle) as url:
            socket = await opened(url, [])
            socket.abort()
            socket.close()
            assert await ended(socket) is None
            socket.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(abort_and_close())


async def test_a_refusal_is_raised_with_its_text() -> None:
    async def handle(_: ServerConnection) -> None: ...

    def refuse(connection: ServerConnection, _: Request) -> Response:
        return connection.respond(HTTPStatus.FORBIDDEN, "the ticket has been used")

    async with worker(handle, refuse) as url:
        with pytest.raises(InvalidStatus) as refused:
            await opened(url, [])
    assert refused.value.response.body == b"the ticket has been used"


async def test_a_worker_that_closes_during_the_handshake_is_an_error() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        with pytest.raises((OSError, InvalidHandshake)):
            await opened(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", [])


async def test_a_connection_that_is_closed_before_it_is_open_leaves_no_error_behind() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def handle(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with worker(handle) as url:
        socket = WorkerSocket(url, on_message=lambda _: None, on_writable=lambda: None)
        connecting = asyncio.create_task(socket.open(None))
        while socket._transport is None:  # noqa: ASYNC110  (no event reports it; the connection is to this process)
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait([connecting])
        socket.close()
        await ended(socket)
    del socket, connecting
    gc.collect()
    assert reported == []


async def test_it_is_not_ready_while_the_worker_reads_nothing() -> None:
    reads = asyncio.Event()

    async def handle(connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await reads.wait()
        connection.transport.resume_reading()
        await connection.wait_closed()

    writable = asyncio.Event()
    async with worker(handle) as url:
        socket = await opened(url, [], writable.set)
        while socket.ready:
            socket.send(LARGE)
        reads.set()
        await asyncio.wait_for(writable.wait(), TIMEOUT_S)
        socket.abort()
