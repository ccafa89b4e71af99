"""A real server, and clients that send too much or too slowly, or that are too many."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from socket import SO_SNDBUF, SOL_SOCKET

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.server.bare import MODEL, bare, handshake
from tests.server.client import WireClient, client, connect, controlling
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

PER_ADDRESS = 244
ACK_TEXT = b'{"type":"reactor.ack","data":{"track":"main_video","seq":1}}'
ACK = bytes([0x81, 0x80 | len(ACK_TEXT)]) + bytes(4) + ACK_TEXT


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("model"), MODEL), "--log-level", "error") as server:
        yield server


async def test_hundreds_of_connections_of_one_address_do_not_exceed_its_limit(
    open_server: RunningServer,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        pairs = []
        # Opened within the time that a connection may be without a request, on a busy machine too.
        for _ in range(300):
            with contextlib.suppress(ConnectionError):  # dropped before it was used
                pairs.append(await stack.enter_async_context(bare(open_server)))
        answers: list[str] = []
        for reader, writer in pairs:
            writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                answers.append((await asyncio.wait_for(reader.readline(), TIMEOUT_S)).decode().strip())
    assert answers.count("HTTP/1.1 200 OK") == PER_ADDRESS
    assert set(answers) <= {"HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests", ""}
    open_server.until(lambda: _lives(open_server), "room again")


def _lives(server: RunningServer) -> bool:
    return server.get("/live")[0] == 200


async def test_a_request_that_does_not_arrive_times_out(open_server: RunningServer) -> None:
    halves = [b"", b"GET /live", b"GET /ws HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"]
    answers = await asyncio.gather(*(_answer_to_half(open_server, half) for half in halves))
    assert [answer.split(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 408 Request Timeout"] * 3


async def _answer_to_half(server: RunningServer, half: bytes) -> bytes:
    async with bare(server) as (reader, writer):
        writer.write(half)
        dripping = asyncio.create_task(_drip(writer, b"X-A: b\r\n" if half.endswith(b"\n") else half[-1:]))
        answer = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        dripping.cancel()
        return answer


async def _drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a few bytes every second, so that the connection is never idle."""
    while True:
        await asyncio.sleep(1)
        writer.write(piece)


async def test_a_client_above_the_message_rate_is_answered_then_closed(open_server: RunningServer) -> None:
    async with connect(f"{open_server.url}?role=viewer", max_queue=None) as socket:
        flood = asyncio.create_task(_flood(socket))
        viewer = WireClient(socket)
        error = await viewer.data("reactor.error", code="rate_limited")
        assert error["message"] == "more than 1000 messages a second: this one changed nothing"
        async with client(open_server.url) as controller:
            await controller.frame()  # others are served meanwhile
        code, reason = await viewer.closed()
        flood.cancel()
    assert (code, reason) == (4429, "more than 1000 messages a second for 10 s")
    assert any(message.get("id") == "flood" for message in viewer.texts)


async def test_a_message_with_too_many_values_is_refused_and_the_connection_stays_open(
    open_server: RunningServer,
) -> None:
    async with controlling(open_server.url) as controller:
        await controller.send("set_level", {"level": [0] * 20_000})
        error = await controller.data("reactor.error", code="invalid_json")
        assert error["message"] == "a message may hold 16384 values, 64 deep"
        await controller.frame()


async def _flood(socket: ClientConnection) -> None:
    """Send 100 acknowledgements in one write: the client library is slower than the server."""
    # In a large buffer a pong would wait behind the flood.
    socket.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, 1 << 14)
    with contextlib.suppress(ConnectionClosed):
        while True:
            socket.transport.write(ACK * 100)
            await socket.send('{"type": "anything", "id": "flood"}')
            await asyncio.sleep(0.02)


async def test_acknowledgements_count_as_messages(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ACK * 20_000)  # at once: a slow machine may take a second or two
        said = b""
        async with asyncio.timeout(TIMEOUT_S):
            while b"rate_limited" not in said:
                said += await reader.read(65536)


async def test_a_burst_is_allowed(open_server: RunningServer) -> None:
    async with client(open_server.url, role="viewer") as viewer:
        for number in range(2000):
            await viewer.send("reactor.ping", {"t": number})
        pong = await viewer.data("reactor.pong", t=1999)
        assert pong["t"] == 1999
        assert not [text for text in viewer.texts if text["type"] == "reactor.error"]


