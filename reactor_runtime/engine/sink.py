"""Where the engine's output goes: through the seam to a server, or wherever an offline driver collects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.tracks import TrackSpec
from reactor_runtime.media.bands import bands
from reactor_runtime.seam.channel import Channel
from reactor_runtime.seam.messages import Moment, Picture, Sound, ToServer
from reactor_runtime.seam.nudge import Nudger, Place
from reactor_runtime.seam.ring import RingWriter


@dataclass(frozen=True, slots=True)
class Black:
    """A black frame of a size, which needs no pixels."""

    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, 3


@dataclass(frozen=True, slots=True)
class Piece:
    """What one track shows or plays within a moment, from `at` on."""

    track: TrackSpec
    seq: int
    payload: NDArray[np.generic] | Black
    at: float


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A moment on its way out; its arrays belong to the author again once `show` has returned.

    It lasts `interval_s`.
    """

    session: str
    number: int
    due: float
    interval_s: float
    handed_over: float
    wall_us: int
    applied: int
    step_s: float
    pieces: tuple[Piece, ...]
    first: bool = True
    inputs: tuple[float, ...] = ()


class Sink(Protocol):
    """Take what the model makes, in order."""

    def show(self, moment: Outgoing) -> None: ...

    def send(self, message: ToServer) -> None: ...

    def release(self, number: int) -> None:
        """Free what the moment holds: it was shown or dropped."""


class _Nudges:
    """The nudges for one moment, counted; after one that found no room there are no more."""

    def __init__(self, nudger: Nudger | None, moment: int) -> None:
        self._nudger = nudger
        self._moment = moment
        self.given = 0

    def give(self, place: Place) -> None:
        if self._nudger is not None and self._nudger.nudge(self._moment, self.given, place):
            self.given += 1
        else:
            self._nudger = None


class SeamSink:
    """Write moments into shared memory and tell the server where they lie."""

    def __init__(self, channel: Channel, ring: RingWriter, nudger: Nudger | None = None) -> None:
        self._channel = channel
        self._ring = ring
        self._nudger = nudger

    def show(self, moment: Outgoing) -> None:
        try:
            self._channel.send(self._written(moment))
        except BaseException:
            self._ring.release(moment.number)  # the server never heard of it, and gives no credit
            raise

    def _written(self, moment: Outgoing) -> Moment:
        sizes = [piece.payload.nbytes for piece in moment.pieces if not isinstance(piece.payload, Black)]
        offsets = iter(self._ring.reserve(moment.number, sizes) if sizes else ())
        nudges = _Nudges(self._nudger, moment.number)
        pictures, sounds = [], []
        for piece in moment.pieces:
            payload = piece.payload
            if isinstance(payload, Black):
                pictures.append(Picture(piece.track.name, piece.seq, -1, payload.height, payload.width))
                self._place(-1, payload, nudges)
            elif piece.track.kind == "video":
                height, width, _ = payload.shape
                pictures.append(Picture(piece.track.name, piece.seq, next(offsets), height, width))
                self._place(pictures[-1].offset, payload, nudges)
            else:
                channels, samples = payload.shape
                rate = piece.track.sample_rate or 0
                sounds.append(Sound(piece.track.name, piece.seq, next(offsets), channels, samples, rate, piece.at))
                self._ring.copy(sounds[-1].offset, payload)
        return Moment(
            moment.session,
            moment.number,
            moment.due,
            moment.interval_s,
            moment.handed_over,
            moment.wall_us,
            moment.applied,
            moment.step_s,
            tuple(pictures),
            tuple(sounds),
            moment.first,
            moment.inputs,
            nudges.given,
        )

    def _place(self, offset: int, pixels: NDArray[np.generic] | Black, nudges: _Nudges) -> None:
        """Copy a picture band by band: a thread encodes the first while the next is copied."""
        height, width, _ = pixels.shape
        for rows in bands(height, width):
            count = rows.stop - rows.start
            if isinstance(pixels, Black):
                nudges.give(Place(-1, count, width))
            else:
                at = offset + rows.start * width * 3
                self._ring.copy(at, pixels[rows])
                nudges.give(Place(at, count, width))

    def send(self, message: ToServer) -> None:
        self._channel.send(message)

    def release(self, number: int) -> None:
        self._ring.release(number)
