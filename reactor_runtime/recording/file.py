"""Recordings as MCAP files: `RecordingWriter` appends entries, `read_recording` reads all that a file holds.

The file is written without chunks, so that each entry can be read as soon as it is written: a process that is killed
leaves a file that lacks only the entries it had not written.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np

from reactor_runtime.errors import UsageError
from reactor_runtime.recording.entries import (
    EndEntry,
    Entry,
    ErrorEntry,
    EventEntry,
    FrameEntry,
    Header,
    KeptEntry,
    MessageEntry,
    OutputEntry,
    ReadEntry,
    ReloadEntry,
    UploadEntry,
)

EXTRA = "record"
# Files of format 1 have no reloads and no errors.
FORMAT = 2
OLDER_FORMATS = (1,)
_HEADER = "reactor.session"
_JSON = "json"
_TOPICS: dict[type, str] = {
    EventEntry: "/events",
    ReadEntry: "/reads",
    ReloadEntry: "/reloads",
    ErrorEntry: "/errors",
    MessageEntry: "/messages",
    OutputEntry: "/outputs",
    FrameEntry: "/frames",
    EndEntry: "/end",
    KeptEntry: "/kept",
}
_MEDIA = "/media/"
_PIXELS = "/pixels/"


def require_extra() -> None:
    """Raise UsageError if the libraries that recordings need are not installed."""
    missing = [name for name in ("mcap", "xxhash", "zstandard") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"recordings need {', '.join(missing)}",
            hint=f"pip install 'reactor-live[{EXTRA}]'",
        )


class RecordingWriter:
    """Append the entries of a session to an open file, which the caller flushes and closes."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        import zstandard
        from mcap.writer import Writer

        self._writer = Writer(file, use_chunking=False)
        self._writer.start(profile="reactor", library="reactor-live")
        self._channels: dict[str, int] = {}
        self._media = 0
        self._compressor = zstandard.ZstdCompressor(level=1)
        values = asdict(header)
        self._writer.add_metadata(
            _HEADER, {"format": str(FORMAT), **{key: json.dumps(value) for key, value in values.items()}}
        )

    def write(self, entry: Entry, time_ns: int) -> None:
        """Append an entry of this time, in nanoseconds since the epoch."""
        match entry:
            case UploadEntry():
                self._writer.add_attachment(
                    time_ns, time_ns, f"{entry.id}/{entry.name}", entry.content_type, entry.content
                )
            case ReadEntry():
                numbers = [self._add_media(entry.track, file, time_ns) for file in entry.files]
                self._add_json(entry, {**asdict(entry), "files": numbers}, time_ns)
            case FrameEntry():
                pixels = self._compressor.compress(np.ascontiguousarray(entry.pixels).tobytes())
                self._add(f"{_PIXELS}{entry.track}", "zstd", pixels, time_ns)
                shape = list(entry.pixels.shape)
                self._add_json(entry, {"track": entry.track, "frame": entry.frame, "shape": shape}, time_ns)
            case _:
                self._add_json(entry, asdict(entry), time_ns)

    def finish(self) -> None:
        """Append the index, with which other programs open the file faster."""
        self._writer.finish()  # type: ignore[no-untyped-call]  # it has no annotations

    def _add_media(self, track: str, file: bytes, time_ns: int) -> int:
        self._media += 1
        self._add(f"{_MEDIA}{track}", "", file, time_ns, self._media)
        return self._media

    def _add_json(self, entry: Entry, values: dict[str, Any], time_ns: int) -> None:
        self._add(_TOPICS[type(entry)], _JSON, json.dumps(values, separators=(",", ":")).encode(), time_ns)

    def _add(self, topic: str, encoding: str, content: bytes, time_ns: int, sequence: int = 0) -> None:
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(topic, encoding, schema_id=0)
        self._writer.add_message(self._channels[topic], time_ns, content, time_ns, sequence)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Hold the place of an image or a piece of sound in a recording."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredRead:
    """Hold a `ReadEntry` whose files are still in the recording, and the number of `reloads` before it."""

    step: int
    track: str
    call: int
    files: tuple[StoredFile, ...]
    reloads: int = 0


@dataclass(frozen=True, slots=True)
class StoredReload:
    """Hold a `ReloadEntry`, and the numbers of `events`, `outputs` and `messages` before it.

    `changed` are the files of the project that had changed.
    """

    entry: ReloadEntry
    events: int
    outputs: int
    messages: int = 0
    changed: tuple[str, ...] = ()

    @property
    def step(self) -> int:
        return self.entry.step


