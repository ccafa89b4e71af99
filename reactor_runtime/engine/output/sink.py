"""The sink of the engine's output, and the one that sends it to a server by ipc; offline drivers have another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.session_log import OnFile
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.credits import MOST_SESSIONS
from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound, EventApplied, MessageSent, ToServer
from reactor_runtime.ipc.ring import RingWriter, room_for
from reactor_runtime.media import jpeg
from reactor_runtime.media.jpeg_frame import JpegFrame
from reactor_runtime.recording.pieces import OWN_QUALITY


@dataclass(frozen=True, slots=True)
class Black:
    """Represent a black frame by its size, without pixels."""

    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, 3


Payload = NDArray[np.generic] | JpegFrame | Black


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold the frame or sound of one track in a bundle; `at` is when it is due, `metadata` JSON text or "".

    `on_file` is called with the file of the frame and its quality: before the bundle is released with the file into
    which the server has encoded the frame, b"" for none; of a frame that is a JPEG already, when the bundle is sent. A
    piece for several seats has the number `seq` in the first seat, and `others_seqs` in the others.
    """

    track: TrackSpec
    seq: int
    payload: Payload
    at: float
    metadata: str = ""
    on_file: OnFile | None = None
    others_seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OutgoingBundle:
    """Hold a bundle to be sent, which is shown for `interval_s`.

    The author may change its arrays once `send_bundle` has returned.
    """

    session: str
    number: int
    due: float
    interval_s: float
    handed_over: float
    wall_us: int
    # By seat.
    applied: tuple[int, ...]
    step_s: float
    pieces: tuple[Piece, ...]
    first: bool = True
    inputs: tuple[float, ...] = ()
    reserve_s: float = 0.0


class Sink(Protocol):
    """Send the model's output, in order."""

    def send_bundle(self, bundle: OutgoingBundle) -> None: ...

    def send(self, message: ToServer) -> None: ...

    def release(self, number: int) -> None:
        """Free the memory of a bundle, which was shown or dropped."""


class SwitchableSink:
    """Send output to `sink`, and in a block to another sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @contextlib.contextmanager
    def diverted(self, sink: Sink) -> Iterator[None]:
        """Send output to `sink` in the block."""
        before, self._sink = self._sink, sink
        try:
            yield
        finally:
            self._sink = before

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        self._sink.send_bundle(bundle)

    def send(self, message: ToServer) -> None:
        self._sink.send(message)

    def release(self, number: int) -> None:
        self._sink.release(number)


class LoggedSink:
    """Pass output on to another sink, and the type and data of the model's messages to `on_message`."""

    def __init__(self, sink: Sink, on_message: Callable[[str, dict[str, Any]], None]) -> None:
        self._sink = sink
        self._on_message = on_message
        self.send_bundle, self.release = sink.send_bundle, sink.release

    def send(self, message: ToServer) -> None:
        if isinstance(message, MessageSent):
            self._on_message(message.type, message.data)
        elif isinstance(message, EventApplied) and message.reply is not None:
            self._on_message(*message.reply)
        self._sink.send(message)


class IpcSink:
    """Write the bundles of a slot into shared memory, which all slots use, and send the server their offsets."""

    def __init__(self, channel: Channel, ring: RingWriter, slot: int = 0) -> None:
        self._channel = channel
        self._ring = ring
        self._slot = slot
        # Of the bundles that the server has: rooms for files, and what gets the files.
        self._rooms: dict[int, list[tuple[int, OnFile]]] = {}

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        try:
            self._channel.send(self._written(bundle), self._slot)
        except BaseException:
            # The server has not received the bundle, so no credit will follow.
            self.release(bundle.number)
            raise

    def _written(self, bundle: OutgoingBundle) -> Bundle:
        arrays: list[NDArray[np.generic]] = []
        recorded: list[tuple[OnFile, int]] = []
        for piece in bundle.pieces:
            payload = piece.payload
            if isinstance(payload, JpegFrame):
                arrays.append(np.frombuffer(payload.data, np.uint8))
            elif not isinstance(payload, Black):
                arrays.append(payload)
                if piece.on_file is not None:
                    recorded.append((piece.on_file, room_for(*payload.shape[:2])))
        places: list[int] = []
        if arrays:
            places = self._ring.write(self._key_of(bundle.number), arrays, [size for _, size in recorded])
        rooms = places[len(arrays) :]
        if recorded:
            self._rooms[bundle.number] = [(room, on_file) for room, (on_file, _) in zip(rooms, recorded, strict=True)]
        # Of the next piece, and of the next one with a room.
        index = room_index = 0
        frames, sounds = [], []
        for piece in bundle.pieces:
            payload, seat = piece.payload, piece.track.seat
            if isinstance(payload, Black):
                size = payload.height, payload.width
                frames.append(
                    BundleFrame(piece.track.name, piece.seq, -1, *size, seat=seat, others_seqs=piece.others_seqs)
                )
                continue
            place, index = places[index], index + 1
            if piece.track.kind == "video":
                height, width, _ = payload.shape
                room, jpeg_bytes = -1, 0
                if isinstance(payload, JpegFrame):
                    jpeg_bytes = len(payload.data)
                    if piece.on_file is not None:
                        piece.on_file(payload.data, OWN_QUALITY)
                elif piece.on_file is not None:
                    room, room_index = rooms[room_index], room_index + 1
                frames.append(
                    BundleFrame(
                        piece.track.name,
                        piece.seq,
                        place,
                        height,
                        width,
                        piece.metadata,
                        jpeg_bytes,
                        room,
                        seat,
                        piece.others_seqs,
                    )
                )
            else:
                channels, samples = payload.shape
                rate = piece.track.sample_rate or 0
                sounds.append(
                    BundleSound(
                        piece.track.name, piece.seq, place, channels, samples, rate, piece.at, seat, piece.others_seqs
                    )
                )
        return Bundle(
            bundle.session,
            bundle.number,
            bundle.due,
            bundle.interval_s,
            bundle.handed_over,
            bundle.wall_us,
            bundle.applied[0],
            bundle.step_s,
            tuple(frames),
            tuple(sounds),
            bundle.first,
            bundle.inputs,
            bundle.reserve_s,
            bundle.applied[1:],
        )

    def send(self, message: ToServer) -> None:
        self._channel.send(message, self._slot)

    def release(self, number: int) -> None:
        if self._rooms:
            for room, on_file in self._rooms.pop(number, ()):
                on_file(self._ring.read_file(room), jpeg.QUALITY)
        self._ring.release(self._key_of(number))

    def _key_of(self, number: int) -> int:
        """Return the key of a bundle in the memory, which the sessions of a model share."""
        return number * MOST_SESSIONS + self._slot
