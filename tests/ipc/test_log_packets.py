from __future__ import annotations

import os
import select
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.ipc.log_packets import LONGEST, PacketReader, PacketWriter, Piece, PieceKind

LOGGED, PRINTED, BROKEN, TEXT = PieceKind
MARK = "5f"
LONG = "".join(f"line {number}\n" for number in range(2000))


def packets_of(text: str, kind: PieceKind = LOGGED) -> list[bytes]:
    """Return the packets of a record."""
    with tempfile.TemporaryFile("w+") as file:
        PacketWriter(file.fileno(), MARK, after=file).write(text, kind)
        file.seek(0)
        return [b"\x1e" + packet for packet in bytes(file.buffer.read()).split(b"\x1e")[1:]]


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Join consecutive pieces of printed text."""
    found: list[Piece] = []
    for kind, text in pieces:
        if kind is TEXT and found and found[-1][0] is TEXT:
            found[-1] = TEXT, found[-1][1] + text
        else:
            found.append((kind, text))
    return found


def read(data: bytes) -> list[Piece]:
    reader = PacketReader(MARK)
    return joined([*reader.read(data, may_be_cut=False), *reader.take_all()])


def test_log_lines_follow_what_was_printed_before_also_within_a_line(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w", encoding="ascii", errors="backslashreplace") as stream:
        packets = PacketWriter(stream.fileno(), MARK, after=stream)
        stream.write("loading")
        packets.write("loaded \u2713\n  all\n", LOGGED)
        stream.write(" ... done\nnext\n")
        packets.write("printed\n", PRINTED)
    assert read((tmp_path / "output").read_bytes()) == [
        (TEXT, b"loading"),
        (LOGGED, b"loaded \\u2713\n  all\n"),
        (TEXT, b" ... done\nnext\n"),
        (PRINTED, b"printed\n"),
    ]


def test_log_lines_are_written_after_the_stream_was_closed() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as ours, open(writing, "w", closefd=False) as stream:
        stream.close()
        PacketWriter(writing, MARK, after=stream).write("logged\n", LOGGED)
        os.close(writing)
        assert read(ours.read()) == [(LOGGED, b"logged\n")]


def test_a_writer_waits_for_a_full_pipe_though_the_pipe_does_not_block() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as ours, open(writing, "w") as stream:
        packets = PacketWriter(writing, MARK, after=stream)

        def write() -> None:
            packets.write(LONG * 10, LOGGED)
            stream.close()

        thread = threading.Thread(target=write)
        thread.start()
        found = ours.read()
        thread.join()
    assert read(found) == [(LOGGED, (LONG * 10).encode())]


def test_nobody_reads_what_is_written_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        PacketWriter(writing, MARK, after=stream).write(LONG, LOGGED)


def test_long_records_are_whole_whatever_comes_between_their_packets() -> None:
    one, other = packets_of(LONG), packets_of(LONG.upper(), PRINTED)
    assert len(one) == len(other) > 4
    assert max(map(len, one)) <= select.PIPE_BUF
    # As those of another process.
    other = [packet.replace(b"P%d." % os.getpid(), b"P7.") for packet in other]
    found = read(b"".join(b"%b.%b" % each for each in zip(one, other, strict=True)))
    assert [piece for piece in found if piece[0] is not TEXT] == [
        (LOGGED, LONG.encode()),
        (PRINTED, LONG.upper().encode()),
    ]
    assert b"".join(text for kind, text in found if kind is TEXT) == b"." * len(one)


@given(
    items=st.lists(
        st.tuples(st.sampled_from([LOGGED, PRINTED, TEXT]), st.text("ab\n\x1e\x1f5", min_size=1), st.booleans()),
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 20_000)),
)
def test_pieces_are_the_same_whatever_the_reads(items: list[tuple[PieceKind, str, bool]], cuts: list[int]) -> None:
    data, wanted = b"", list[Piece]()
    for kind, text, is_long in items:
        if kind is TEXT:
            data += text.encode()
            wanted.append((TEXT, text.encode()))
        else:
            lines = f"{text * (2000 if is_long else 1)}\n"
            data += b"".join(packets_of(lines, kind))
            wanted.append((kind, lines.translate({0x1E: None, 0x1F: None}).encode()))
    reader, found, begin = PacketReader(MARK), list[Piece](), 0
    for cut in [*sorted(cuts), len(data)]:
        found += reader.read(data[begin:cut], may_be_cut=cut < len(data))
        begin = min(cut, len(data))
    assert joined([*found, *reader.take_all()]) == joined(wanted)


@pytest.mark.parametrize(
    "text",
    [b"\x1e", b"\x1f", b"\x1e\x1f", b"\x1eL1.1/1 x\x1f", b"\x1e5f", b"\x1e5fL1.1/1 x", b"\x1e5fX1.1/1 x\x1f"],
)
def test_printed_text_with_control_characters_stays_as_it_is(text: bytes) -> None:
    reader = PacketReader(MARK)
    assert list(reader.read(b"a\n" + text + b"\nb\n", may_be_cut=False)) == [(TEXT, b"a\n" + text + b"\nb\n")]
    assert read(text + packets_of("logged\n")[0]) == [(TEXT, text), (LOGGED, b"logged\n")]


def test_what_there_is_of_a_record_is_kept_until_its_process_has_ended() -> None:
    *most, _ = packets_of(LONG)
    reader = PacketReader(MARK)
    assert list(reader.read(b"".join(most) + b"killed", may_be_cut=False)) == []
    begin, end = reader.take_all()
    assert (begin, end[0]) == ((TEXT, b"killed"), BROKEN)
    assert LONG.encode().startswith(end[1].removesuffix(b"\n"))
    assert list(reader.take_all()) == []
    # The next engine's record begins anew.
    assert list(reader.read(packets_of("next\n")[0], may_be_cut=False)) == [(LOGGED, b"next\n")]


def test_of_a_record_above_the_limit_nothing_is_lost() -> None:
    lines = "x" * (LONGEST + 100_000) + "\n"
    found = read(b"".join(packets_of(lines)))
    assert {kind for kind, _ in found} == {BROKEN}
    assert b"".join(text for _, text in found).replace(b"\n", b"").decode() == lines.rstrip()


def test_a_packet_that_was_cut_is_kept_though_the_text_before_it_is_taken() -> None:
    reader, packet = PacketReader(MARK), packets_of("logged\n")[0]
    assert list(reader.read(b"prompt: " + packet[:-1], may_be_cut=True)) == []
    assert list(reader.take_text()) == [(TEXT, b"prompt: ")]
    # Nothing waits that a timer could take.
    assert not reader.is_in_line
    assert list(reader.read(packet[-1:], may_be_cut=False)) == [(LOGGED, b"logged\n")]
    assert list(reader.read(packet[:-1], may_be_cut=True)) == []
    assert list(reader.take_all()) == [(TEXT, packet[:-1])]


def test_of_a_line_above_the_limit_nothing_waits_but_a_packet_that_was_cut() -> None:
    reader, packet = PacketReader(MARK), packets_of("logged\n")[0]
    line = b"x" * (LONGEST + 1)
    assert list(reader.read(line + packet[:5], may_be_cut=True)) == [(TEXT, line)]
    assert list(reader.read(packet[5:], may_be_cut=False)) == [(LOGGED, b"logged\n")]
