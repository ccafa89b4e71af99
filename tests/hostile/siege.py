"""Hostile messages over a socket: sent one after the other, every answer that is owed waited for and counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection

from reactor_runtime.errors import WireError
from reactor_runtime.wire.codec import decode_text
from reactor_runtime.wire.messages import Event
from tests.hostile.grammar import ID
from tests.server.client import client

MODEL = """
from dataclasses import dataclass
from typing import Literal


class Inputs(Input):
    camera: Video
    microphone: Audio


@dataclass
class Place:
    x: int
    y: float = 0.0


class Said(ModelMessage):
    what: str = ""


class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)
    name: str = InputField(default="", max_length=200)
    weights: list[float] | None = InputField(default=None, max_length=64)
    mode: Literal["slow", "fast"] = "slow"
    by_name: dict[str, int] | None = None


class MyModel(ReactorPipeline):
    state: MyState
    input: Inputs
    fps = 30

    @event(name="say")
    def say(self, place: Place, loud: bool = False) -> Said:
        return Said(what=f"{place.x} {place.y} {loud}")

    @event(name="take")
    def take(self, file: UploadedFile) -> Said:
        return Said(what=file.name)

    def inference(self):
        while True:
            self.input.camera.try_read()
            self.input.microphone.try_read()
            yield gray(100)
"""
VIEWER_BYTES = 4000
PER_S = 700.0  # below the limit, which has tests of its own
LAST = "the last one"


@dataclass
class Siege:
    """What came of messages; `owed` are the ids not yet answered."""

    sent: int = 0
    owed: Counter[str] = field(default_factory=Counter)
    wrongly: list[dict[str, Any]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    answers: int = 0

    def expect(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            return
        try:
            decoded = decode_text(message)
            message_id = decoded.id if isinstance(decoded, Event) else None
        except WireError as error:
            message_id = error.id
        if message_id is not None:
            self.owed[json.dumps(message_id)] += 1

    def take(self, said: dict[str, Any]) -> None:
        """Count an answer."""
        if said["type"] == "reactor.error":
            self.codes[said["data"]["code"]] += 1
        if "id" not in said:
            return
        key = json.dumps(said["id"])
        self.answers += 1
        if self.owed[key]:
            self.owed[key] -= 1
        else:
            self.wrongly.append(said)

    @property
    def unanswered(self) -> list[str]:
        return list(self.owed.elements())


async def besiege(
    url: str,
    role: str,
    messages: Sequence[str | bytes],
    *,
    within_s: float,
    per_s: float = PER_S,
    session: str = "",
) -> Siege:
    """Send all messages as a client of that role, and wait until the last one is answered.

    A viewer leaves out what is larger than it may send: that ends its connection, see test_floods.
    """
    if role == "viewer":
        messages = [
            each for each in messages if len(each if isinstance(each, bytes) else each.encode()) <= VIEWER_BYTES
        ]
    siege = Siege()
    async with client(url, role=role, session=session) as sender, asyncio.timeout(within_s):
        hearing = asyncio.create_task(_hear(sender.socket, siege))
        await _say(sender.socket, messages, siege, per_s)
        await hearing
    return siege


async def _say(socket: ClientConnection, messages: Sequence[str | bytes], siege: Siege, per_s: float) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, message in enumerate(messages):
        own = message.replace(ID, f"m{number}") if isinstance(message, str) else message
        siege.expect(own)
        await socket.send(own)
        siege.sent += 1
        await asyncio.sleep(max(0.0, began + number / per_s - loop.time()))
    await socket.send(json.dumps({"type": "set_mode", "data": {"mode": "fast"}, "id": LAST}))


async def _hear(socket: ClientConnection, siege: Siege) -> None:
    async for said in socket:
        if isinstance(said, str):
            message = json.loads(said)
            if message.get("id") == LAST:
                return
            siege.take(message)
    raise EOFError(f"closed with {socket.close_code} {socket.close_reason}")


@dataclass
class Stream:
    """A controller's frames meanwhile: the numbers that came, and the moments between them in seconds."""

    session: str = ""
    seqs: list[int] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)

    @property
    def missing(self) -> int:
        return self.seqs[-1] - self.seqs[0] + 1 - len(self.seqs)


@contextlib.asynccontextmanager
async def watching(url: str, role: str = "controller") -> AsyncIterator[Stream]:
    """Receive frames for the duration of the block."""
    stream = Stream()
    async with client(url, role=role) as receiver:
        begun = asyncio.Event()
        receiving = asyncio.create_task(_receive(receiver.socket, stream, begun))
        try:
            await begun.wait()
            yield stream
        finally:
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiving


async def _receive(socket: ClientConnection, stream: Stream, begun: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    at = loop.time()
    async for message in socket:
        if isinstance(message, bytes):
            stream.seqs.append(int.from_bytes(message[16:20], "big"))
            stream.gaps_s.append(loop.time() - at)
            at = loop.time()
            begun.set()
        elif not stream.session and (said := json.loads(message))["type"] == "reactor.welcome":
            stream.session = said["data"]["session"]
