"""What an address may use of the event loop, in a server on real sockets: by what it is charged, not by time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.server.app import http_config
from reactor_runtime.server.net.acceptor import Acceptor
from reactor_runtime.server.net.http_server import HttpServer
from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.shares import AddressShare
from reactor_runtime.server.routes.docs_page import docs_route
from reactor_runtime.server.routes.health import status_routes
from reactor_runtime.server.routes.metrics import metrics_route
from reactor_runtime.server.routes.pages import page_routes
from reactor_runtime.server.routes.streams import watch_routes
from reactor_runtime.server.routes.uploads import UploadRoute
from reactor_runtime.server.routes.websocket import Services, socket_routes
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.server.admission_fixture import AdmissionFixture
from tests.server.client import connect
from tests.server.security.test_certificate import ECDSA, make_certificate
from tests.timeouts import TIMEOUT_S

HOST = b"Host: localhost\r\n"
ROUTES = ["/", "/docs", "/health", "/live", "/metrics", "/nothing", "/ready", "/schema", "/static/main.js", "/ws"]
TINY = b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n"
MANY_HEADERS = b"".join(b"X-Header-%d: value\r\n" % number for number in range(120))


class Flooded:
    """A server on this loop, and floods from a thread."""

    def __init__(self, server: HttpServer, port: int) -> None:
        self.port = port
        self._accounts = server.config.application.accounts  # type: ignore[attr-defined]  # a config of ours

    def share(self, address: str = "127.0.0.1") -> AddressShare:
        share: AddressShare = self._accounts.of(address, time.monotonic())
        return share

    async def charged(self, flood: Callable[[int], bytes]) -> tuple[float, bytes]:
        """Return which part of the loop's work was charged to the address of a flood, and the answers."""
        spent_s, began_s = self.share().spent_s, time.thread_time()
        answers = await asyncio.to_thread(flood, self.port)
        return (self.share().spent_s - spent_s) / (time.thread_time() - began_s), answers


@contextlib.asynccontextmanager
async def flooded(tls: ssl.SSLContext | None = None) -> AsyncIterator[Flooded]:
    fixture = AdmissionFixture()
    admission, refusals = fixture.admission, LabelledCounter()
    services = Services(admission, fixture.inbound, fixture.clock, set())
    uploads = UploadRoute(admission)
    routes = [
        *page_routes(admission), docs_route(admission), *status_routes(admission, 0.0), metrics_route(admission),
        *watch_routes(services), uploads.route(), *socket_routes(services), Route("/raises", _raise),
        Route("/drops", _drop, methods=["POST"]),
    ]  # fmt: skip
    with socket.create_server(("127.0.0.1", 0), backlog=128) as sock:
        port = sock.getsockname()[1]
        config = http_config(routes, admission.settings.options, port=port, refusals=refusals)
        acceptor = Acceptor(sock, ConnectionLimiter(100), refusals, most_descriptors=1 << 20, tls=tls)
        server = HttpServer(config, acceptor)
        serving = asyncio.create_task(server.serve(sockets=[]))
        try:
            yield Flooded(server, port)
        finally:
            server.stop()
            server.abort()
            await serving
            await uploads.aclose()


