"""Where the engine's output goes: through the seam to a server, or wherever an offline driver collects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.tracks import TrackSpec
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.encode_hint import EncodeHinter, HintedBand
from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound, ToServer
from reactor_runtime.ipc.ring import RingWriter
from reactor_runtime.media.bands import bands


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
class OutgoingBundle:
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

    def show(self, bundle: OutgoingBundle) -> None: ...

    def send(self, message: ToServer) -> None: ...

    def release(self, number: int) -> None:
        """Free what the moment holds: it was shown or dropped."""


class _Hints:
    """The nudges for one moment, counted; after one that found no room there are no more."""

    def __init__(self, hinter: EncodeHinter | None, bundle: int) -> None:
        self._hinter = hinter
        self._bundle = bundle
        self.given = 0

    def give(self, place: HintedBand) -> None:
        if self._hinter is not None and self._hinter.hint(self._bundle, self.given, place):
            self.given += 1
        else:
            self._hinter = None


class IpcSink:
    """Write moments into shared memory and tell the server where they lie."""

    def __init__(self, channel: Channel, ring: RingWriter, hinter: EncodeHinter | None = None) -> None:
        self._channel = channel
        self._ring = ring
        self._hinter = hinter

    def show(self, bundle: OutgoingBundle) -> None:
        try:
            self._channel.send(self._written(bundle))
        except BaseException:
            self._ring.release(bundle.number)  # the server never heard of it, and gives no credit
            raise

    def _written(self, bundle: OutgoingBundle) -> Bundle:
        sizes = [piece.payload.nbytes for piece in bundle.pieces if not isinstance(piece.payload, Black)]
        offsets = iter(self._ring.reserve(bundle.number, sizes) if sizes else ())
        hints = _Hints(self._hinter, bundle.number)
        pictures, sounds = [], []
        for piece in bundle.pieces:
            payload = piece.payload
            if isinstance(payload, Black):
                pictures.append(BundleFrame(piece.track.name, piece.seq, -1, payload.height, payload.width))
                self._place(-1, payload, hints)
            elif piece.track.kind == "video":
                height, width, _ = payload.shape
                pictures.append(BundleFrame(piece.track.name, piece.seq, next(offsets), height, width))
                self._place(pictures[-1].offset, payload, hints)
            else:
                channels, samples = payload.shape
                rate = piece.track.sample_rate or 0
                sounds.append(
                    BundleSound(piece.track.name, piece.seq, next(offsets), channels, samples, rate, piece.at)
                )
                self._ring.copy(sounds[-1].offset, payload)
        return Bundle(
            bundle.session,
            bundle.number,
            bundle.due,
            bundle.interval_s,
            bundle.handed_over,
            bundle.wall_us,
            bundle.applied,
            bundle.step_s,
            tuple(pictures),
            tuple(sounds),
            bundle.first,
            bundle.inputs,
            hints.given,
        )

    def _place(self, offset: int, pixels: NDArray[np.generic] | Black, hints: _Hints) -> None:
        """Copy a picture band by band: a thread encodes the first while the next is copied."""
        height, width, _ = pixels.shape
        for rows in bands(height, width):
            count = rows.stop - rows.start
            if isinstance(pixels, Black):
                hints.give(HintedBand(-1, count, width))
            else:
                at = offset + rows.start * width * 3
                self._ring.copy(at, pixels[rows])
                hints.give(HintedBand(at, count, width))

    def send(self, message: ToServer) -> None:
        self._channel.send(message)

    def release(self, number: int) -> None:
        self._ring.release(number)