async def test_too_many_pings_end_the_connection(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        ping = b"\x89\xfd" + b"\0\0\0\0" + b"x" * 125
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                writer.write(ping * 100)
                await asyncio.wait_for(writer.drain(), TIMEOUT_S)
        with contextlib.suppress(ConnectionError):
            said = await asyncio.wait_for(reader.read(), TIMEOUT_S)
            assert not said or struct.pack(">H", 4429) in said


async def test_pings_of_a_client_that_reads_nothing_use_no_memory(open_server: RunningServer) -> None:
    before = resident_kib(open_server)
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport has it
        with contextlib.suppress(ConnectionError):
            for _ in range(300):
                writer.write((b"\x89\xfd" + b"\0\0\0\0" + b"x" * 125) * 100)
                await asyncio.wait_for(writer.drain(), TIMEOUT_S)
        assert resident_kib(open_server) - before < 8 * 1024
    open_server.until(lambda: _lives(open_server), "an answer")


async def test_40_000_empty_messages_of_a_client_do_not_delay_others(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer), client(open_server.url, role="viewer") as other:
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x80\0\0\0\0" * 40_000)
        for number in range(20):
            await other.send("reactor.ping", {"t": number})
            await other.data("reactor.pong", t=number)


def resident_kib(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


async def test_deep_json_is_refused_and_the_connection_stays_open(open_server: RunningServer) -> None:
    async with controlling(open_server.url) as controller:
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            await controller.socket.send(opening * 20_000 + closing * 20_000)
            assert "deep" in (await controller.data("reactor.error", code="invalid_json"))["message"]
        await controller.send("reactor.ping", {"t": 1})
        await controller.data("reactor.pong")


@pytest.mark.parametrize(
    ("role", "payload", "reason"),
    [
        ("controller", "x" * (256 * 1024 + 1), "a text message may have 262144 bytes"),
        ("controller", b"x" * (16 * 1024 * 1024 + 1), "a binary message may have 16777216 bytes"),
        ("viewer", "x" * 4097, "a viewer's text message may have 4096 bytes"),
        ("viewer", b"x" * 4097, "a viewer sends no frames and no sound"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 99 else type(value).__name__,
)
async def test_a_message_that_is_too_long_ends_the_connection(
    open_server: RunningServer, role: str, payload: str | bytes, reason: str
) -> None:
    async with client(open_server.url, role=role) as sender:
        with contextlib.suppress(ConnectionClosed):
            await sender.socket.send(payload)
        assert await sender.closed() == (1009, reason)


async def test_an_unfinished_message_times_out(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ACK[:-20])
        dripping = asyncio.create_task(_drip(writer, b" "))
        said = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        dripping.cancel()
        assert b"a message has to arrive within 10 s" in said


async def test_unfinished_messages_of_many_clients_use_bounded_memory(open_server: RunningServer) -> None:
    before = resident_kib(open_server)
    async with contextlib.AsyncExitStack() as stack:
        for role in ("viewer", "controller") * 10:
            _, writer = await stack.enter_async_context(bare(open_server))
            writer.write(handshake(open_server).replace(b"role=viewer", f"role={role}".encode()))
            writer.write(b"\x82\xff" + struct.pack(">Q", 1 << 24) + bytes(4) + bytes(8 << 20))
        async with client(open_server.url, role="viewer") as other:
            await other.send("reactor.ping", {"t": 1})
            await other.data("reactor.pong")
        assert resident_kib(open_server) - before < 64 * 1024


async def test_events_of_a_waiting_controller_are_refused(open_server: RunningServer) -> None:
    async with controlling(open_server.url), client(open_server.url) as waiting:
        await waiting.socket.send(b"\xff\xd8" + bytes(1 << 20))
        assert "the message was dropped" in (await waiting.data("reactor.error", code="not_controller"))["message"]
        await waiting.send("reactor.ping", {"t": 1})
        await waiting.data("reactor.pong")


async def test_a_message_in_endless_fragments_ends_the_connection(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x01\x80\0\0\0\0")
        with contextlib.suppress(ConnectionError):
            for _ in range(300):
                writer.write(b"\x00\x80\0\0\0\0" * 100)
                await asyncio.wait_for(writer.drain(), TIMEOUT_S)
            said = await asyncio.wait_for(reader.read(), TIMEOUT_S)
            assert not said or struct.pack(">H", 4429) in said