async def _raise(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
    raise RuntimeError("a fault of ours")


async def _drop(request: Request) -> Response:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return PlainTextResponse(f"{size} bytes\n")


def ask(said: bytes, answers: int = 1, times: int = 1) -> Callable[[int], bytes]:
    """Return a flood: connect, say something `times` times, and read that many answers, or to the end."""

    def flood(port: int) -> bytes:
        received = b""
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as sock:
            for number in range(1, times + 1):
                with contextlib.suppress(ConnectionError):
                    sock.sendall(said)
                    while len(re.findall(rb"HTTP/1.1 \d", received)) < number * answers:
                        piece = sock.recv(1 << 16)
                        if not piece:
                            return received
                        received += piece
        return received

    return flood


def request(method: str, path: str, headers: bytes = b"", body: bytes = b"") -> bytes:
    return f"{method} {path} HTTP/1.1\r\n".encode() + HOST + headers + b"\r\n" + body


FLOODS: dict[str, Callable[[str], Callable[[int], bytes]]] = {
    "keep-alive": lambda path: ask(request("GET", path), times=100),
    "pipelined": lambda path: ask(request("GET", path) * 100, answers=100),
    "headers": lambda path: ask(request("GET", path, MANY_HEADERS), times=50),
    "new connections": lambda path: lambda port: b"".join(ask(request("GET", path))(port) for _ in range(30)),
    "tiny chunks": lambda path: (
        lambda port: b"".join(
            ask(request("POST", path, b"Transfer-Encoding: chunked\r\n", TINY))(port) for _ in range(10)
        )
    ),
}


@pytest.mark.usefixtures("counted_calls")
@pytest.mark.parametrize("kind", FLOODS)
async def test_the_work_for_each_route_is_charged_to_the_address(kind: str) -> None:
    async with flooded() as server:
        for path in ROUTES:
            server.share().per_s = 100.0
            # Once, so that no module is imported in what is measured.
            await asyncio.to_thread(ask(request("GET", path)), server.port)
            part, answers = await server.charged(FLOODS[kind](path))
            assert b"HTTP/1.1 " in answers, path
            assert part > 0.6, f"{path}: {part:.0%} of the time was charged"


@pytest.mark.parametrize("path", [*ROUTES, "/uploads?key=wrong"])
async def test_a_refused_request_is_answered_at_its_head_and_closed(path: str) -> None:
    head = request("PUT", path, b"Content-Length: 100000\r\nExpect: 100-continue\r\n")
    async with flooded() as server:
        _, answer = await server.charged(ask(head, answers=2))
    assert re.match(rb"HTTP/1\.1 4\d\d ", answer), answer
    assert b"connection: close" in answer
    assert b"100 Continue" not in answer


async def test_a_body_is_read_by_a_route_that_receives_it_and_the_connection_stays() -> None:
    async with flooded() as server:
        said = request("POST", "/drops", b"Content-Length: 100000\r\nExpect: 100-continue\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(TIMEOUT_S):
            writer.write(said)
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(bytes(100_000) + request("GET", "/live"))
            assert b"HTTP/1.1 200 " in await reader.readuntil(b"100000 bytes\n")
            assert b"HTTP/1.1 200 " in await reader.readuntil(b"ok\n")
        writer.close()


@pytest.mark.usefixtures("counted_calls")
async def test_a_large_body_is_read_no_faster_than_it_is_received() -> None:
    async with flooded() as server:
        chunk = b"2000\r\n" + bytes(0x2000) + b"\r\n"
        body = chunk * 1000 + b"0\r\n\r\n"
        server.share().per_s = 100.0
        part, answer = await server.charged(ask(request("POST", "/drops", b"Transfer-Encoding: chunked\r\n", body)))
        assert b"8192000 bytes" in answer or answer.endswith(b"\r\n\r\n")
        assert part > 0.5, part


async def test_small_chunks_are_refused_also_where_a_body_is_received() -> None:
    async with flooded() as server:
        said = request("POST", "/drops", b"Transfer-Encoding: chunked\r\n", TINY)
        _, answer = await server.charged(ask(said, answers=2))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the chunks of a body are too small" in answer


async def test_requests_of_an_address_with_a_debt_are_refused_and_another_address_is_served(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactor_runtime.server.net.http_protocol.PATIENCE_S", 1.0)
    async with flooded() as server, asyncio.timeout(TIMEOUT_S):
        server.share().left_s = -1e6
        ours = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        for _, writer in ours:
            writer.write(request("GET", "/live"))
        for _ in range(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
            writer.write(request("GET", "/live", b"Connection: close\r\n"))
            assert b" 200 OK" in await reader.read()
            writer.close()
        for reader, writer in ours:
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
            assert b"retry-after: " in answer
            writer.close()
    lines = [(each.getMessage(), vars(each)["address"]) for each in caplog.records if each.levelno >= logging.WARNING]
    why = "the address has used its share of the server's time, or leaves responses unread"
    line = f"requests wait from=127.0.0.1: {why}"
    # One for each request, however often it waited.
    assert lines == [(line, "127.0.0.1")] * 5


async def test_requests_that_wait_for_a_small_debt_are_served() -> None:
    async with flooded() as server, asyncio.timeout(TIMEOUT_S):
        server.share().left_s = -0.01
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request("GET", "/live", b"Connection: close\r\n"))
        assert b" 200 OK" in await reader.read()
        writer.close()


async def test_messages_of_a_socket_are_charged_to_its_address() -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        flooded() as server,
        connect(f"ws://127.0.0.1:{server.port}/ws?role=viewer", compression=None) as viewer,
    ):
        await viewer.recv()
        server.share().per_s = 0.0
        left = server.share().left(time.monotonic())
        # The viewer uses its own share, and then borrows.
        while server.share().left(time.monotonic()) == left:
            await viewer.send('{"type":"reactor.ping","data":{"t":1}}')
            await viewer.recv()


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_messages_are_read_while_their_address_has_a_debt(tmp_path: Path, scheme: str) -> None:
    context, trusting = tls_contexts(tmp_path) if scheme == "wss" else (None, None)
    async with (
        asyncio.timeout(TIMEOUT_S),
        flooded(context) as server,
        connect(f"{scheme}://localhost:{server.port}/ws?role=viewer", compression=None, ssl=trusting) as viewer,
    ):
        server.share().left_s = -1e6
        await viewer.send('{"type":"reactor.ping","data":{"t":1}}')
        while b'"reactor.pong"' not in await viewer.recv(decode=False):
            pass


async def test_a_failure_of_a_route_is_logged_and_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    async with flooded() as server:
        _, answer = await server.charged(ask(request("GET", "/raises")))
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == "a request failed path=/raises"
    caplog.clear()


def tls_contexts(folder: Path, *kind: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server and of its clients."""
    certificate, key = make_certificate(folder, kind=kind or ECDSA)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, ssl.create_default_context(cafile=str(certificate))


@pytest.mark.usefixtures("counted_calls")
async def test_handshakes_are_computed_on_a_thread_and_charged(tmp_path: Path) -> None:
    context, trusting = tls_contexts(tmp_path, "rsa:4096")
    async with flooded(context) as server, asyncio.timeout(TIMEOUT_S):
        began_s, spent_s = time.thread_time(), server.share().spent_s

        def shake(port: int) -> bytes:
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                trusting.wrap_socket(plain, server_hostname="localhost") as sock,
            ):
                sock.sendall(request("GET", "/live", b"Connection: close\r\n"))
                return b"".join(iter(lambda: sock.recv(1 << 16), b""))

        for _ in range(5):
            assert b" 200 OK" in await asyncio.to_thread(shake, server.port)
        loop_s, charged_s = time.thread_time() - began_s, server.share().spent_s - spent_s
        assert "tls-handshakes_0" in {thread.name for thread in threading.enumerate()}
        # A signature with RSA of 4,096 bits takes more than 1 ms on any machine, and none of it is on the loop.
        assert charged_s > 5 * 0.001 + 0.5 * loop_s


@pytest.mark.usefixtures("counted_calls")
async def test_tls_records_are_charged_to_the_address_and_decrypted_in_slices(tmp_path: Path) -> None:
    context, trusting = tls_contexts(tmp_path)
    said = request("GET", "/live") * 300

    def flood(port: int) -> bytes:
        received = b""
        with (
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as sock,
        ):
            for at in range(len(said)):
                sock.sendall(said[at : at + 1])
            while received.count(b"HTTP/1.1 200 ") < 300:
                received += sock.recv(1 << 16)
        return received

    async with flooded(context) as server, asyncio.timeout(TIMEOUT_S):
        # Once, so that no module is imported in what is measured.
        await asyncio.to_thread(flood, server.port)
        share = server.share()
        share.per_s = 0.0
        share.left_s = 1.0
        spent_s = share.spent_s
        part, _ = await server.charged(flood)
        assert part > 0.5, part
        # Work of more than 2 ms at once is charged five times more.
        assert 1.0 - share.left(time.monotonic()) == pytest.approx(share.spent_s - spent_s)


async def test_a_handshake_of_an_address_with_a_debt_waits_and_that_of_another_does_not(tmp_path: Path) -> None:
    context, trusting = tls_contexts(tmp_path)
    async with flooded(context) as server, asyncio.timeout(TIMEOUT_S):
        server.share().left_s = -1e6
        waiting = [
            asyncio.create_task(asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)) for _ in range(3)
        ]
        for _ in range(3):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=trusting, local_addr=("127.0.0.2", 0)
            )
            writer.close()
        assert not any(task.done() for task in waiting)
        server.share().left_s = 0.1
        for task in waiting:
            _, writer = await task
            writer.close()
