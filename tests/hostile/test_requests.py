"""Requests as HTTP allows and forbids them, over a bare socket: handshakes, two requests in one, and no HTTP at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re

import pytest

from tests.hostile.raw import PING, PONG, RawSocket, frame
from tests.server.bare import bare
from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

HOST = "Host: localhost\r\n"
UPGRADE = f"{HOST}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
SOCKET = UPGRADE + KEY
CHUNKED = f"{HOST}Transfer-Encoding: chunked\r\n"
LAST = "Connection: close\r\n"


def get(path: str, headers: str = HOST + LAST, *, body: str = "", method: str = "GET", version: str = "1.1") -> bytes:
    return f"{method} {path} HTTP/{version}\r\n{headers}\r\n{body}".encode("latin-1")


def post(headers: str, body: str = "") -> bytes:
    return get("/uploads?key=x", headers + LAST, body=body, method="POST")


HANDSHAKES = {
    "no key": (get("/ws", UPGRADE), 400),
    "key of one byte": (get("/ws", UPGRADE + "Sec-WebSocket-Key: x\r\n"), 400),
    "two keys": (get("/ws", SOCKET + KEY), 400),
    "no version": (get("/ws", SOCKET.replace("Sec-WebSocket-Version: 13\r\n", "")), 400),
    "version 12": (get("/ws", SOCKET.replace("13", "12")), 400),
    "POST": (get("/ws", SOCKET, method="POST"), 405),
    "HTTP/1.0": (get("/ws", SOCKET, version="1.0"), 400),
    "no upgrade": (get("/ws", HOST + LAST), 426),
    "no upgrade, of the head alone": (get("/ws", HOST + LAST, method="HEAD"), 426),
    "another program's upgrade": (get("/ws", HOST + "Upgrade: h2c\r\nConnection: Upgrade, close\r\n"), 426),
    "HTTP/2.0 in the letters of 1.1": (get("/ws", SOCKET, version="2.0"), 400),
    "no host": (get("/ws", SOCKET.replace(HOST, "")), 400),
    "two hosts": (get("/ws", SOCKET + "Host: evil.example\r\n"), 400),
    "host that is none": (get("/ws", SOCKET.replace("localhost", 'a b"<>')), 421),
    "origin that is none": (get("/ws", SOCKET + "Origin: \xff\r\n"), 403),
    "subprotocols that are none": (get("/ws", SOCKET + 'Sec-WebSocket-Protocol: ,,;;"\r\n'), 400),
    "unknown subprotocol": (get("/ws", SOCKET + "Sec-WebSocket-Protocol: other\r\n"), 400),
    "unknown role": (get("/ws?role=%ff%00", SOCKET), 400),
    "another path": (get("/%ff", SOCKET), 403),
    "another server's path": (get("http://evil.example/ws", SOCKET), 403),
    "with a body": (get("/ws", SOCKET + "Content-Length: 5\r\n", body="hello"), 400),
    "with a body in chunks": (get("/ws", SOCKET + CHUNKED.removeprefix(HOST), body="0\r\n\r\n"), 400),
    "line of 9 KB": (get("/ws", SOCKET + f"X-A: {'a' * 9000}\r\n"), 400),
    "path of 9 KB": (get(f"/ws?role={'a' * 9000}", SOCKET), 400),
    "line of 60 KB": (get("/ws", SOCKET + f"X-A: {'a' * 60_000}\r\n"), 400),
    "200 headers": (get("/ws", SOCKET + "".join(f"X-{number}: a\r\n" for number in range(200))), 400),
}
SHAPES = {
    "length and chunks": (post(CHUNKED + "Content-Length: 6\r\n", "0\r\n\r\nGET /live HTTP/1.1\r\n\r\n"), 400),
    "length and chunks, where all may ask": (get("/live", CHUNKED + "Content-Length: 6\r\n", body="0\r\n\r\n"), 400),
    "two encodings": (post(CHUNKED + "Transfer-Encoding: identity\r\n", "0\r\n\r\n"), 400),
    "unknown encoding": (post(CHUNKED.replace("chunked", "xchunked"), "0\r\n\r\n"), 400),
    "two lengths": (post(HOST + "Content-Length: 0\r\nContent-Length: 5\r\n", "hello"), 400),
    "length below zero": (post(HOST + "Content-Length: -1\r\n"), 400),
    "length with a sign": (post(HOST + "Content-Length: +5\r\n", "hello"), 400),
    "length with an underscore": (post(HOST + "Content-Length: 1_0\r\n", "0123456789"), 400),
    "length of 40 digits": (post(HOST + f"Content-Length: {'9' * 40}\r\n"), 400),
    "space before the colon": (get("/live", HOST + "Content-Length : 5\r\n", body="hello"), 400),
    "NUL in a header": (get("/live", HOST + "X-A: a\0b\r\n"), 400),
    "NUL in the path": (get("/live\0", HOST), 400),
    "chunk that has no length": (post(CHUNKED, "zz\r\n\r\n"), 400),
    "chunk below zero": (post(CHUNKED, "-5\r\nhello\r\n"), 400),
    "chunk of 10 PiB": (post(CHUNKED, "2" + "0" * 13 + "\r\nhello\r\n"), 403),
    "HTTP/0.9": (b"GET /live\r\n\r\n", 400),
    "no host": (get("/live", LAST), 400),
    "HTTP/1.0 without one": (get("/live", "", version="1.0"), 200),
    "method of 10 kB": (get("/live", HOST + LAST, method="A" * 10_000), 400),
    "TRACE": (get("/live", method="TRACE"), 405),
    "CONNECT": (get("localhost:80", method="CONNECT"), 404),
    "another program's upgrade": (get("/live", HOST + "Upgrade: h2c\r\nConnection: Upgrade, close\r\n"), 200),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x01" * 500, 400),
    "NULs": (bytes(5000), 400),
    "line ends": (b"\r\n" * 5000, 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
}
GARBAGE = [random.Random(seed).randbytes(3000) + b"\r\n\r\n" for seed in range(20)]


async def statuses(server: RunningServer, said: bytes) -> list[int]:
    """Say something and read to the end of the connection; gives the statuses of the answers."""
    async with bare(server) as (reader, writer):
        writer.write(said)
        answer = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := await asyncio.wait_for(reader.read(65536), TIMEOUT_S):
                answer += piece
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", bytes(answer))]


@pytest.mark.parametrize("name", HANDSHAKES)
async def test_a_handshake_that_is_none_is_answered_and_the_connection_ended(server: RunningServer, name: str) -> None:
    said, status = HANDSHAKES[name]
    assert await statuses(server, said) == [status]


@pytest.mark.parametrize("name", SHAPES)
async def test_a_request_that_could_be_read_in_two_ways_is_not_served(server: RunningServer, name: str) -> None:
    said, status = SHAPES[name]
    answers = await statuses(server, said)
    assert answers[:1] == [status]
    assert 200 not in answers[1:], "there was one request"


@pytest.mark.parametrize("said", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_is_answered_in_the_words_of_http(server: RunningServer, said: bytes) -> None:
    assert await statuses(server, said) == [400]


async def test_an_error_in_a_body_that_was_answered_already_ends_the_connection(server: RunningServer) -> None:
    async with bare(server) as (reader, writer):
        writer.write(get("/uploads?key=x", CHUNKED, body="5\r\nhello\r\n", method="POST"))
        assert (await asyncio.wait_for(reader.readline(), TIMEOUT_S)).startswith(b"HTTP/1.1 403 ")
        writer.write(b"no chunk\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), TIMEOUT_S)


@pytest.mark.parametrize("more", [get("/live"), b"x" * 300_000], ids=["another request", "a lot"])
async def test_a_watcher_that_says_more_than_its_request_is_missed_when_it_goes(
    server: RunningServer, more: bytes
) -> None:
    async with bare(server) as (reader, writer):
        writer.write(get("/stream/main_video.mjpg", HOST) + more)
        assert (await asyncio.wait_for(reader.readline(), TIMEOUT_S)).startswith(b"HTTP/1.1 200 ")
    await asyncio.to_thread(server.until, lambda: server.health()[1]["viewers"] == 0, "viewer gone")


async def test_requests_in_one_go_are_answered_in_turn(server: RunningServer) -> None:
    said = get("/live", HOST) * 20 + get("/nothing", HOST) + get("/live")
    assert await statuses(server, said) == [200] * 20 + [404, 200]


async def test_a_socket_may_follow_a_request(server: RunningServer) -> None:
    async with bare(server) as (reader, writer):
        writer.write(get("/live", HOST) + get("/ws?role=viewer", SOCKET))
        assert b" 200 OK" in await asyncio.wait_for(reader.readuntil(b"ok\n"), TIMEOUT_S)
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)
        socket = RawSocket(reader, writer)
        await socket.send(frame(PING, b"here"))
        assert await socket.until(PONG) == b"here"


async def test_a_handshake_may_come_byte_by_byte(server: RunningServer) -> None:
    async with bare(server) as (reader, writer):
        for byte in get("/ws?role=viewer", SOCKET):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)


async def test_a_client_that_goes_amid_its_handshake_leaves_nothing(server: RunningServer) -> None:
    whole = get("/ws?role=viewer", SOCKET)
    for end in range(0, len(whole), 5):
        async with bare(server) as (_, writer):
            writer.write(whole[:end])
