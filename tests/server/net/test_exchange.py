"""One request and its response, between an application and the bytes on a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message, Receive, Scope, Send

from reactor_runtime.server.net.exchange import CONTINUE, Exchange
from reactor_runtime.server.net.http_reader import Request
from tests.fakes import settle

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]}
HOST = (b"host", b"localhost")


class Carried:
    """A connection that keeps what is written, and how the exchange ended."""

    def __init__(self) -> None:
        self.written = b""
        self.ended: bool | None = None
        self.reads = 0
        self.ready = asyncio.Event()
        self.ready.set()

    def write(self, *pieces: bytes) -> None:
        self.written += b"".join(pieces)

    async def writable(self) -> None:
        await self.ready.wait()

    def read_on(self) -> None:
        self.reads += 1

    def exchange_over(self, *, keeps_alive: bool) -> None:
        self.ended = keeps_alive


def asked(method: str = "GET", version: str = "1.1", *headers: tuple[bytes, bytes], complete: bool = True) -> Request:
    return Request(method, b"/", version, [HOST, *headers], keeps_alive=version == "1.1", complete=complete)


async def answered(
    request: Request, respond: Callable[[Receive, Send], Awaitable[object]]
) -> tuple[bytes, bytes, bool | None]:
    """Return head and body of the response, and whether the connection stays open."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await respond(receive, send)

    carried = Carried()
    await Exchange(request, carried).run(app, {"type": "http", "path": "/"})
    head, _, body = carried.written.partition(b"\r\n\r\n")
    return head, body, carried.ended


def body(content: bytes = b"", *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


def with_length(size: int) -> Message:
    return {**START, "headers": [(b"content-length", b"%d" % size)]}


async def _two_pieces(_receive: Receive, send: Send) -> None:
    await send(START)
    await send(body(b"hello", more=True))
    await send(body(b"world"))


async def test_a_body_without_a_length_is_sent_in_chunks() -> None:
    head, content, stays = await answered(asked(), _two_pieces)
    assert head.startswith(b"HTTP/1.1 200 OK\r\nx-a: 1\r\ntransfer-encoding: chunked\r\ndate: ")
    assert (content, stays) == (b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", True)


async def test_a_client_with_http_1_0_gets_no_chunks_and_the_connection_ends() -> None:
    head, content, stays = await answered(asked(version="1.0"), _two_pieces)
    assert (content, stays) == (b"helloworld", False)
    assert b"chunked" not in head
    assert b"connection: close" in head


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 204)])
async def test_some_responses_have_no_body(method: str, status: int) -> None:
    async def respond(_receive: Receive, send: Send) -> None:
        await send({**with_length(5), "status": status})
        await send(body(b"hello"))

    head, content, stays = await answered(asked(method), respond)
    assert (content, stays) == (b"", True)
    assert b"content-length: 5" in head


async def test_the_connection_ends_where_the_response_says_so() -> None:
    async def respond(_receive: Receive, send: Send) -> None:
        await send({**with_length(0), "headers": [(b"content-length", b"0"), (b"Connection", b"Close")]})
        await send(body())

    assert (await answered(asked(), respond))[2] is False


async def test_the_connection_ends_with_a_response_that_comes_before_the_body() -> None:
    head, _, stays = await answered(asked("POST", complete=False), _two_pieces)
    assert (stays, b"connection: close" in head) == (False, True)


async def test_a_response_shorter_than_its_length_ends_the_connection() -> None:
    async def respond(_receive: Receive, send: Send) -> None:
        await send(with_length(10))
        await send(body(b"hello"))

    assert (await answered(asked(), respond))[1:] == (b"hello", False)


async def _too_long(_receive: Receive, send: Send) -> None:
    await send(with_length(3))
    await send(body(b"hello"))


async def _split_header(_receive: Receive, send: Send) -> None:
    await send({**START, "headers": [(b"location", b"/a\r\nset-cookie: b")]})
    await send(body())


async def _nothing(_receive: Receive, _send: Send) -> None: ...


async def _raise_late(_receive: Receive, send: Send) -> None:
    await send(START)
    await send(body(b"hello", more=True))
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize(
    ("respond", "logged", "line"),
    [(_too_long, 1, b""), (_split_header, 1, b""), (_nothing, 0, b"HTTP/1.1 500 Internal Server Error"),
     (_raise_late, 1, b"HTTP/1.1 200 OK")],
    ids=["too long", "a header of two lines", "no response", "failed later"],
)  # fmt: skip
async def test_a_wrong_response_ends_the_connection(
    respond: Callable[[Receive, Send], Awaitable[object]], logged: int, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    head, content, stays = await answered(asked(), respond)
    assert stays is False
    assert b"set-cookie" not in head
    assert not content.endswith(b"0\r\n\r\n")
    assert head.startswith(line)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == logged
    caplog.clear()


async def test_nothing_of_a_body_is_read_before_it_is_received() -> None:
    request, carried = asked("POST", "1.1", (b"expect", b"100-continue"), complete=False), Carried()
    exchange = Exchange(request, carried)
    assert (exchange.wants_body, carried.written) == (False, b"")
    receiving = asyncio.create_task(exchange.receive())
    await settle()
    assert (exchange.wants_body, carried.written, carried.reads) == (True, CONTINUE, 1)
    request.body += b"hello"
    exchange.body_arrived()
    assert await receiving == {"type": "http.request", "body": b"hello", "more_body": True}
    request.body += b"world"
    request.complete = True
    assert await exchange.receive() == {"type": "http.request", "body": b"world", "more_body": False}
    gone = asyncio.create_task(exchange.receive())
    await settle()
    assert not gone.done()
    exchange.disconnect()
    assert await gone == {"type": "http.disconnect"}


async def test_a_body_is_not_read_far_ahead() -> None:
    request = asked("POST", complete=False)
    exchange = Exchange(request, Carried())
    request.body += bytes(1 << 16)
    await exchange.receive()
    assert exchange.wants_body
    request.body += bytes(1 << 16)
    assert not exchange.wants_body


async def test_sending_waits_until_the_kernel_takes_it_and_ends_when_the_client_goes() -> None:
    carried = Carried()
    exchange = Exchange(asked(), carried)
    await exchange.send(START)
    carried.ready.clear()
    sending = asyncio.create_task(exchange.send(body(b"hello", more=True)))
    await settle()
    assert not sending.done()
    carried.ready.set()
    await sending
    exchange.disconnect()
    written = carried.written
    await exchange.send(body(b"world"))
    assert (carried.written, carried.ended) == (written, None)
