"""Frames as RFC 6455 allows and forbids them, over a bare socket; each is answered as it says."""

from __future__ import annotations

import asyncio
import struct

import pytest

from tests.hostile.raw import BINARY, CLOSE, CONT, MASK, PING, PONG, TEXT, closing, frame, head, raw_socket, text
from tests.processes import descriptors
from tests.server.running import RunningServer
from tests.server.test_floods import resident_kib

GREETING = text("reactor.ping", {"t": "größer, 更大, 🎬"})
FORBIDDEN = {
    "not masked": ([frame(TEXT, b"{}", masked=False)], 1002),
    "first reserved bit": ([frame(TEXT, b"{}", reserved=4)], 1002),
    "second reserved bit": ([frame(BINARY, b"{}", reserved=2)], 1002),
    "third reserved bit of a ping": ([frame(PING, reserved=1)], 1002),
    "ping of 126 bytes": ([frame(PING, b"x" * 126)], 1002),
    "pong of 64 KiB": ([frame(PONG, b"x" * 65536)], 1002),
    "close frame of 126 bytes": ([closing(1000, b"x" * 124)], 1002),
    "ping in pieces": ([frame(PING, fin=False)], 1002),
    "close frame in pieces": ([frame(CLOSE, fin=False)], 1002),
    "continuation of nothing": ([frame(CONT, b"x")], 1002),
    "continuation of a whole message": ([frame(TEXT, b"[]"), frame(CONT, b"x")], 1002),
    "text amid a text": ([frame(TEXT, b"[", fin=False), frame(TEXT, b"]")], 1002),
    "binary amid a text": ([frame(TEXT, b"[", fin=False), frame(BINARY, b"]")], 1002),
    "text amid a binary": ([frame(BINARY, b"\xff", fin=False), frame(TEXT, b"[]")], 1002),
    "length in eight bytes where one will do": ([b"\x81\xff" + struct.pack(">Q", 5) + MASK + b"hello"], 1002),
    "length in two bytes where one will do": ([b"\x81\xfe" + struct.pack(">H", 5) + MASK + b"hello"], 1002),
    "length with its highest bit set": ([head(0x82, 2**64 - 1) + MASK], 1009),
    "4 EiB announced": ([head(0x82, 2**62) + MASK], 1009),
    "a byte over the limit announced": ([head(0x82, 2**24 + 1) + MASK], 1009),
    "over the limit in pieces": ([frame(BINARY, bytes(2**23), fin=False), frame(CONT, bytes(2**23 + 1))], 1009),
    "text over its limit in pieces": ([frame(TEXT, b"[" * 2**17, fin=False), frame(CONT, b"[" * (2**17 + 1))], 1009),
    **{f"opcode {opcode}": ([frame(opcode, b"x")], 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
}
NOT_UTF8 = {
    "a byte that never is": [frame(TEXT, b"\xff")],
    "half a surrogate pair": [frame(TEXT, b'"\xed\xa0\x80"')],
    "an overlong slash": [frame(TEXT, b"\xc0\xaf")],
    "beyond the last character": [frame(TEXT, b"\xf4\x90\x80\x80")],
    "half a character": [frame(TEXT, b'{"type":"\xe6\x9b')],
    "half a character at the end of pieces": [frame(TEXT, b"\xce", fin=False), frame(CONT)],
    "wrong in the first piece": [frame(TEXT, b"\xff", fin=False), frame(CONT, b"x", fin=False), frame(CONT, b"x")],
    "latin-1 over two pieces": [frame(TEXT, b'"gr\xf6', fin=False), frame(CONT, b'\xdfer"')],
}


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_what_the_standard_forbids_ends_the_connection(server: RunningServer, name: str) -> None:
    frames, code = FORBIDDEN[name]
    async with raw_socket(server) as socket:
        await socket.send(*frames)
        assert await socket.close_code() in (code, 0 if len(frames[0]) > 2**22 else code)  # 0: still sending


@pytest.mark.parametrize("name", NOT_UTF8)
async def test_text_that_is_not_utf_8_ends_the_connection(server: RunningServer, name: str) -> None:
    async with raw_socket(server) as socket:
        await socket.send(*NOT_UTF8[name])
        assert await socket.close_code() == 1007


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_text_may_come_in_pieces_that_cut_characters_in_two(server: RunningServer, size: int) -> None:
    pieces = [GREETING[start : start + size] for start in range(0, len(GREETING), size)]
    async with raw_socket(server) as socket:
        await socket.send(frame(TEXT, pieces[0], fin=False))
        for piece in pieces[1:]:
            await socket.send(frame(CONT, piece, fin=False))
        await socket.send(frame(CONT))
        assert (await socket.message("reactor.pong"))["t"] == "größer, 更大, 🎬"


async def test_control_frames_may_come_between_pieces(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(TEXT, GREETING[:9], fin=False), frame(PING, b"between"))
        assert await socket.until(PONG) == b"between"
        await socket.send(frame(PONG, b"unasked for"), frame(CONT, GREETING[9:], fin=False), frame(PING, b"again"))
        assert await socket.until(PONG) == b"again"
        await socket.send(frame(CONT))
        await socket.message("reactor.pong")


async def test_a_binary_message_may_come_in_pieces(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(BINARY, fin=False), frame(CONT, b"\xff\xd8", fin=False), frame(CONT, b"\xff"))
        assert (await socket.message("reactor.error"))["code"] == "not_controller"


@pytest.mark.parametrize("payload", [b"", b"a", b"\0\xff" * 62, b"x" * 125], ids=len)
async def test_a_ping_comes_back_as_it_is(server: RunningServer, payload: bytes) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(PING, payload))
        assert await socket.until(PONG) == payload


async def test_a_hundred_pings_in_one_go_come_back_in_their_order(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(*(frame(PING, struct.pack(">I", number)) for number in range(100)))
        assert [struct.unpack(">I", await socket.until(PONG))[0] for _ in range(100)] == list(range(100))


async def test_frames_may_come_byte_by_byte(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        for byte in frame(TEXT, GREETING) + frame(PING, b"slow"):
            await socket.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await socket.until(PONG) == b"slow"


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
async def test_a_close_frame_is_answered_with_its_code(server: RunningServer, code: int) -> None:
    async with raw_socket(server) as socket:
        await socket.send(closing(code, "Tschüß".encode()))
        assert await socket.close_code() == code


async def test_a_close_frame_without_a_code_is_answered_without_one(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(CLOSE))
        assert await socket.close_code() is None


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535])
async def test_a_close_code_nobody_may_send_is_a_fault(server: RunningServer, code: int) -> None:
    async with raw_socket(server) as socket:
        await socket.send(closing(code))
        assert await socket.close_code() == 1002


@pytest.mark.parametrize(
    ("payload", "code"), [(b"\x03", 1002), (b"\x03\xe8\xff", 1007), (b"\x03\xe8\xed\xa0\x80", 1007)]
)
async def test_a_close_frame_that_can_not_be_read_is_a_fault(server: RunningServer, payload: bytes, code: int) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(CLOSE, payload))
        assert await socket.close_code() == code


