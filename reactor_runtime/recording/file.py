"""Recordings as MCAP files: `RecordingWriter` appends entries, `read_recording` reads all that a file holds.

The file is written without chunks, so that each entry can be read as soon as it is written: a process that is killed
leaves a file that lacks only the entries it had not written.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter
from pydantic_core import from_json

from reactor_runtime.errors import UsageError
from reactor_runtime.recording.configs import parse_config
from reactor_runtime.recording.contracts import check_contract, kinds_of
from reactor_runtime.recording.entries import (
    Count,
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
    SentValues,
    UploadEntry,
    check_shape,
    name_of,
    shape_of,
)
from reactor_runtime.recording.pieces import OWN_QUALITY
from reactor_runtime.recording.records import (
    FIX,
    MOST_CHARACTERS,
    AttachmentRecord,
    MessageRecord,
    MetadataRecord,
    Record,
    is_finished,
    read_records,
    refusing_damage,
)

EXTRA = "record"
# Files of format 1 have no reloads and no errors, those of format 2 no JPEGs of the output.
FORMAT = 3
OLDER_FORMATS = (1, 2)
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype>\|u1|<i2)', 'fortran_order': (?P<is_fortran>True|False), "
    rb"'shape': \((?P<shape>[\d, ]{1,40})\), \} *\n",
    re.DOTALL,
)
_RANKS = {"video": 3, "audio": 2}
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
                self._add_frame(entry, time_ns)
            case _:
                self._add_json(entry, asdict(entry), time_ns)

    def finish(self) -> None:
        """Append the index, with which other programs open the file faster."""
        self._writer.finish()  # type: ignore[no-untyped-call]  # it has no annotations

    def _add_frame(self, entry: FrameEntry, time_ns: int) -> None:
        topic, place = f"{_PIXELS}{entry.track}", {"track": entry.track, "frame": entry.frame}
        if isinstance(entry.content, bytes):
            self._add(topic, "jpeg", entry.content, time_ns)
            self._add_json(entry, {**place, "quality": entry.quality}, time_ns)
            return
        pixels = self._compressor.compress(np.ascontiguousarray(entry.content).data.cast("B"))
        self._add(topic, "zstd", pixels, time_ns)
        self._add_json(entry, {**place, "shape": list(entry.content.shape)}, time_ns)

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
class StoredFrame:
    """Hold the place of a frame of the output in a recording: a JPEG of this `quality`, or the pixels of a `shape`.

    `recorded_at` is the place of its entry, for an error.
    """

    file: StoredFile
    recorded_at: str
    quality: int = 0
    shape: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class StoredRead:
    """Hold a `ReadEntry` whose files are still in the recording, and the number of `reloads` before it."""

    step: int
    track: str
    call: int
    files: tuple[StoredFile, ...]
    reloads: int = 0
    sent: tuple[SentValues, ...] = ()


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
    """Hold a recording without its images, sound and pixels, which `load()`, `frame()` and `frames()` read.

    `end` is None for a file whose writing was interrupted; it holds the session up to then. `complete`: the file ends
    with the end of the session, or where the controller kept it. `stored_frames` are by track and number.
    """

    path: Path
    header: Header
    events: list[EventEntry] = field(default_factory=list)
    reloads: list[StoredReload] = field(default_factory=list)
    reads: list[StoredRead] = field(default_factory=list)
    uploads: list[UploadEntry] = field(default_factory=list)
    messages: list[MessageEntry] = field(default_factory=list)
    outputs: list[OutputEntry] = field(default_factory=list)
    kept: list[KeptEntry] = field(default_factory=list)
    errors: list[ErrorEntry] = field(default_factory=list)
    end: EndEntry | None = None
    stored_frames: dict[tuple[str, int], StoredFrame] = field(default_factory=dict)
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
    def configs(self) -> list[str]:
        """Return the config of each `load()` of the session, as the text in the recording."""
        return [self.header.config, *(each.entry.config for each in self.reloads if each.entry.kind == "loaded")]

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

    def frame(self, track: str, number: int) -> FrameEntry | None:
        """Read a frame of the output, None if it was not recorded; raise UsageError if its pixels are damaged."""
        stored = self.stored_frames.get((track, number))
        if stored is None:
            return None
        content = self.load(stored.file)
        if stored.shape is None:
            return FrameEntry(track, number, content, stored.quality)
        with refusing_damage(self.path, stored.recorded_at):
            return FrameEntry(track, number, _decompress(content, stored.shape))

    def frames(self) -> Iterator[FrameEntry]:
        """Read the frames of the output, in the order in which they were recorded."""
        return (frame for place in self.stored_frames if (frame := self.frame(*place)) is not None)


@dataclass(frozen=True, slots=True)
class _FramePlace:
    track: str
    frame: Count
    shape: tuple[int, int, int] | None = None
    quality: Annotated[int, Field(ge=OWN_QUALITY, le=100)] | None = None


@dataclass(frozen=True, slots=True)
class _ReadPlace:
    """A `ReadEntry` with the numbers of its files."""

    step: Count
    track: str
    call: Count
    files: tuple[int, ...]
    sent: tuple[SentValues, ...] = ()


_FRAME_PLACE = TypeAdapter(_FramePlace)
_ENTRIES: dict[str, TypeAdapter[Any]] = {
    topic: TypeAdapter(_ReadPlace if kind is ReadEntry else kind)
    for kind, topic in _TOPICS.items()
    if kind is not FrameEntry
}
_HEADER_VALUES = TypeAdapter(Header)


def read_recording(path: Path) -> SessionRecording:
    """Read a recording, up to where it was interrupted; raise UsageError if it is not a recording or is damaged.

    The file may come from anyone. In what is returned, values have the types of their entries, and the config and the
    contract can be read; the memory used is limited by the size of the file.
    """
    require_extra()
    reader = _RecordingReader(path)
    for record in read_records(path):
        with refusing_damage(path, record.place):
            reader.add(record)
    recording = reader.recording
    if recording is None:
        raise UsageError(f"{path} is not a recording of a session", hint="`reactor run --record DIR` makes them")
    if not recording.complete and is_finished(path):
        raise UsageError(f"{path} is damaged: what follows step {recording.steps} can't be read", hint=FIX)
    return recording


class _RecordingReader:
    """Add records to a recording, which is None before the header."""

    def __init__(self, path: Path) -> None:
        self.recording: SessionRecording | None = None
        self._path = path
        # The kind of each output track.
        self._kinds: dict[str, str] = {}
        self._media: dict[int, StoredFile] = {}
        # The pixels of the frame whose entry comes next.
        self._pixels: StoredFile | None = None
        self._config = ""

    def add(self, record: Record) -> None:
        """Add a record; raise ValueError, LookupError or TypeError for one that Reactor does not write."""
        recording = self.recording
        if recording is None:
            if isinstance(record, MetadataRecord) and record.name == _HEADER:
                self._begin(record)
        elif isinstance(record, AttachmentRecord):
            recording.uploads.append(record.entry)
        elif isinstance(record, MessageRecord):
            self._add_message(recording, record)

    def _begin(self, record: MetadataRecord) -> None:
        values = {key: from_json(value) for key, value in record.values.items()}
        if values.pop("format") not in (FORMAT, *OLDER_FORMATS):
            raise UsageError(
                f"{self._path} was written by another version of Reactor",
                hint="replay it with the version that recorded it",
            )
        header = _HEADER_VALUES.validate_json(json.dumps(values), strict=True)
        check_contract(header.contract)
        self._kinds = kinds_of(header.contract, "out")
        self._check_config(header.config)
        _check_names(header.files)
        self.recording = SessionRecording(self._path, header)

    def _add_message(self, recording: SessionRecording, message: MessageRecord) -> None:
        recording.complete = message.topic in (_TOPICS[EndEntry], _TOPICS[KeptEntry])
        if message.topic.startswith(_MEDIA):
            self._media[message.sequence] = StoredFile(message.offset, len(message.content))
        elif message.topic.startswith(_PIXELS):
            self._pixels = StoredFile(message.offset, len(message.content))
        elif message.topic == _TOPICS[FrameEntry]:
            self._add_frame(recording, message)
        elif message.topic in _ENTRIES:
            self._add_entry(recording, _ENTRIES[message.topic].validate_json(message.content, strict=True))

    def _add_frame(self, recording: SessionRecording, message: MessageRecord) -> None:
        place, pixels = _FRAME_PLACE.validate_json(message.content, strict=True), self._pixels
        if pixels is None:
            raise ValueError("the pixels are not before their frame")
        if (place.shape is None) == (place.quality is None):
            raise ValueError("a frame has either a shape or a quality")
        frame = StoredFrame(pixels, message.place, place.quality or 0, place.shape)
        recording.stored_frames[place.track, place.frame] = frame

    def _add_entry(self, recording: SessionRecording, entry: Any) -> None:
        match entry:
            case EventEntry():
                recording.events.append(entry)
            case _ReadPlace():
                if missing := [number for number in entry.files if number not in self._media]:
                    raise ValueError(f"the media {missing[0]} are not before their read")
                if entry.sent and len(entry.sent) != len(entry.files):
                    raise ValueError(f"{len(entry.files)} files with the values of {len(entry.sent)}")
                files = tuple(self._media.pop(number) for number in entry.files)
                reloads = len(recording.reloads)
                recording.reads.append(StoredRead(entry.step, entry.track, entry.call, files, reloads, entry.sent))
            case ReloadEntry():
                self._check_config(entry.config)
                _check_names(entry.files)
                _add_reload(recording, entry)
            case ErrorEntry():
                recording.errors.append(entry)
            case MessageEntry():
                recording.messages.append(entry)
            case OutputEntry():
                self._check_tracks(entry)
                recording.outputs.append(entry)
            case KeptEntry():
                recording.kept.append(entry)
            case EndEntry():
                recording.end = entry

    def _check_config(self, text: str) -> None:
        if text != self._config:
            parse_config(text)
            self._config = text

    def _check_tracks(self, entry: OutputEntry) -> None:
        for track, hashes in entry.hashes.items():
            rank = _RANKS.get(self._kinds.get(name_of(track), ""))
            if any(len(shape_of(hash)) != rank for hash in hashes):
                raise ValueError(f"{track[:MOST_CHARACTERS]!r} is no output of the model, or one of another kind")


def _check_names(files: Iterable[str]) -> None:
    """Raise ValueError for a name that is not that of a file below the project."""
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not name.isprintable():
            raise ValueError(f"{name[:MOST_CHARACTERS]!r} is not the name of a file in a project")


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


def _decompress(pixels: bytes, shape: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the pixels of a frame; raise ValueError before decompressing if they do not have the size of its shape."""
    import zstandard

    check_shape(shape)
    size_bytes = math.prod(shape)
    if zstandard.frame_content_size(pixels) != size_bytes:
        raise ValueError(f"the pixels are not those of a frame of {shape[1]}x{shape[0]}")
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(pixels), np.uint8).reshape(shape)


def encode_array(array: np.ndarray[Any, Any]) -> bytes:
    """Encode an array as `.npy`, for an item that has no file of a client."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def decode_array(file: bytes) -> np.ndarray[Any, Any]:
    """Return the frame or sound in an `.npy` file; raise ValueError for another file."""
    # `numpy.load` would evaluate the header, and allocate what it announces.
    found = _NPY.match(file)
    if found is None:
        raise ValueError("no array of uint8 or int16")
    shape = [int(number) for number in found["shape"].split(b",") if number.strip()]
    flat = np.frombuffer(file, found["dtype"].decode(), offset=found.end())
    return flat.reshape(shape, order="F" if found["is_fortran"] == b"True" else "C").copy()


def hash_file(path: Path) -> str | None:
    """Return a hash of a file's content; None if it can't be read."""
    try:
        return hash_content(path.read_bytes())
    except OSError:
        return None


def hash_content(content: bytes) -> str:
    """Return a hash of the content of a file."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()