@dataclass(slots=True)
class SessionRecording:
    """Hold a recording without its images, sound and pixels, which `load()` and `frames()` read.

    `end` is None for a file whose writing was interrupted; it holds the session up to then. `complete`: the file ends
    with the end of the session, or where the controller kept it. `output_times_s` are Unix times, one for each output.
    """

    path: Path
    header: Header
    events: list[EventEntry] = field(default_factory=list)
    reloads: list[StoredReload] = field(default_factory=list)
    reads: list[StoredRead] = field(default_factory=list)
    uploads: list[UploadEntry] = field(default_factory=list)
    messages: list[MessageEntry] = field(default_factory=list)
    outputs: list[OutputEntry] = field(default_factory=list)
    output_times_s: list[float] = field(default_factory=list)
    kept: list[KeptEntry] = field(default_factory=list)
    errors: list[ErrorEntry] = field(default_factory=list)
    end: EndEntry | None = None
    has_frames: bool = False
    complete: bool = False

    @property
    def steps(self) -> int:
        """Return the number of steps that a replay makes: those up to the last entry."""
        lists = (self.events, self.reloads, self.reads, self.outputs, self.errors, [self.end] if self.end else [])
        return max((entries[-1].step for entries in lists if entries), default=0)

    @property
    def inputs(self) -> list[EventEntry | StoredReload]:
        """Return the events and the reloads in the order in which they came."""
        inputs: list[EventEntry | StoredReload] = list(self.events)
        for before, reload in enumerate(self.reloads):
            inputs.insert(before + reload.events, reload)
        return inputs

    @property
    def files(self) -> dict[str, str]:
        """Return the hashes of the project's files that were used last."""
        return self.reloads[-1].entry.files if self.reloads else self.header.files

    @property
    def code_changes(self) -> list[StoredReload]:
        """Return the reloads that changed files of the project."""
        return [reload for reload in self.reloads if reload.changed]

    def load(self, file: StoredFile) -> bytes:
        """Read an image or a piece of sound from the file."""
        with self.path.open("rb") as opened:
            return os.pread(opened.fileno(), file.size_bytes, file.offset)

    def frames(self) -> Iterator[FrameEntry]:
        """Read the recorded frames from the file, in order; raise UsageError at one that is damaged."""
        with _refusing_damage(self.path):
            yield from _frames(self.path)


def read_recording(path: Path) -> SessionRecording:
    """Read a recording, up to where it was interrupted; raise UsageError if it is not a recording or is damaged."""
    require_extra()
    with _refusing_damage(path):
        recording = _read(path)
    if recording is None:
        raise UsageError(f"{path} is not a recording of a session", hint="`reactor run --record DIR` makes them")
    if not recording.complete and _is_finished(path):
        raise UsageError(f"{path} is damaged: what follows step {recording.steps} can't be read")
    return recording


def _is_finished(path: Path) -> bool:
    """Return whether a file has its end, so that it has all entries."""
    from mcap.writer import MCAP0_MAGIC

    with path.open("rb") as file:
        file.seek(-len(MCAP0_MAGIC), os.SEEK_END)
        return file.read() == MCAP0_MAGIC


@contextlib.contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    import zstandard

    try:
        yield
    # Any byte may be wrong, and so any value.
    except (
        ArithmeticError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
        struct.error,
        zstandard.ZstdError,
    ) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _frames(path: Path) -> Iterator[FrameEntry]:
    pixels = b""
    for record in _records(path):
        if not isinstance(record, _Message):
            continue
        if record.topic.startswith(_PIXELS):
            pixels = record.content
        elif record.topic == _TOPICS[FrameEntry]:
            values = json.loads(record.content)
            yield FrameEntry(values["track"], values["frame"], _decompress(pixels, values["shape"]))


def _read(path: Path) -> SessionRecording | None:
    recording: SessionRecording | None = None
    media: dict[int, StoredFile] = {}
    for record in _records(path):
        if recording is None:
            if (header := _header(path, record)) is not None:
                recording = SessionRecording(path, header)
        elif isinstance(record, UploadEntry):
            recording.uploads.append(record)
        elif isinstance(record, _Message):
            _add_message(recording, record, media)
    return recording


@dataclass(frozen=True, slots=True)
class _Message:
    topic: str
    content: bytes
    offset: int
    sequence: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class _Metadata:
    name: str
    values: dict[str, str]


