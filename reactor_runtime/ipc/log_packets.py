"""Carries an engine's log lines through the pipe of what it prints, in packets, and so in their order with the prints.

A packet is written at once and whole: it may interrupt a printed line, but no other output interrupts a packet.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import select
from collections.abc import Iterator
from enum import Enum
from typing import TextIO, TypeAlias

LONGEST = 1 << 20
MARK_BYTES = 8
_BEGIN, _END = b"\x1e", b"\x1f"
# A longer write to a pipe may be interrupted.
_PACKET_BYTES = select.PIPE_BUF
# More than what is around the text of a packet.
_HEAD_BYTES = 80
_PART_BYTES = _PACKET_BYTES - _HEAD_BYTES


def new_mark() -> str:
    """Return what begins the packets of one pipe, and no printed text."""
    return secrets.token_hex(MARK_BYTES)


class PieceKind(Enum):
    """The kinds of output of an engine."""

    # Lines of the log.
    LOGGED = b"L"
    # Printed lines, which the engine has made lines of a JSON log.
    PRINTED = b"P"
    # Lines of a log record of which other packets are missing.
    BROKEN = b"B"
    # Printed text, which may begin and end within a line.
    TEXT = b"T"


Piece: TypeAlias = tuple[PieceKind, bytes]


class PacketWriter:
    """Write log lines as packets to a pipe, after what a stream to the same pipe holds; use on one thread at a time.

    Processes that the engine forks may write too.
    """

    def __init__(self, fd: int, mark: str, *, after: TextIO) -> None:
        self._fd = fd
        self._stream = after
        self._begin = _BEGIN + mark.encode()
        self._numbers = itertools.count()

    def write(self, lines: str, kind: PieceKind) -> None:
        """Write the lines of one log record; drop them if nobody reads the pipe."""
        # The model may have closed it.
        with contextlib.suppress(ValueError):
            self._stream.flush()
        # A formatter of the author's may use the control characters.
        text = lines.encode(self._stream.encoding, self._stream.errors or "strict").translate(None, _BEGIN + _END)
        parts = [text[begin : begin + _PART_BYTES] for begin in range(0, len(text), _PART_BYTES)]
        head = b"%b%b%d.%d/%d " % (self._begin, kind.value, os.getpid(), next(self._numbers), len(parts))
        with contextlib.suppress(OSError):
            for part in parts:
                self._write_packet(head + part + _END)

    def _write_packet(self, packet: bytes) -> None:
        while True:
            try:
                os.write(self._fd, packet)
            # A program that the model has started may make the pipe non-blocking for all.
            except BlockingIOError:
                select.select([], [self._fd], [])
            else:
                return


class PacketReader:
    """Find packets in what was read from a pipe, wherever they begin, and join those of a record. Pure.

    Keeps up to 1 MiB of text without a line end, and of records.
    """

    def __init__(self, mark: str) -> None:
        # The kind, the process and the number of the record, its number of packets, and its text or a part of that.
        self._packet = re.compile(rb"\x1e%b([LP])(\d+\.\d+)/(\d+) ([^\x1e\x1f]*)\x1f" % mark.encode())
        # The text after the last line end, and the begin of a packet after that.
        self._rest = self._cut = b""
        self._records: dict[bytes, list[bytes]] = {}
        self._kept = 0

    @property
    def is_in_line(self) -> bool:
        """Return whether printed text waits for its line end."""
        return bool(self._rest)

    def read(self, data: bytes, *, may_be_cut: bool) -> Iterator[Piece]:
        """Yield the pieces of the data and of what was kept, without the last line if it has no end.

        `may_be_cut` is whether the last packet may be incomplete, because the pipe had more to read.
        """
        *found, text = self._packet.split(self._rest + self._cut + data)
        for before, kind, record, parts, part in zip(*(found[field::5] for field in range(5)), strict=True):
            if before:
                yield PieceKind.TEXT, before
            yield from self._add_part(PieceKind(kind), record, int(parts), part)
        cut = text.rfind(_BEGIN, -_PACKET_BYTES) if may_be_cut else -1
        text, self._cut = (text, b"") if cut < 0 else (text[:cut], text[cut:])
        whole, end, self._rest = text.rpartition(b"\n")
        if whole or end:
            yield PieceKind.TEXT, whole + end
        if len(self._rest) > LONGEST:
            yield from self.take_text()

    def take_text(self) -> Iterator[Piece]:
        """Yield the printed text that waits for its line end."""
        text, self._rest = self._rest, b""
        if text:
            yield PieceKind.TEXT, text

    def take_all(self) -> Iterator[Piece]:
        """Yield all that was kept: the processes that wrote it have ended."""
        self._rest, self._cut = self._rest + self._cut, b""
        yield from self.take_text()
        yield from self._take_records()

    def _add_part(self, kind: PieceKind, record: bytes, parts: int, part: bytes) -> Iterator[Piece]:
        if parts == 1:
            yield kind, part
            return
        collected = self._records.setdefault(record, [])
        collected.append(part)
        self._kept += _PACKET_BYTES
        if len(collected) == parts:
            self._kept -= _PACKET_BYTES * parts
            yield kind, b"".join(self._records.pop(record))
        elif self._kept > LONGEST:
            yield from self._take_records()

    def _take_records(self) -> Iterator[Piece]:
        records, self._records, self._kept = self._records, {}, 0
        for parts in records.values():
            yield PieceKind.BROKEN, b"%b\n" % b"".join(parts).removesuffix(b"\n")
