from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from reactor_runtime.server.net.limits import Budget
from reactor_runtime.server.net.message_reader import MOST_PIECES, Allowance, MessageReader, Violation

MOST = 200_000
KEPT = 100_000


class Received:
    """Keeps messages and control frames."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes | None, int, bool]] = []
        self.controls: list[bytes] = []
        self.continuations = 0

    def allowance(self, *, is_text: bool) -> Allowance:
        return Allowance(10, 10, "too long a text") if is_text else Allowance(MOST, KEPT, "too large")

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:
        self.messages.append((message, size, is_text))

    def on_control(self, frame: bytes) -> None:
        self.controls.append(frame)

    def on_continuation(self) -> None:
        self.continuations += 1


class Line:
    """A reader with its budget, and what it has read."""

    def __init__(self, budget: int = MOST) -> None:
        self.received = Received()
        self.budget = Budget(budget)
        self.reader = MessageReader(self.received, self.budget)

    def read(self, data: bytes) -> None:
        self.reader.feed(data)
        while self.reader.step():
            pass

    def refused(self, data: bytes) -> tuple[int, str]:
        with pytest.raises(Violation) as caught:
            self.read(data)
        return caught.value.code, caught.value.message


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


@given(
    st.lists(st.binary(max_size=300) | st.integers(125, 70_000).map(bytes), max_size=4),
    st.lists(st.integers(1, 50_000), max_size=6),
)
def test_messages_are_read_however_their_bytes_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    line = Line()
    stream = b"".join(masked(Opcode.BINARY, message) for message in messages)
    for cut in cuts:
        line.read(stream[:cut])
        stream = stream[cut:]
    line.read(stream)
    assert line.received.messages == [(message, len(message), False) for message in messages]
    assert not line.reader.is_partial
    assert line.budget.left == MOST


def test_a_fragmented_message_is_joined_across_control_frames() -> None:
    line = Line()
    ping = masked(Opcode.PING, b"there?")
    line.read(masked(Opcode.TEXT, b"one ", fin=False) + ping + masked(Opcode.CONT, b"", fin=False))
    assert line.reader.is_partial
    assert (line.received.controls, line.received.messages) == ([ping], [])
    line.read(masked(Opcode.CONT, b"text"))
    assert line.received.messages == [(b"one text", 8, True)]
    assert line.received.continuations == 2


def test_an_empty_last_piece_ends_a_message() -> None:
    line = Line()
    line.read(masked(Opcode.BINARY, b"a", fin=False) + masked(Opcode.CONT, b"") + masked(Opcode.BINARY, b""))
    assert line.received.messages == [(b"a", 1, False), (b"", 0, False)]


def test_a_whole_message_between_the_pieces_of_another_is_refused() -> None:
    line = Line()
    line.read(masked(Opcode.BINARY, b"a", fin=False))
    assert line.refused(masked(Opcode.BINARY, b"b")) == (1002, "expected a continuation frame")
    assert line.received.messages == []


def test_a_message_of_the_largest_size_is_kept() -> None:
    line = Line()
    line.read(masked(Opcode.TEXT, b"0123456789"))
    line.read(masked(Opcode.TEXT, b"01234", fin=False) + masked(Opcode.CONT, b"56789"))
    assert line.received.messages == [(b"0123456789", 10, True)] * 2


HEAD = {
    "length of two bytes": (b"\x82\xfe" + struct.pack(">H", 125), "as few bytes as possible"),
    "length of eight bytes": (b"\x82\xff" + struct.pack(">Q", 65_535), "as few bytes as possible"),
    "length of a text": (b"\x81\xfe" + struct.pack(">H", 1), "as few bytes as possible"),
    "no mask": (b"\x82\x01", "masking"),
    "reserved bit": (b"\xc2\x81", "reserved"),
    "reserved opcode": (b"\x83\x81", "opcode"),
    "reserved control opcode": (b"\x8b\x80", "opcode"),
    "long control frame": (b"\x89\xfe", "too long"),
    "control frame in pieces": (b"\x09\x80", "fragmented"),
    "continuation of nothing": (b"\x80\x80", "unexpected continuation"),
}


@pytest.mark.parametrize("name", HEAD)
def test_an_invalid_frame_is_refused_at_its_header(name: str) -> None:
    head, reason = HEAD[name]
    code, message = Line().refused(head + bytes(4))
    assert code == 1002
    assert reason in message


@pytest.mark.parametrize("size", [126, 65_535, 65_536])
def test_a_length_in_the_fewest_bytes_is_accepted(size: int) -> None:
    line = Line()
    line.read(masked(Opcode.BINARY, bytes(size)))
    assert line.received.messages == [(bytes(size), size, False)]


def test_a_message_that_is_too_large_is_refused_at_its_header() -> None:
    assert Line().refused(b"\x82\xff" + struct.pack(">Q", MOST + 1) + bytes(4)) == (1009, "too large")
    assert Line().refused(b"\x81\x8b" + bytes(4)) == (1009, "too long a text")


def test_the_fragments_of_a_message_are_limited_together() -> None:
    half = masked(Opcode.BINARY, bytes(MOST // 2), fin=False)
    assert Line().refused(half + masked(Opcode.CONT, bytes(MOST // 2), fin=False) + half) == (
        1002,
        "expected a continuation frame",
    )
    more = masked(Opcode.CONT, bytes(MOST // 2), fin=False)
    assert Line().refused(half + more + more) == (1009, "too large")


def test_a_message_that_is_not_kept_uses_no_memory() -> None:
    line = Line(budget=KEPT)
    line.read(masked(Opcode.BINARY, bytes(KEPT + 1))[:-1])
    assert line.budget.left == KEPT
    line.read(b"\0")
    assert line.received.messages == [(None, KEPT + 1, False)]


def test_the_pieces_of_a_message_that_is_not_kept_use_no_memory() -> None:
    line = Line()
    line.read(masked(Opcode.BINARY, bytes(KEPT), fin=False))
    assert line.budget.left == MOST - KEPT
    line.read(masked(Opcode.CONT, b"a", fin=False))
    assert line.budget.left == MOST
    line.read(masked(Opcode.CONT, b"b"))
    assert line.received.messages == [(None, KEPT + 2, False)]


def test_unfinished_messages_of_all_clients_share_one_budget() -> None:
    line, other, third = Line(budget=100), Line(), Line()
    other.reader = MessageReader(other.received, line.budget)
    third.reader = MessageReader(third.received, line.budget)
    line.read(masked(Opcode.BINARY, bytes(80))[:-1])
    code, reason = other.refused(masked(Opcode.BINARY, bytes(50))[:-1])
    assert code == 1013
    assert "too many large messages" in reason
    line.reader.clear()
    assert not line.reader.is_partial
    assert line.budget.left == 100
    third.read(masked(Opcode.BINARY, bytes(50)))


def test_a_message_in_more_than_65536_pieces_is_refused() -> None:
    line = Line()
    line.read(masked(Opcode.BINARY, b"", fin=False) + masked(Opcode.CONT, b"") + masked(Opcode.BINARY, b"", fin=False))
    line.read(masked(Opcode.CONT, b"", fin=False) * (MOST_PIECES - 1))
    assert line.refused(masked(Opcode.CONT, b"", fin=False)) == (1009, f"a message may come in {MOST_PIECES} pieces")


def test_a_large_message_is_read_in_pieces_of_64_kib() -> None:
    line = Line()
    line.reader.feed(masked(Opcode.BINARY, bytes(KEPT)))
    assert line.reader.step()
    assert line.received.messages == []
    assert line.reader.step()
    assert len(line.received.messages) == 1


def test_an_unfinished_message_is_distinguished_from_the_next() -> None:
    line, ping = Line(), masked(Opcode.PING, b"")
    line.read(masked(Opcode.TEXT, b"a") + b"\x01")
    assert (line.reader.is_partial, line.reader.ended) == (True, 1)
    line.read(b"\x80" + bytes(4) + ping)
    assert (line.reader.is_partial, line.reader.ended) == (True, 1)
    line.read(masked(Opcode.CONT, b"b") + ping[:3])
    assert (line.reader.is_partial, line.reader.ended) == (True, 2)
    line.read(ping[3:])
    assert (line.reader.is_partial, line.reader.ended) == (False, 3)
