"""A client made of nothing of ours: a bare WebSocket, JSON, Pillow, and PROTOCOL.md's table read by hand."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import struct
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from PIL import Image
from websockets.asyncio import client as websockets_client
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.timeouts import TIMEOUT_S

# A handshake may take as long as a test waits for anything. A test that waits on its thread receives no pong, and would
# find its connection closed.
connect = functools.partial(websockets_client.connect, open_timeout=TIMEOUT_S, ping_interval=None)


@dataclass(frozen=True, slots=True)
class Header:
    flags: int
    seq: int
    pts_us: int
    wall_us: int
    applied: int
    track: str


def parse_header(fields: bytes) -> Header:
    version, flags, seq, pts_us, wall_us, applied, length = struct.unpack_from(">BBIQQIB", fields)
    assert version == 1
    return Header(flags, seq, pts_us, wall_us, applied, fields[27 : 27 + length].decode())


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture as it came; `level` is its mean red."""

    header: Header
    size: tuple[int, int]
    level: float
    data: bytes


def parse_frame(data: bytes) -> Frame:
    assert data[:4] == b"\xff\xd8\xff\xef"
    (length,) = struct.unpack_from(">H", data, 4)
    assert data[6:14] == b"REACTOR\0"
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.mode) == ("JPEG", "RGB")
        small = image.resize((1, 1))
        pixel = small.getpixel((0, 0))
        assert isinstance(pixel, tuple)
        return Frame(parse_header(data[14 : 4 + length]), image.size, float(pixel[0]), data)


def picture(level: int) -> bytes:
    """Make a JPEG that is gray."""
    file = io.BytesIO()
    Image.new("RGB", (48, 32), (level, level, level)).save(file, "JPEG", quality=95)
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Sound:
    """A piece of sound as it came; `pcm` holds its samples, those of the channels in turn."""

    header: Header
    channels: int
    samples: int
    sample_rate: int
    pcm: bytes


def parse_sound(data: bytes) -> Sound:
    assert data[12:16] == b"rctr"
    (length,) = struct.unpack_from("<I", data, 16)
    with wave.open(io.BytesIO(data)) as file:
        assert file.getsampwidth() == 2
        header = parse_header(data[20 : 20 + length])
        samples = file.getnframes()
        return Sound(header, file.getnchannels(), samples, file.getframerate(), file.readframes(samples))


class WireClient:
    """Read in order what the server says; `text` and `frame` skip what they are not asked for."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.texts: list[dict[str, Any]] = []
        self.frames = 0

    async def send(self, type: str, data: dict[str, Any] | None = None, id: str | int | None = None) -> None:
        message: dict[str, Any] = {"type": type, "data": data or {}}
        if id is not None:
            message["id"] = id
        await self.socket.send(json.dumps(message))

    async def next(self) -> dict[str, Any] | bytes:
        received = await asyncio.wait_for(self.socket.recv(), TIMEOUT_S)
        if isinstance(received, bytes):
            self.frames += 1
            return received
        message: dict[str, Any] = json.loads(received)
        self.texts.append(message)
        return message

    async def _incoming(self) -> AsyncIterator[dict[str, Any] | bytes]:
        """Give what comes, for as long as a test waits for anything: figures come for ever."""
        loop = asyncio.get_running_loop()
        until = loop.time() + TIMEOUT_S
        while loop.time() < until:
            yield await self.next()

    async def message(self, type: str, **wanted: Any) -> dict[str, Any]:
        """Read up to the next message of a type, and whose data holds what is wanted; returns it whole."""
        async for received in self._incoming():
            if isinstance(received, dict) and received["type"] == type and wanted.items() <= received["data"].items():
                return received
        raise _too_late(type)

    async def data(self, type: str, **wanted: Any) -> dict[str, Any]:
        """Read up to the next message of a type; returns its data."""
        data: dict[str, Any] = (await self.message(type, **wanted))["data"]
        return data

    async def place(self, **wanted: Any) -> dict[str, Any]:
        """Read up to the next place in the wait queue, without the estimate, which depends on the sessions before."""
        data = await self.data("reactor.queue", **wanted)
        return {key: value for key, value in data.items() if key != "wait_s"}

    async def ask(self, type: str, data: dict[str, Any] | None = None, *, id: str | int = "q") -> dict[str, Any]:
        """Send an event and read up to its answer, `reactor.reply` or `reactor.error`."""
        await self.send(type, data, id)
        async for received in self._incoming():
            if isinstance(received, dict) and received.get("id") == id:
                return received
        raise _too_late(f"the answer to {type}")

    async def frame(self, *, applied: int = 0, track: str | None = None) -> Frame:
        """Read up to the next picture that shows what event `applied` did."""
        async for received in self._incoming():
            if isinstance(received, bytes) and received[:2] == b"\xff\xd8":
                frame = parse_frame(received)
                if frame.header.applied >= applied and track in (None, frame.header.track):
                    return frame
        raise _too_late("a picture")

    async def sound(self) -> Sound:
        async for received in self._incoming():
            if isinstance(received, bytes) and received[:4] == b"RIFF":
                return parse_sound(received)
        raise _too_late("sound")

    async def media(self) -> Frame | Sound:
        """Read up to the next picture or piece of sound, whichever comes first."""
        async for received in self._incoming():
            if isinstance(received, bytes):
                return parse_frame(received) if received[:2] == b"\xff\xd8" else parse_sound(received)
        raise _too_late("picture or sound")

    async def unbroken(self, count: int, *, from_start: bool = True) -> list[Frame | Sound]:
        """Read media up to `count` pieces of the only track of sound between which none is missing.

        If more than a second of sound waits, as after a stall of a busy machine, the server drops the oldest: the media
        are those from the last missing piece on. That happens twice at most.
        """
        media: list[Frame | Sound] = []
        heard, newest, gaps = 0, -1, 0
        async with asyncio.timeout(TIMEOUT_S):
            while heard < count:
                item = await self.media()
                if isinstance(item, Sound):
                    assert item.header.seq > newest
                    if newest < 0:
                        assert item.header.seq == 0 or not from_start
                    elif item.header.seq != newest + 1:
                        media, heard, gaps = [], 0, gaps + 1
                        assert gaps <= 2
                    heard, newest = heard + 1, item.header.seq
                media.append(item)
        return media

    async def closed(self) -> tuple[int, str]:
        """Read to the end; returns close code and reason."""
        while True:
            try:
                await self.next()
            except ConnectionClosed:
                return self.socket.close_code or 0, self.socket.close_reason or ""


def _too_late(what: str) -> TimeoutError:
    return TimeoutError(f"no {what} within {TIMEOUT_S:.0f} s, though other things came")


@contextlib.asynccontextmanager
async def client(url: str, *, returning: str = "", **query: str) -> AsyncIterator[WireClient]:
    """Connect for the duration of the block, with the secret of a session that was lost."""
    address = url + "?" + "&".join(f"{key}={value}" for key, value in query.items())
    offered = [Subprotocol(name) for name in ("reactor.v1", f"reactor.return.{returning}")] if returning else None
    async with connect(address, subprotocols=offered, max_size=None, max_queue=None, compression=None) as socket:
        yield WireClient(socket)


@contextlib.asynccontextmanager
async def controlling(url: str) -> AsyncIterator[WireClient]:
    """Connect, and be welcomed to a session of one's own for the duration of the block."""
    async with client(url) as controller:
        await controller.data("reactor.session", phase="started")
        yield controller
