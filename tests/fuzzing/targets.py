"""The functions that read bytes of strangers. Each takes any bytes, and raises nothing but the error that it promises.

To fuzz another one, add it to `TARGETS`, with a few files that it accepts.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from websockets.frames import Frame, Opcode

from reactor_runtime.client.media import DECODERS, read_frame, read_header, read_sound
from reactor_runtime.errors import UsageError, WireError
from reactor_runtime.media import jpeg, npy, wav
from reactor_runtime.recording.configs import parse_config
from reactor_runtime.recording.contracts import contract_differences
from reactor_runtime.recording.file import decode_array, encode_array, read_recording
from reactor_runtime.server.net.http_reader import MOST_HEADERS, BadRequest, HttpReader
from reactor_runtime.server.net.limits import Budget
from reactor_runtime.server.net.message_reader import MessageReader, Violation
from reactor_runtime.testing.session_replay import config_changes
from reactor_runtime.wire.codec import decode_ack, decode_text
from reactor_runtime.wire.containers import JPEG, MP4, NPY, attach, detach, required_container_of
from reactor_runtime.wire.fragmented_mp4 import VideoConfig, VideoMessage, nal_units, read_message, write_message
from reactor_runtime.wire.media_header import MediaHeader
from tests.recording.test_others import FRAME, HEADER, SESSION, frame_of, recording_of, zeros
from tests.server.net.test_message_reader import Received

MOST_PIXELS = 512 * 512
_FOLDER = tempfile.TemporaryDirectory(prefix="reactor-fuzzing-")
_MEDIA = MediaHeader("camera", 1, 2, 3, metadata=b"{}")


@dataclass(frozen=True, slots=True)
class Target:
    """A function with the errors that it may raise, and bytes to begin with."""

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Sequence[bytes]

    def run(self, data: bytes) -> None:
        """Read any bytes; raise what is a bug."""
        with contextlib.suppress(*self.refusals):
            self.read(data)


def _read_recording(data: bytes) -> None:
    """Read a recording with all that `reactor replay` makes of it before the model runs."""
    path = Path(_FOLDER.name, "a.mcap")
    path.write_bytes(data)
    recording = read_recording(path)
    deque(recording.frames(), maxlen=0)
    contract_differences(recording.header.contract, HEADER["contract"])
    config_changes(recording, {}, {})


def _read_jpeg(data: bytes) -> None:
    """Read an image as the server and the engine do; decode it if that is quick."""
    header = jpeg.read_header(data)
    JPEG.read(data)
    _, file = detach(data)
    if header.height * header.width <= MOST_PIXELS:
        assert jpeg.decode(file).shape == (header.height, header.width, 3)


def _read_frame(data: bytes) -> None:
    """Read a frame or a piece of sound as the Python client does."""
    container = required_container_of(data)
    header = read_header(container, data)
    if container is NPY:
        assert read_frame(header, data, DECODERS[NPY], delay_s=0.0).array.nbytes <= len(data)
    elif container.kind == "video":
        frame = read_frame(header, data, jpeg.decode, delay_s=0.0)
        assert frame.metadata is None or isinstance(frame.metadata, dict)
    else:
        read_sound(header, data, delay_s=0.0)


def _read_video(data: bytes) -> None:
    """Read a message of a video stream as the clients do."""
    message = read_message(data)
    header, file = MP4.detach(data)
    assert read_message(file) == message
    if header is not None:
        assert read_message(MP4.attach(header, file)) == message
    assert all(nal_units(message.sample))


def _read_wav(data: bytes) -> None:
    _, file = detach(data)
    assert wav.decode(file).nbytes <= len(data)


def _read_messages(data: bytes) -> None:
    """Read the frames of a WebSocket, in pieces of a size that the first byte gives."""
    size = data[0] + 1 if data else 1
    budget = Budget(1 << 16)
    reader = MessageReader(Received(), budget)
    for at in range(1, len(data), size):
        reader.feed(data[at : at + size])
        while reader.step():
            pass
    reader.clear()
    assert budget.take(1 << 16), "all that was taken is given back"


def _read_requests(data: bytes) -> None:
    """Read the requests of a connection, in pieces of a size that the first byte gives, and drop them when complete."""
    size = data[0] + 1 if data else 1
    reader = HttpReader()
    for at in range(1, len(data), size):
        reader.feed(data[at : at + size])
        while reader.step():
            while reader.requests and reader.requests[0].complete:
                request = reader.requests.popleft()
                assert len(request.headers) <= MOST_HEADERS, "more are refused"
                assert len(request.body) <= len(data), "nothing is decompressed"
    reader.close()


def _read_text(data: bytes) -> None:
    decode_ack(data)
    decode_text(data.decode(errors="surrogateescape"))


def _read_config(data: bytes) -> None:
    parse_config(data.decode(errors="replace"))


def _frames(*pieces: tuple[Opcode, bytes, bool]) -> bytes:
    return b"\x10" + b"".join(Frame(opcode, data, fin).serialize(mask=True) for opcode, data, fin in pieces)


_PIXELS = (("/pixels/main_video", zeros(96)), ("/frames", frame_of([4, 8, 3])))
_BAND = jpeg.encode(np.zeros((16, 16, 3), np.uint8))
_KEY = write_message(VideoMessage(VideoConfig(64, 48, b"\1\x42\xc0\x1e\xff\xe1\0\0\0"), b"\0\0\0\1\x65"), 1, 2, 3)
_SOUND = wav.encode(np.arange(-60, 60, dtype=np.int16).reshape(2, 60), 48_000)
TARGETS = {
    "mcap": Target(_read_recording, (UsageError,), [recording_of(*SESSION), recording_of(*_PIXELS)]),
    "jpeg": Target(
        _read_jpeg,
        (WireError,),
        [jpeg.encode(FRAME), attach(_MEDIA, jpeg.encode(FRAME)), jpeg.join_bands([_BAND, _BAND])],
    ),
    "frame": Target(
        _read_frame,
        (WireError,),
        [
            attach(replace(_MEDIA, metadata=b'{"pose":[1,2.5]}'), b"\xff\xd8\xff\xd9"),
            attach(_MEDIA, _SOUND),
            attach(_MEDIA, npy.encode(np.zeros((2, 3, 3), np.uint8))),
        ],
    ),
    "mp4": Target(
        _read_video, (WireError,), [_KEY, attach(_MEDIA, _KEY), attach(_MEDIA, _KEY[_KEY.index(b"moof") - 4 :])]
    ),
    "wav": Target(_read_wav, (WireError,), [_SOUND, attach(_MEDIA, _SOUND)]),
    "npy": Target(decode_array, (ValueError,), [encode_array(FRAME), encode_array(np.zeros((1, 9), np.int16))]),
    "config": Target(_read_config, (ValueError,), [b"a: &a [1, 2.5]\nb: *a"]),
    "messages": Target(
        _read_messages,
        (Violation,),
        [
            _frames((Opcode.TEXT, b"{}", True), (Opcode.BINARY, bytes(200), True), (Opcode.CLOSE, b"", True)),
            _frames((Opcode.BINARY, b"ab", False), (Opcode.PING, b"p", True), (Opcode.CONT, b"cd", True)),
        ],
    ),
    "requests": Target(
        _read_requests,
        (BadRequest,),
        [
            b"\xffGET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"\x07POST /uploads?key=a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
            b"\x20POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"\xffGET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x80",
        ],
    ),
    "text": Target(
        _read_text,
        (WireError,),
        [
            b'{"type": "set_level", "data": {"level": 3}, "id": 1}',
            b'{"type": "reactor.ack", "data": {"track": "main_video", "seq": 3}}',
            b'{"type": "reactor.view", "data": {"tracks": ["a"], "max_fps": 12.5, "codecs": ["jpeg"]}}',
        ],
    ),
}
