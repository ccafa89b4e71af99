"""The acceptor on real sockets, on the loops of asyncio and uvloop."""

from __future__ import annotations

import asyncio
import codecs
import contextlib

# Loaded before a test takes all descriptors: uvloop needs it to connect.
import encodings.idna  # noqa: F401
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from reactor_runtime.server.net.acceptor import MOST_REFUSED, OPENED_AT_ONCE, Acceptor
from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.shares import Accounts
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.server.security.test_certificate import make_certificate
from tests.server.test_leftovers import until
from tests.timeouts import TIMEOUT_S

Run = Callable[[Coroutine[Any, Any, None]], None]
MANY = 1 << 20


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def on_its_loop(test: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(test, TIMEOUT_S))

    return on_its_loop


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Listening:
    """A listening acceptor, and clients that connect from addresses of this machine."""

    def __init__(self, most: int, most_descriptors: int = MANY, tls: ssl.SSLContext | None = None) -> None:
        self.refusals = LabelledCounter()
        self.limiter = ConnectionLimiter(most)
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._sock.getsockname()[1]
        self.acceptor = Acceptor(
            self._sock,
            self.limiter,
            self.refusals,
            most_descriptors=most_descriptors,
            tls=tls,
            refused_s=TIMEOUT_S,
        )
        self.acceptor.start(Echo, Accounts(), Reading())
        self._clients: list[asyncio.StreamWriter] = []

    async def connect(
        self, address: str = "127.0.0.1", **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0), **options)
        self._clients.append(writer)
        return reader, writer

    async def answer(self, address: str = "127.0.0.1", **options: Any) -> str:
        """Send a line, and return the first line of the response, or "reset"."""
        try:
            reader, writer = await self.connect(address, **options)
            writer.write(b"hello\n")
            return (await reader.readline()).decode().strip() or "closed"
        except ConnectionError:
            return "reset"

    async def counted(self, count: int) -> None:
        await until(lambda: len(self.limiter) == count)

    async def aclose(self) -> None:
        self.acceptor.close()
        for writer in self._clients:
            writer.transport.abort()
        await self.counted(0)


@contextlib.asynccontextmanager
async def listening(most: int, **options: Any) -> AsyncIterator[Listening]:
    server = Listening(most, **options)
    try:
        yield server
    finally:
        await server.aclose()


def test_connections_of_an_address_are_limited_and_a_closed_one_frees_its_place(run: Run) -> None:
    async def test() -> None:
        async with listening(2) as server:
            _, first = await server.connect()
            assert [await server.answer() for _ in range(2)] == ["hello", "HTTP/1.1 429 Too Many Requests"]
            assert await server.answer("127.0.0.2") == "hello"
            first.close()
            await server.counted(2)
            assert await server.answer() == "hello"

    run(test())


def test_connections_without_a_tls_handshake_count_for_their_address(run: Run, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def test() -> None:
        async with listening(2, tls=context) as server:
            silent = [await server.connect() for _ in range(2)]
            await server.counted(2)
            assert await server.answer(ssl=trusting) == "HTTP/1.1 429 Too Many Requests"
            assert await server.answer("127.0.0.2", ssl=trusting) == "hello"
            for _, writer in silent:
                writer.write(b"this is no TLS\n")
            await server.counted(1)
            assert await server.answer(ssl=trusting) == "hello"

    run(test())


def test_many_tls_records_are_decrypted_in_their_order(run: Run, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def test() -> None:
        async with listening(1, tls=context) as server:
            reader, writer = await server.connect(ssl=trusting)
            sent = b"".join(b"%d\n" % number for number in range(2000))
            for at in range(len(sent)):
                writer.write(sent[at : at + 1])
            assert await reader.readexactly(len(sent)) == sent

    run(test())


def test_eight_connections_above_the_limit_are_answered_and_others_are_reset(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with listening(1) as server:
            await server.connect()
            await server.counted(1)
            for _ in range(MOST_REFUSED):
                await server.connect()
            await until(lambda: server.refusals.counts == {"429": MOST_REFUSED})
            assert [await server.answer() for _ in range(20)] == ["reset"] * 20
            assert server.refusals.counts == {"429": MOST_REFUSED, "none": 20}

    run(test())
    # The log has one of them a minute: they have the address.
    lines = [
        (record.message, vars(record)["address"]) for record in caplog.records if record.levelno >= logging.WARNING
    ]
    assert lines == [("connection refused from=127.0.0.1: --max-per-address is 1", "127.0.0.1")] * (MOST_REFUSED + 20)


def test_a_connection_with_one_of_the_last_descriptors_is_reset(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with listening(100, most_descriptors=0) as server:
            assert [await server.answer(f"127.0.0.{host}") for host in range(1, 5)] == ["reset"] * 4

    run(test())
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "connections are refused: the limit of open files (ulimit -n) leaves no room"
    ]


def test_accepting_continues_when_descriptors_are_free_again(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        # uvloop imports this codec at the first connection, and no descriptor is free then.
        codecs.lookup("idna")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        async with listening(100) as server:
            sock = socket.socket()
            sock.setblocking(False)
            with contextlib.closing(socket.socket()) as next_one:
                free = next_one.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                loop = asyncio.get_running_loop()
                await loop.sock_connect(sock, ("127.0.0.1", server.port))
                await until(lambda: bool(caplog.records))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert await server.answer() == "hello"
            sock.close()

    run(test())
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.message == "no connection can be accepted: Too many open files; trying again every 0.5 s"


def test_many_connections_of_an_address_are_all_opened(run: Run) -> None:
    async def test() -> None:
        async with listening(100) as server:
            assert await asyncio.gather(*(server.answer() for _ in range(5 * OPENED_AT_ONCE))) == ["hello"] * 40

    run(test())


def test_closing_the_acceptor_closes_connections_that_wait_to_be_opened(run: Run) -> None:
    async def test() -> None:
        async with listening(200) as server:
            clients = [await server.connect() for _ in range(150)]
            await server.counted(150)
            server.acceptor.close()
            reader, _ = clients[-1]
            assert await reader.read() == b""

    run(test())
