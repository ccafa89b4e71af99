"""Sends HTTP requests to workers without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from urllib.parse import urlsplit

import h11
from starlette.responses import Response

from reactor_runtime.server.security.middleware import NO_STORE

READ_BYTES = 1 << 16
MAX_ANSWER_BYTES = 8 << 20


async def request_worker(
    method: str,
    url: str,
    *,
    headers: Sequence[tuple[bytes, bytes]],
    body: AsyncIterable[bytes] | None = None,
    tls: ssl.SSLContext | None,
    stalled_s: float,
) -> Response:
    """Send a request to a worker and return its response, which may come before all of the `body` is sent.

    Raises OSError if there is none: the worker can't be reached, takes nothing, or does not answer for `stalled_s`.
    Raises what `body` raises.
    """
    parts = urlsplit(url)
    context = (tls or True) if parts.scheme == "https" else None
    async with _limit(stalled_s):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
    connection = h11.Connection(h11.CLIENT)
    tasks: list[asyncio.Task[Response] | asyncio.Task[None]] = []
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = h11.Request(method=method, target=target, headers=[(b"Host", parts.netloc.encode()), *headers])
        writer.write(connection.send(head) or b"")
        sending = asyncio.create_task(_send(connection, writer, body, stalled_s))
        receiving = asyncio.create_task(_receive(connection, reader))
        tasks = [sending, receiving]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            sending.result()
        async with _limit(stalled_s):
            return await receiving
    except h11.ProtocolError as error:
        raise ConnectionError(str(error)) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.transport.abort()


@contextlib.asynccontextmanager
async def _limit(stalled_s: float) -> AsyncIterator[None]:
    """Limit the time of the block; raise TimeoutError with a message, which that of asyncio lacks."""
    try:
        async with asyncio.timeout(stalled_s):
            yield
    except TimeoutError:
        raise TimeoutError(f"the worker has neither read nor sent anything for {stalled_s:g} s") from None


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, body: AsyncIterable[bytes] | None, stalled_s: float
) -> None:
    # A worker that refuses a request may close the connection: its response has the reason.
    with contextlib.suppress(ConnectionError):
        if body is not None:
            async for piece in body:
                writer.write(connection.send(h11.Data(piece)) or b"")
                async with _limit(stalled_s):
                    await writer.drain()
        writer.write(connection.send(h11.EndOfMessage()) or b"")


async def _receive(connection: h11.Connection, reader: asyncio.StreamReader) -> Response:
    status, kind, body = 0, "text/plain", bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            case h11.Response(status_code=status, headers=headers):
                kind = dict(headers).get(b"content-type", b"text/plain").decode("latin-1")
            case h11.Data(data=data):
                body += data
                if len(body) > MAX_ANSWER_BYTES:
                    raise ConnectionError(f"the response of the worker has more than {MAX_ANSWER_BYTES >> 20} MiB")
            case h11.EndOfMessage():
                return Response(bytes(body), status, headers={**NO_STORE, "Content-Type": kind})
