"""Recordings of others: whatever a file holds, it is read, or refused with one error, in little memory."""

from __future__ import annotations

import contextlib
import io
import json
import math
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.errors import UsageError
from reactor_runtime.interface import Input, InputField, InputState, Output, ReactorPipeline, Video
from reactor_runtime.media import jpeg
from reactor_runtime.recording import configs
from reactor_runtime.recording.entries import MOST_SIDE, Header, hash_pieces
from reactor_runtime.recording.file import decode_array, encode_array, read_recording
from reactor_runtime.testing import replay

Values = dict[str, Any]


class Seen(Input):
    camera: Video


class Shown(Output):
    main_video: Video


class Knob(InputState):
    level: int = InputField(default=1, ge=0, le=255)


class Polling(ReactorPipeline):
    state: Knob
    input: Seen
    output: Shown
    fps = 30

    def inference(self) -> Iterator[Any]:
        shown = np.zeros((4, 8, 3), np.uint8)
        while True:
            if items := self.input.camera.try_read():
                shown = items[0]
            yield Shown(main_video=shown + np.uint8(self.state.level))


FRAME = np.full((4, 8, 3), 1, np.uint8)
HEADER: Values = asdict(
    Header(
        model="os:system",
        config="width: 64\n",
        contract=Contract.of(Polling).to_json(),
        seed=7,
        client="c-1",
        joined_at=1.5,
        started_at=2.5,
        versions={"python": "3.11"},
        files={"pipeline.py": "ab"},
    )
)
[HASH] = hash_pieces({"main_video": [FRAME]})["main_video"]
OUTPUT: Values = {"step": 1, "hashes": {"main_video": [HASH]}}
EVENT: Values = {"step": 1, "name": "set_level", "data_json": '{"level": 3}', "skipped": False}
READ: Values = {"step": 2, "track": "camera", "call": 3, "files": [1]}
RELOAD: Values = {"step": 2, "kind": "loaded", "waiting": False, "config": "", "files": {"a.py": "cd"}}
MESSAGE: Values = {"step": 2, "type": "said", "data": {"text": "a"}}
END: Values = {"step": 3, "error": ""}
SESSION: list[tuple[str, Values]] = [
    ("/outputs", OUTPUT),
    ("/events", EVENT),
    ("/reads", READ),
    ("/messages", MESSAGE),
    ("/kept", {"step": 2, "since_step": 0}),
    ("/reloads", RELOAD),
    ("/errors", {"step": 2, "error": "the model failed"}),
]


class OtherWriter:
    """Write a file with any bytes at any place of a recording."""

    def __init__(self, header: dict[str, str] | None = None, **options: Any) -> None:
        self._file = io.BytesIO()
        self._writer = Writer(self._file, **{"use_chunking": False, **options})
        self._writer.start(profile="reactor")
        values = {key: json.dumps(value) for key, value in HEADER.items()}
        self._writer.add_metadata("reactor.session", {"format": "2", **values, **(header or {})})
        self._channels: dict[str, int] = {}

    def add(self, topic: str, content: bytes | Values, sequence: int = 0) -> OtherWriter:
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(topic, "", schema_id=0)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._writer.add_message(self._channels[topic], 0, data, 0, sequence)
        return self

    def finished(self) -> bytes:
        self._writer.finish()  # type: ignore[no-untyped-call]  # it has no annotations
        return self._file.getvalue()


def recording_of(*entries: tuple[str, bytes | Values], header: dict[str, str] | None = None) -> bytes:
    writer = OtherWriter(header)
    writer.add("/media/camera", jpeg.encode(FRAME), 1)
    for topic, content in entries:
        writer.add(topic, content)
    return writer.add("/end", END).finished()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.mcap"