def _add_message(recording: SessionRecording, message: _Message, media: dict[int, StoredFile]) -> None:
    recording.complete = message.topic in (_TOPICS[EndEntry], _TOPICS[KeptEntry])
    if message.topic.startswith(_MEDIA):
        media[message.sequence] = StoredFile(message.offset, len(message.content))
        return
    if message.topic.startswith(_PIXELS):
        recording.has_frames = True
        return
    if message.topic == _TOPICS[FrameEntry]:
        return
    values = json.loads(message.content)
    if message.topic == "/events":
        recording.events.append(EventEntry(**values))
    elif message.topic == "/reads":
        values["files"] = tuple(media.pop(number) for number in values["files"])
        recording.reads.append(StoredRead(**values, reloads=len(recording.reloads)))
    elif message.topic == "/reloads":
        _add_reload(recording, ReloadEntry(**values))
    elif message.topic == "/errors":
        recording.errors.append(ErrorEntry(**values))
    elif message.topic == "/messages":
        recording.messages.append(MessageEntry(**values))
    elif message.topic == "/outputs":
        recording.outputs.append(OutputEntry(**values))
        recording.output_times_s.append(message.time_ns / 1e9)
    elif message.topic == "/kept":
        recording.kept.append(KeptEntry(**values))
    elif message.topic == "/end":
        recording.end = EndEntry(**values)


def _add_reload(recording: SessionRecording, entry: ReloadEntry) -> None:
    if entry.kind == "reverted" and recording.reloads:
        _discard_trial(recording)
    before, files = recording.files, entry.files
    changed = tuple(sorted(name for name in {*before, *files} if before.get(name) != files.get(name)))
    counts = len(recording.events), len(recording.outputs), len(recording.messages)
    recording.reloads.append(StoredReload(entry, *counts, changed))


def _discard_trial(recording: SessionRecording) -> None:
    """Discard the model that was loaded for code whose first step failed, and the messages of that step."""
    last = recording.reloads[-1]
    recording.reloads[-1] = replace(last, entry=replace(last.entry, kind="applied"))
    # A handler may have sent those after an event.
    if len(recording.events) == last.events:
        del recording.messages[last.messages :]


def _header(path: Path, record: object) -> Header | None:
    if not isinstance(record, _Metadata) or record.name != _HEADER:
        return None
    values = {key: json.loads(value) for key, value in record.values.items()}
    if values.pop("format") not in (FORMAT, *OLDER_FORMATS):
        raise UsageError(
            f"{path} was written by another version of Reactor", hint="replay it with the version that recorded it"
        )
    return Header(**values)


def _records(path: Path) -> Iterator[_Message | _Metadata | UploadEntry]:
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
        whole = _WholeReads(file)
        reader = iter(StreamReader(cast("IO[bytes]", whole), record_size_limit=path.stat().st_size).records)
        while True:
            try:
                record = next(reader, None)
            # The file ends in a record, because its writer was killed or the disk was full.
            except McapError:
                return
            match record:
                case None:
                    return
                case records.Channel():
                    topics[record.id] = record.topic
                case records.Message():
                    offset = file.tell() - len(record.data)
                    topic = topics[record.channel_id]
                    yield _Message(topic, record.data, offset, record.sequence, record.log_time)
                case records.Metadata():
                    yield _Metadata(record.name, record.metadata)
                case records.Attachment():
                    id, _, name = record.name.partition("/")
                    yield UploadEntry(id, name, record.media_type, record.data)


class _WholeReads:
    """Raise EndOfFile on a short read; MCAP's reader would accept a truncated record."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        from mcap.exceptions import EndOfFile

        content = self._file.read(size)
        if len(content) < size:
            raise EndOfFile
        return content


def _decompress(pixels: bytes, shape: list[int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    import zstandard

    return np.frombuffer(zstandard.ZstdDecompressor().decompress(pixels), np.uint8).reshape(shape)


def encode_array(array: np.ndarray[Any, Any]) -> bytes:
    """Encode an array as `.npy`, for an item that has no file of a client."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def decode_array(file: bytes) -> np.ndarray[Any, Any]:
    """Return the array of an `.npy` file."""
    loaded: np.ndarray[Any, Any] = np.load(io.BytesIO(file), allow_pickle=False)
    return loaded


def hash_file(path: Path) -> str | None:
    """Return a hash of a file's content; None if it can't be read."""
    try:
        return hash_content(path.read_bytes())
    except OSError:
        return None


def hash_content(content: bytes) -> str:
    """Return a hash of the content of a file."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()
