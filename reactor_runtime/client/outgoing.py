"""Pictures and sound on their way to the model: checked when they are published, encoded when they can go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.client.message import Track, write
from reactor_runtime.media import jpeg, wav
from reactor_runtime.media.frames import check_audio, check_video
from reactor_runtime.wire.media_header import MediaHeader, attach
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES

MOST_SOUNDS = 100
HEADER_BYTES = 1024  # more than a file's header takes, with the name of its track


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """Something to send: a file as it is, or an array still to be encoded.

    `told` is called once: with true when it has gone, with false when it is left out.
    """

    track: Track
    content: bytes | NDArray[np.uint8] | NDArray[np.int16]
    seq: int
    at_s: float
    told: Callable[[bool], object]

    def encode(self) -> bytes:
        """Write the file, with the header that names its track."""
        if isinstance(self.content, bytes):
            file = self.content
        elif self.track.kind == "video":
            file = jpeg.encode(self.content.astype(np.uint8, copy=False))
        else:
            assert self.track.sample_rate is not None, "tracks of sound have a rate"
            file = wav.encode(self.content.astype(np.int16, copy=False), self.track.sample_rate)
        us = int(self.at_s * 1e6)
        return attach(MediaHeader(self.track.name, self.seq, us, us), file)


class SendQueue:
    """Keep what is to go: texts in their order, of each video track the newest picture only, of sound 100 pieces.

    Over that the oldest piece goes. An acknowledgement replaces the one of its track that still waits.
    """

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._shown: dict[str, int] = {}
        self._said_shown: dict[str, int] = {}
        self._pictures: dict[str, OutgoingFile] = {}
        self._sounds: deque[OutgoingFile] = deque()
        self._numbers: dict[str, int] = {}

    def say(self, text: str) -> None:
        self._texts.append(text)

    def acknowledge(self, track: str, seq: int) -> None:
        """Say that all frames of a track up to `seq` have been taken; the same is said once."""
        if self._said_shown.get(track) != seq:
            self._shown[track] = self._said_shown[track] = seq

    def forget_shown(self) -> None:
        """Begin anew, as the numbers of the frames do with another session."""
        self._shown.clear()
        self._said_shown.clear()

    def put(
        self,
        track: Track,
        content: object,
        at_s: float,
        *,
        most_bytes: int = MAX_MEDIA_BYTES,
        told: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Take a picture or a piece of sound: an array, a tensor, or the bytes of a JPEG or WAV file.

        An array is copied: the caller may draw the next one into it. `told` is called once: with true when it has gone,
        with false when it is left out. Raises `TypeError` and `ValueError` for what the
        track can't take, and for files and sound that with their header are longer than `most_bytes`.
        """
        checked = _checked(track, content)
        size = len(checked) if isinstance(checked, bytes) else checked.nbytes if track.kind == "audio" else 0
        if size > most_bytes - HEADER_BYTES:
            raise ValueError(f"{track.name}: {size} bytes at once are too many; at most {most_bytes - HEADER_BYTES}")
        number = self._numbers.get(track.name, 0)
        self._numbers[track.name] = number + 1
        outgoing = OutgoingFile(track, checked, number, at_s, told)
        if track.kind == "video":
            if track.name in self._pictures:
                self._pictures[track.name].told(False)
            self._pictures[track.name] = outgoing  # a track keeps its place: the one that waits longest goes first
            return
        if len(self._sounds) == MOST_SOUNDS:
            self._sounds.popleft().told(False)
        self._sounds.append(outgoing)

    def next(self) -> str | OutgoingFile | None:
        """Take what goes next: what is small first."""
        if self._shown:
            track, seq = self._shown.popitem()
            return write("reactor.ack", {"track": track, "seq": seq})
        if self._texts:
            return self._texts.popleft()
        if self._sounds:
            return self._sounds.popleft()
        return self._pictures.pop(next(iter(self._pictures))) if self._pictures else None

    @property
    def waits(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._shown or self._texts or self._sounds or self._pictures)

    def clear(self) -> None:
        """Forget what waits, as meant for a connection that is gone."""
        for outgoing in (*self._pictures.values(), *self._sounds):
            outgoing.told(False)
        self._texts.clear()
        self.forget_shown()
        self._pictures.clear()
        self._sounds.clear()


def _checked(track: Track, content: object) -> bytes | NDArray[np.uint8] | NDArray[np.int16]:
    if isinstance(content, bytes | bytearray | memoryview):
        return _file(track, bytes(content))
    if track.kind == "audio":
        return check_audio(track.name, content).copy()
    picture = check_video(track.name, content)
    if picture.ndim != 3:
        raise ValueError(f"{track.name}: publish one picture at a time, not a batch of {len(picture)}")
    return picture.copy()


def _file(track: Track, content: bytes) -> bytes:
    start, name = (b"\xff\xd8", "JPEG") if track.kind == "video" else (b"RIFF", "WAV")
    if not content.startswith(start):
        raise ValueError(f"{track.name}: these bytes are no {name} file")
    return content
