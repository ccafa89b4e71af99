"""The records of an MCAP file that may come from anyone: a size that exceeds the file is refused, not allocated."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from pydantic import ValidationError

from reactor_runtime.errors import UsageError
from reactor_runtime.recording.entries import UploadEntry

FIX = "get the file again from where it was recorded, or record the session again"
MOST_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class MessageRecord:
    topic: str
    content: bytes
    offset: int
    sequence: int

    @property
    def place(self) -> str:
        return f"byte {self.offset}, in {self.topic[:MOST_CHARACTERS]}"


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    name: str
    values: dict[str, str]
    place: str


@dataclass(frozen=True, slots=True)
class AttachmentRecord:
    entry: UploadEntry
    place: str


Record = MessageRecord | MetadataRecord | AttachmentRecord


def read_records(path: Path) -> Iterator[Record]:
    """Read records up to the end, or to the first that is incomplete."""
    from mcap import records
    from mcap.exceptions import McapError
    from mcap.stream_reader import StreamReader

    topics: dict[int, str] = {}
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    with file:
        size_bytes = path.stat().st_size
        whole = cast("IO[bytes]", _WholeReads(file, size_bytes))
        reader = iter(StreamReader(whole, emit_chunks=True, record_size_limit=size_bytes).records)
        while True:
            at = file.tell()
            try:
                with refusing_damage(path, f"byte {at}"):
                    record = next(reader, None)
                    if isinstance(record, records.Chunk):
                        raise ValueError("the file has chunks, as other programs write; a recording has none")
                    read = None if record is None else _read_record(record, topics, file.tell())
            # The file ends in a record, because its writer was killed or the disk was full.
            except McapError:
                return
            if record is None:
                return
            if read is not None:
                yield read


def _read_record(record: object, topics: dict[int, str], end: int) -> Record | None:
    """Return a record of the session, which ends at a place in the file; None for the others."""
    from mcap import records

    match record:
        case records.Channel():
            topics[record.id] = record.topic
        case records.Message():
            offset = end - len(record.data)
            return MessageRecord(topics[record.channel_id], record.data, offset, record.sequence)
        case records.Metadata():
            return MetadataRecord(record.name, record.metadata, f"byte {end}, the end of the session's description")
        case records.Attachment():
            id, _, name = record.name.partition("/")
            return AttachmentRecord(UploadEntry(id, _file_name(name), record.media_type, record.data), f"byte {end}")
    return None


def _file_name(name: str) -> str:
    """Return the name of an uploaded file without directories, as the server does: a model may save it there."""
    last = re.split(r"[/\\]", name)[-1]
    return "" if last in (".", "..") or not last.isprintable() else last


class _WholeReads:
    """Read exactly the size that is asked for, or raise EndOfFile; MCAP's reader would accept a truncated record."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes

    def read(self, size: int) -> bytes:
        from mcap.exceptions import EndOfFile

        if size < 0:
            raise ValueError("a record is shorter than its fields")
        # A file may announce more than there is memory for.
        if size > self._size_bytes - self._file.tell():
            raise EndOfFile
        return self._file.read(size)


def is_finished(path: Path) -> bool:
    """Return whether a file has its end, so that it has all entries."""
    from mcap.writer import MCAP0_MAGIC

    with path.open("rb") as file:
        file.seek(-len(MCAP0_MAGIC), os.SEEK_END)
        return file.read() == MCAP0_MAGIC


@contextlib.contextmanager
def refusing_damage(path: Path, place: str) -> Iterator[None]:
    import zstandard

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = ".".join(map(str, first["loc"]))[:MOST_CHARACTERS]
        raise _damaged(path, place, f"{why}: {first['msg']}" if why else first["msg"]) from None
    # Any byte may be wrong, and so any value and any exception.
    except (
        ArithmeticError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
        zstandard.ZstdError,
    ) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise _damaged(path, place, f"{kind}{error}") from error


def _damaged(path: Path, place: str, why: str) -> UsageError:
    return UsageError(f"{path} is damaged at {place}: {why[: 2 * MOST_CHARACTERS]}", hint=FIX)