@contextlib.contextmanager
def allocating_at_most(size_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size_bytes
    finally:
        tracemalloc.stop()


def zeros(size_bytes: int, *, is_announced: bool = True) -> bytes:
    """Return data of Zstandard with as many zeros, in blocks of four bytes for 128 KiB (RFC 8878, 3.1.1)."""
    largest = 128 << 10
    sizes = [largest] * (size_bytes // largest) + [size_bytes % largest]
    blocks = [
        (size << 3 | 1 << 1 | (place == len(sizes) - 1)).to_bytes(3, "little") for place, size in enumerate(sizes)
    ]
    # Either the size of the content, or a window of 1 MiB.
    head = b"\xe0" + size_bytes.to_bytes(8, "little") if is_announced else b"\x00\x50"
    return b"\x28\xb5\x2f\xfd" + head + b"\0".join(blocks) + b"\0"


def test_the_session_of_another_program_is_read(path: Path) -> None:
    path.write_bytes(recording_of(*SESSION))
    recording = read_recording(path)
    assert recording.complete
    assert [recording.load(file) for file in recording.reads[0].files] == [jpeg.encode(FRAME)]


def test_the_frames_of_another_program_are_read(path: Path) -> None:
    path.write_bytes(recording_of(("/pixels/main_video", zeros(96)), ("/frames", frame_of([4, 8, 3]))))
    (frame,) = read_recording(path).frames()
    assert np.array_equal(frame.content, np.zeros((4, 8, 3)))


def frame_of(shape: object) -> Values:
    return {"track": "main_video", "frame": 0, "shape": shape}


BOMB = zeros(8_400_000_000)


@pytest.mark.parametrize(
    ("pixels", "shape"),
    [
        (BOMB, [50_000, 56_000, 3]),
        (BOMB, [4096, 4096, 3]),
        (BOMB, [4, 8, 3]),
        # This one fits in memory.
        (zeros(100_000_000), [4, 8, 3]),
        (zeros(8_400_000_000, is_announced=False), [4, 8, 3]),
        (zeros(96), [1, 96, 1]),
        (zeros(96), [0, 8, 3]),
        (zeros(96), [-4, -8, 3]),
        (zeros(96), [96]),
        (zeros(95), [4, 8, 3]),
        (zeros(96)[:-1], [4, 8, 3]),
        (b"", [4, 8, 3]),
        (zeros(96), "4x8"),
    ],
    ids=lambda value: f"{len(value) / 1000:.0f} kB" if isinstance(value, bytes) else "x".join(map(str, value)),
)
def test_pixels_that_are_not_those_of_their_frame_are_refused_in_little_memory(
    pixels: bytes, shape: object, path: Path
) -> None:
    path.write_bytes(recording_of(("/pixels/main_video", pixels), ("/frames", frame_of(shape))))
    with (
        allocating_at_most(4_000_000),
        pytest.raises(UsageError, match=r"a\.mcap is damaged at byte \d+, in /frames: "),
    ):
        list(read_recording(path).frames())


DEEP = b"[" * 100_000 + b"]" * 100_000
# An alias repeats what it names: these lines describe 10**9 values.
REPEATED = "a: &a [0,0,0,0,0,0,0,0,0,0]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("topic", "content"),
    [
        ("/events", DEEP),
        ("/events", b'{"step":1,"name":"a","data_json":' + DEEP + b"}"),
        ("/events", b"\xff"),
        ("/events", {**EVENT, "step": "1"}),
        ("/events", {**EVENT, "step": -1}),
        ("/events", {**EVENT, "step": 10**30}),
        ("/events", {**EVENT, "step": True}),
        ("/events", {"step": 1}),
        ("/messages", b'{"step":1,"type":"a","data":{"a":' + DEEP + b"}}"),
        ("/messages", {**MESSAGE, "data": "text"}),
        ("/outputs", {"step": 1, "hashes": {"main_video": []}}),
        ("/outputs", {"step": 1, "hashes": {"main_video": ["99999x99999x3:ff"]}}),
        ("/outputs", {"step": 1, "hashes": {"main_video": ["1x1600:ff"]}}),
        ("/outputs", {"step": 1, "hashes": {"main_video": ["x:ff"]}}),
        ("/outputs", {"step": 1, "hashes": {"other": [HASH]}}),
        ("/reads", {**READ, "files": [2]}),
        ("/reads", {**READ, "files": [1, 1]}),
        ("/reloads", {**RELOAD, "kind": "other"}),
        ("/reloads", {**RELOAD, "config": "a: !!python/object/apply:os.system [ls]"}),
        ("/reloads", {**RELOAD, "config": REPEATED}),
        ("/reloads", {**RELOAD, "files": {"/dev/zero": "ff"}}),
        ("/reloads", {**RELOAD, "files": {"../../etc/passwd": "ff"}}),
        ("/reloads", {**RELOAD, "files": {"\x1b[2J": "ff"}}),
        ("/end", {"step": 3, "error": None}),
    ],
)
def test_an_entry_that_reactor_does_not_write_is_refused_with_its_place(
    topic: str, content: bytes | Values, path: Path
) -> None:
    path.write_bytes(recording_of((topic, content)))
    with pytest.raises(UsageError, match=rf"a\.mcap is damaged at byte \d+, in {topic}: ") as refused:
        read_recording(path)
    assert refused.value.hint == "get the file again from where it was recorded, or record the session again"
    assert len(refused.value.message) < 500


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("contract", DEEP.decode()),
        ("contract", "{}"),
        ("contract", '{"tracks": [{}], "schema": {"events": {}, "messages": {}}}'),
        ("contract", '{"tracks": [], "schema": {"events": {"a": {}}, "messages": {}}}'),
        ("config", json.dumps("a: !!timestamp x")),
        ("config", json.dumps("a: !!bool x")),
        ("config", json.dumps("[1]")),
        ("config", json.dumps(REPEATED)),
        ("config", json.dumps("[" * 1000)),
        ("config", json.dumps("a: &a {b: *a}")),
        ("config", json.dumps("a: " + "1" * configs.MOST_BYTES)),
        ("config", json.dumps("a: " + "[" * 70 + "]" * 70)),
        ("config", "1"),
        ("seed", "-1"),
        ("seed", '"7"'),
        ("seed", "not json"),
        ("started_at", '"now"'),
        ("files", '{"/etc/passwd": "ff"}'),
        ("versions", '{"python": 3}'),
    ],
)
def test_a_header_that_reactor_does_not_write_is_refused(key: str, value: str, path: Path) -> None:
    path.write_bytes(recording_of(header={key: value}))
    with (
        allocating_at_most(100_000_000),
        pytest.raises(UsageError, match=r"a\.mcap is damaged at byte \d+, the end of the session's description: "),
    ):
        read_recording(path)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({**EVENT, "step": "1"}, "step: Input should be a valid integer"),
        (DEEP, "Invalid JSON: recursion limit exceeded"),
    ],
    ids=["value", "entry"],
)
def test_the_error_names_the_value_and_what_is_wrong_with_it(event: bytes | Values, why: str, path: Path) -> None:
    path.write_bytes(recording_of(("/events", event)))
    with pytest.raises(UsageError, match=rf"in /events: {why}"):
        read_recording(path)


