"""The output of an offline engine, recorded in order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clock import Timer
from reactor_runtime.engine.output.sink import Black, OutgoingBundle, Piece
from reactor_runtime.errors import ReactorError, from_json
from reactor_runtime.ipc.messages import (
    Credit,
    Ended,
    EventApplied,
    EventRefused,
    Flush,
    MessageSent,
    ModelWarning,
    Reloaded,
    Started,
    Stepped,
    ToServer,
)
from reactor_runtime.media.jpeg_frame import pixels_of
from reactor_runtime.testing.clock import FakeClock

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Hold a frame of a video track, or a piece of sound of an audio track.

    `due_s` counts from the start of the session, `seq` within the track. `applied` is the number of events that the
    model had handled when it made the frame, `metadata` what clients get with it. `seat` is the one that it is for,
    None for all; `applied` then counts the events of the first.
    """

    track: str
    due_s: float
    seq: int
    applied: int
    array: NDArray[Any]
    metadata: dict[str, Any] | None = None
    seat: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Hold a message to clients: `{"type": type, "data": data}` on the wire."""

    type: str
    data: dict[str, Any]


class OutputRecorder:
    """Record the output of an engine, and call `send_credit` for each bundle when it is due.

    `on_started` is called when a session has started, before `@connected`.
    """

    def __init__(
        self,
        clock: FakeClock,
        send_credit: Callable[[Credit], object],
        on_started: Callable[[Started], object] = lambda _: None,
    ) -> None:
        self.frames: list[Frame] = []
        self.messages: list[Message] = []
        self.unread: list[Message] = []
        self.answers: dict[str | int | None, EventApplied | EventRefused | Stepped] = {}
        self.failures: list[BaseException] = []
        self.warnings: list[ReactorError] = []
        self.reloaded: Reloaded | None = None
        self.ended = True
        # Whether an exception has ended the session; it is the last one in `failures`.
        self.session_failed = False
        self._send_credit = send_credit
        self._on_started = on_started
        self._clock = clock
        self.began = 0.0
        self._queued: dict[int, tuple[Timer, list[Frame]]] = {}

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        frames = [self._frame(bundle, piece) for piece in bundle.pieces]
        self.frames += frames
        credit = Credit(bundle.session, bundle.number, ready_at=bundle.handed_over)
        self._credit_at(bundle.due, credit, frames)

    def send(self, message: ToServer) -> None:
        match message:
            case MessageSent():
                self._add_message(Message(message.type, message.data))
            case EventApplied(ticket=None, reply=reply):
                if reply is not None:
                    self._add_message(Message(*reply))
            case EventApplied() | EventRefused() | Stepped():
                self.answers[message.ticket] = message
            case Flush():
                self._drop(message)
            case Started():
                self.began, self.ended = message.started_at, False
                self._on_started(message)
            case Ended():
                self.ended, self.session_failed = True, message.error is not None
            case Reloaded():
                self.reloaded = message
                if message.status == "applied" and message.reason:
                    logger.warning("%s", message.reason)
            case ModelWarning():
                self.warnings.append(from_json(message.error))

    def _add_message(self, message: Message) -> None:
        self.messages.append(message)
        self.unread.append(message)

    def clear(self) -> None:
        """Drop the frames and messages so far."""
        self.frames.clear()
        self.messages.clear()
        self.unread.clear()

    @property
    def has_queued(self) -> bool:
        """Return whether bundles wait to be due."""
        return bool(self._queued)

    def take_shown(self) -> list[Frame]:
        """Remove the frames whose bundles have been due, and return them, oldest first."""
        queued = {id(frame) for _, frames in self._queued.values() for frame in frames}
        shown = [frame for frame in self.frames if id(frame) not in queued]
        self.frames[:] = [frame for frame in self.frames if id(frame) in queued]
        return shown

    def release(self, number: int) -> None:
        """Do nothing: the recorder keeps copies."""

    def _frame(self, bundle: OutgoingBundle, piece: Piece) -> Frame:
        payload = piece.payload
        if isinstance(payload, Black):
            array: NDArray[Any] = np.zeros((payload.height, payload.width, 3), np.uint8)
        else:
            # The author may reuse the array when this returns.
            array = pixels_of(payload).copy()
        metadata = json.loads(piece.metadata) if piece.metadata else None
        track, due_s = piece.track, round(piece.at - self.began, 9)
        return Frame(track.name, due_s, piece.seq, bundle.applied[track.seat or 0], array, metadata, track.seat)

    def _finish_bundle(self, credit: Credit) -> None:
        del self._queued[credit.bundle]
        self._send_credit(credit)

    def _drop(self, flush: Flush) -> None:
        """Remove the frames that are not due yet: no client would receive them."""
        dropped: set[int] = set()
        for number in [number for number in self._queued if number < flush.before]:
            timer, frames = self._queued[number]
            timer.cancel()
            dropped.update(map(id, frames))
            self._credit_at(self._clock.now(), Credit(flush.session, number, ready_at=0.0), [])
        self.frames[:] = [frame for frame in self.frames if id(frame) not in dropped]

    def _credit_at(self, due: float, credit: Credit, frames: list[Frame]) -> None:
        self._queued[credit.bundle] = self._clock.call_at(due, lambda: self._finish_bundle(credit)), frames
