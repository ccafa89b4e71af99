"""The results of encoding: files with their media header, ready for the socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.containers import WAV, Container, replace_header
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader


class MediaFile(NamedTuple):
    """A file to be sent: a frame on one rung, or a piece of sound."""

    kind: Literal["video", "audio"]
    header: MediaHeader
    data: bytes

    def as_after_flush(self, container: Container) -> MediaFile:
        """Return the file, which is one of this container, with the flag for the first one after a flush."""
        header = self.header.as_after_flush()
        return self._replace(header=header, data=replace_header(container, header, self.data))


class VideoPiece(NamedTuple):
    """A message of a video stream, which no other replaces.

    `interval_s` is the time between two frames of the model, `paced_s` the seconds of the stream that the bits of the
    piece were budgeted for.
    """

    file: MediaFile
    # Its name.
    encoding: str
    is_key: bool
    interval_s: float
    paced_s: float


class Snapshot(NamedTuple):
    """An image of what a track shows, as a file."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A frame as files with its header, by the encodings and rungs in use.

    `pixels` has the frame in full size if there is no file of that size in the default encoding, or if clients take the
    track as video. `seat` is the one that the frame is for, None for all; `applied` of a frame for several seats counts
    the events of each, and `seqs` has its number in each.
    """

    header: MediaHeader
    files: Mapping[TrackEncoding, Mapping[int, MediaFile]]
    interval_s: float
    pixels: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    seat: int | None = None
    applied: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()

    @property
    def track(self) -> str:
        return self.header.track

    @property
    def seq(self) -> int:
        return self.header.seq

    def is_full_size(self, encoding: TrackEncoding) -> bool:
        """Return whether the best file of an encoding has the size that the model made the frame in."""
        files = self.files.get(encoding)
        return files is not None and encoding.rungs[min(files)].scale == 1

    def file_on(self, encoding: TrackEncoding, rung: int) -> tuple[int, MediaFile]:
        """Return the file of a rung, or else of the next worse one, or else of the worst, with its rung."""
        files = self.files[encoding]
        if rung not in files:
            rung = min((r for r in files if r > rung), default=max(files))
        return rung, files[rung]

    def merge(self, other: EncodedFrame) -> EncodedFrame:
        """Return the frame with the files of both."""
        files = dict(self.files)
        for encoding, by_rung in other.files.items():
            files[encoding] = {**files.get(encoding, {}), **by_rung}
        return replace(self, files=files, pixels=other.pixels if self.pixels is None else self.pixels)

    def with_full_size(self) -> EncodedFrame:
        """Return a frame whose pixels were kept with its file in full size in the default encoding added."""
        assert self.pixels is not None, "a frame that was sent to no client in full size keeps its pixels"
        data = DEFAULT.container.attach(self.header, DEFAULT.join((DEFAULT.encode(self.pixels, TOP),)))
        full = EncodedFrame(self.header, {DEFAULT: {TOP: MediaFile("video", self.header, data)}}, self.interval_s)
        return replace(full.merge(self), pixels=None, seat=self.seat, applied=self.applied, seqs=self.seqs)

    def as_held(self) -> EncodedFrame:
        """Return the frame with the flag for clients that joined after it was shown."""
        return self._with_header(replace(self.header, flags=self.header.flags | FrameFlag.HELD))

    def for_seat(self, seat: int) -> EncodedFrame:
        """Return a frame for several seats with the header for one: its number there, and that of applied events."""
        header = _header_for_seat(self, seat)
        return self if header == self.header else self._with_header(header)

    def _with_header(self, header: MediaHeader) -> EncodedFrame:
        files = {
            encoding: {
                rung: MediaFile("video", header, replace_header(encoding.container, header, file.data))
                for rung, file in by_rung.items()
            }
            for encoding, by_rung in self.files.items()
        }
        return replace(self, header=header, files=files)


@dataclass(frozen=True, slots=True)
class EncodedSound:
    """A piece of sound as a WAV file with its header; `seat`, `applied` and `seqs` are those of an `EncodedFrame`."""

    header: MediaHeader
    data: bytes
    duration_s: float
    seat: int | None = None
    applied: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()

    @property
    def track(self) -> str:
        return self.header.track

    def for_seat(self, seat: int) -> EncodedSound:
        """Return sound for several seats with the header for one; see `EncodedFrame.for_seat`."""
        header = _header_for_seat(self, seat)
        return (
            self if header == self.header else replace(self, header=header, data=replace_header(WAV, header, self.data))
        )

    def as_after_flush(self) -> EncodedSound:
        """Return the piece with the flag for the first one after a flush."""
        header = self.header.as_after_flush()
        return replace(self, header=header, data=replace_header(WAV, header, self.data))


def _header_for_seat(piece: EncodedFrame | EncodedSound, seat: int) -> MediaHeader:
    if piece.seat is not None or not piece.applied:
        return piece.header
    return replace(piece.header, applied=piece.applied[seat], seq=piece.seqs[seat])


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of a job, and when which encoder thread worked on it."""

    frames: tuple[EncodedFrame, ...]
    sounds: tuple[EncodedSound, ...]
    began: float
    ended: float
    thread: int