def test_a_description_that_another_program_has_added_is_left_out(path: Path) -> None:
    file = io.BytesIO()
    writer = Writer(file, use_chunking=False)
    writer.start(profile="reactor")
    writer.add_metadata("another", {"seed": "x"})
    values = {key: json.dumps(value) for key, value in HEADER.items()}
    writer.add_metadata("reactor.session", {"format": "2", **values})
    path.write_bytes(file.getvalue())
    assert read_recording(path).header.seed == 7


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.ZSTD])
def test_chunks_are_refused_before_they_are_decompressed(compression: CompressionType, path: Path) -> None:
    writer = OtherWriter(use_chunking=True, compression=compression)
    path.write_bytes(writer.add("/media/camera", bytes(5_000_000), 1).add("/end", END).finished())
    with pytest.raises(UsageError, match=r"a\.mcap is damaged at byte \d+: the file has chunks"):
        read_recording(path)


@pytest.mark.parametrize("length", [2**63, 2**40, 5])
@pytest.mark.parametrize("opcode", [0x05, 0x09, 0x0C, 0x7F])
def test_a_record_that_announces_a_length_it_does_not_have_is_not_allocated(
    opcode: int, length: int, path: Path
) -> None:
    whole = recording_of(*SESSION)
    # After the header and the description of the session.
    at = whole.index(b"/media/camera") - 17
    path.write_bytes(whole[:at] + struct.pack("<BQ", opcode, length) + b"\xff" * 60)
    with allocating_at_most(4_000_000), contextlib.suppress(UsageError):
        assert not read_recording(path).complete


