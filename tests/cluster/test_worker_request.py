"""Requests of the front to a worker: many that are slow, and responses that come before the end of a body."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from starlette.responses import Response

from reactor_runtime.cluster.front.worker_request import request_worker
from tests.timeouts import TIMEOUT_S

# More than asyncio has threads.
MANY = 40
CHUNKED = (b"Transfer-Encoding", b"chunked")
LAST = b"0\r\n\r\n"


@contextlib.asynccontextmanager
async def worker() -> AsyncIterator[str]:
    """Serve HTTP for the block: return chunked bodies, refuse some requests at their heads; yield the URL."""
    serving = set[asyncio.Task[None]]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1]
        if path == b"/refuses":
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo long")
            await reader.read()
        elif path == b"/hangs":
            await reader.read()
        elif path != b"/closes":
            body = await reader.readuntil(LAST) if b"chunked" in head else LAST
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n" + body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(EOFError, ConnectionError):
            await answer(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await asyncio.gather(*serving)


async def request(url: str, body: AsyncIterator[bytes] | None = None) -> Response:
    headers = [] if body is None else [CHUNKED]
    return await request_worker("POST", url, headers=headers, body=body, tls=None, stalled_s=TIMEOUT_S)


async def file(rest: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"the beginning "
    await rest.wait()
    yield b"and the end"


async def test_slow_requests_do_not_delay_another() -> None:
    rest = asyncio.Event()
    async with worker() as url, asyncio.TaskGroup() as group:
        slow = [group.create_task(request(url, file(rest))) for _ in range(MANY)]
        assert (await request(url)).status_code == 200
        assert not any(each.done() for each in slow)
        rest.set()
        for each in slow:
            answer = await each
            assert (answer.body, answer.headers["Content-Type"]) == (b"the beginning and the end", "a/b")


async def test_a_response_comes_while_the_body_is_not_complete() -> None:
    async with worker() as url:
        answer = await request(f"{url}refuses", file(asyncio.Event()))
        assert (answer.status_code, answer.body) == (413, b"too long")


async def test_a_worker_that_closes_the_connection_is_an_error() -> None:
    async with worker() as url:
        with pytest.raises(ConnectionError):
            await request(f"{url}closes", file(asyncio.Event()))
        with pytest.raises(ConnectionError):
            await request(f"{url}closes")


async def test_a_worker_that_does_not_answer_is_an_error() -> None:
    async with worker() as url:
        with pytest.raises(TimeoutError, match=r"nor sent anything for 0\.1 s"):
            await request_worker("GET", f"{url}hangs", headers=[], tls=None, stalled_s=0.1)


async def test_a_body_that_fails_ends_the_request() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"the beginning"
        raise EOFError

    async with worker() as url:
        with pytest.raises(EOFError):
            await request(url, broken())