async def test_after_a_close_frame_nothing_is_heard(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(closing(1000), frame(PING, b"late"), frame(TEXT, GREETING), closing(1001), frame(15, b"?"))
        assert await socket.close_code() == 1000


async def test_a_client_that_closes_its_half_is_let_go(server: RunningServer) -> None:
    for before in ((), (frame(TEXT, GREETING),), (frame(TEXT, b"[", fin=False),), (head(0x82, 1000) + MASK + b"x",)):
        async with raw_socket(server) as socket:
            await socket.send(*before)
            socket.writer.write_eof()
            assert await socket.close_code() == 0


async def test_a_message_that_is_announced_and_does_not_come_costs_no_memory(server: RunningServer) -> None:
    before, held = resident_kib(server), descriptors(server.process.pid)
    sockets = [raw_socket(server) for _ in range(30)]
    for socket in [await each.__aenter__() for each in sockets]:
        await socket.send(head(0x82, 2**24) + MASK + b"only this")
    async with raw_socket(server) as other:
        await other.send(frame(PING, b"and others?"))
        assert await other.until(PONG) == b"and others?"
    assert resident_kib(server) - before < 16 * 1024
    for each in sockets:
        await each.__aexit__(None, None, None)
    await asyncio.to_thread(server.until, lambda: descriptors(server.process.pid) <= held, "descriptors back")


async def test_a_client_that_answers_no_close_frame_is_not_waited_for(server: RunningServer) -> None:
    async with raw_socket(server) as socket:
        await socket.send(frame(TEXT, b"x" * (256 * 1024 + 1)))
        assert await socket.close_code() == 1009  # and then the end, though nothing more is said here