@pytest.mark.parametrize(
    "name", ["u-1/../../.bashrc", "u-1/..", "u-1//etc/passwd", "u-1/a\\b/c", "u-1/\x1b[2J", "u-1/", "u-1"]
)
def test_an_uploaded_file_has_a_name_without_directories(name: str, path: Path) -> None:
    writer = OtherWriter()
    writer._writer.add_attachment(0, 0, name, "text/plain", b"content")
    path.write_bytes(writer.add("/end", END).finished())
    (upload,) = read_recording(path).uploads
    assert upload.name in {".bashrc", "passwd", "c", ""}


@pytest.mark.parametrize(
    "file",
    [
        # An image of 10**12 bytes, of which the file has none.
        encode_array(FRAME).replace(b"(4, 8, 3), }", b"(9**12,), } ").replace(b"9**12", b"10**1"),
        encode_array(FRAME)[:-1],
        encode_array(FRAME).replace(b"(4, 8, 3)", b"(9999999,"),
        encode_array(np.zeros((1, 1, 1, 96), np.uint8)),
        encode_array(np.zeros((4, 8, 3), np.float64)),
        encode_array(np.zeros((1, 96), np.int16)),
        b"\x93NUMPY\x03\x00" + b"\xff" * 8,
        b"RIFF....WAVE",
        jpeg.encode(FRAME)[:-100],
        b"",
        DEEP,
    ],
    ids=lambda file: repr(file[:8]),
)
def test_media_that_no_client_sends_end_the_replay_with_the_read(file: bytes, path: Path) -> None:
    read = {**READ, "step": 0, "call": 1}
    header = {"config": '""'}
    path.write_bytes(OtherWriter(header).add("/media/camera", file, 1).add("/reads", read).add("/end", END).finished())
    with allocating_at_most(20_000_000), pytest.raises(UsageError) as refused:
        replay(path, Polling)
    assert "a.mcap is damaged: what camera read in step 0 is no video: " in refused.value.message


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from("CF"))
def test_an_array_that_was_sent_is_decoded(height: int, width: int, order: Any) -> None:
    array = np.arange(height * width * 3, dtype=np.uint8).reshape((height, width, 3), order=order)
    decoded = decode_array(encode_array(array))
    assert (decoded == array).all()
    assert decoded.flags.writeable


def test_the_largest_frame_is_that_of_a_model() -> None:
    assert MOST_SIDE == jpeg.MAX_SIDE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 50) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated_sessions(draw: st.DrawFn) -> bytes:
    """Return a recording in which values are replaced, entries are missing, repeated or moved, and bytes changed."""
    entries = draw(st.lists(st.sampled_from(SESSION), max_size=12))
    changed: list[tuple[str, bytes | Values]] = []
    for topic, values in entries:
        keys = draw(st.sets(st.sampled_from(sorted(values)), max_size=1))
        changed.append((topic, {**values, **{key: draw(json_values) for key in keys}}))
    header = draw(st.dictionaries(st.sampled_from(sorted(HEADER)), json_values.map(json.dumps), max_size=1))
    content = bytearray(recording_of(*changed, header={"config": '""', **header}))
    for place, value in draw(st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=2)):
        content[math.floor(place * len(content))] = value
    return bytes(content)


@given(content=mutated_sessions())
def test_a_mutated_recording_is_replayed_or_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.mcap"
    path.write_bytes(content)
    with allocating_at_most(50_000_000):
        try:
            recording = read_recording(path)
            list(recording.frames())
            # A file may ask for any number of steps.
            if recording.steps <= 50:
                replay(path, Polling, config_from="recording")
        except UsageError:
            pass
        # The error of a recording that ends in a wait.
        except RuntimeError as error:
            if "the replay stops after step" not in str(error):
                raise
