"""Messages and media that wait to be sent; media is checked when it is published and encoded when it is sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.client.messages import Track, write
from reactor_runtime.media import jpeg, npy, wav
from reactor_runtime.media.frames import check_audio, check_video
from reactor_runtime.media.metadata import check_size, metadata_text
from reactor_runtime.wire.containers import INPUTS, attach, container_of, names_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES

MAX_SOUNDS = 100
# An upper bound for the header of a file, with the name of its track.
HEADER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class OutgoingMedia:
    """A frame or a piece of sound to send: a file, or an array that is not yet encoded.

    `on_done` is called once: with true when it was sent, with false when it was dropped.
    """

    track: Track
    content: bytes | NDArray[np.uint8] | NDArray[np.int16]
    seq: int
    at_s: float
    on_done: Callable[[bool], object]
    metadata: bytes = b""
    capture_time_us: int = 0

    def encode(self) -> bytes:
        """Return the file, with a header that has its track, its times and its metadata."""
        if isinstance(self.content, bytes):
            file = self.content
        elif self.track.kind == "video":
            file = jpeg.encode(self.content.astype(np.uint8, copy=False))
        else:
            assert self.track.sample_rate is not None, "audio tracks have a sample rate"
            file = wav.encode(self.content.astype(np.int16, copy=False), self.track.sample_rate)
        pts_us = int(self.at_s * 1e6)
        header = MediaHeader(self.track.name, self.seq, pts_us, self.capture_time_us, metadata=self.metadata)
        return attach(header, file, INPUTS)


class SendQueue:
    """Keep texts in order, the newest frame of each video track, and 100 pieces of sound.

    When full, the oldest piece of sound is dropped. An acknowledgement replaces the unsent one of its track.
    """

    def __init__(self) -> None:
        # And files that have to arrive in order with them.
        self._texts: deque[str | bytes] = deque()
        # Track → number, and how long its frame was held.
        self._unsent_acks: dict[str, tuple[int, float]] = {}
        self._last_acks: dict[str, int] = {}
        self._frames: dict[str, OutgoingMedia] = {}
        self._sounds: deque[OutgoingMedia] = deque()
        self._next_seqs: dict[str, int] = {}

    def put_text(self, text: str | bytes) -> None:
        self._texts.append(text)

    def put_ack(self, track: str, seq: int, held_s: float = 0.0) -> None:
        """Acknowledge all frames of a track up to `seq`, the last one after `held_s`; the same number is sent once."""
        if self._last_acks.get(track) != seq:
            self._last_acks[track] = seq
            self._unsent_acks[track] = seq, held_s

    def reset_acks(self) -> None:
        """Forget all acknowledgements: in another session the frame numbers start again."""
        self._unsent_acks.clear()
        self._last_acks.clear()

    def put_media(
        self,
        track: Track,
        content: object,
        at_s: float,
        *,
        metadata: Mapping[str, object] | bytes | None = None,
        capture_time_us: int = 0,
        max_bytes: int = MAX_MEDIA_BYTES,
        on_done: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Queue a frame or a piece of sound: an array, a tensor, or the bytes of a JPEG or WAV file.

        Copies an array, so that the caller can reuse it. `on_done` is called once: with true when it was sent, with
        false when it was dropped. Raises `TypeError` and `ValueError` for content that does not fit the track, for
        metadata that is not JSON or too large, and for files and sound that are longer than `max_bytes` with their
        header.
        """
        checked = _checked(track, content)
        sent = _encoded(track, metadata)
        most = max_bytes - HEADER_BYTES - len(sent)
        size = len(checked) if isinstance(checked, bytes) else checked.nbytes if track.kind == "audio" else 0
        if size > most:
            raise ValueError(f"{track.name}: {size} bytes at once are too many; at most {most}")
        if not 0 <= capture_time_us < 2**64:
            raise ValueError(f"{track.name}: capture_time_us is microseconds since the epoch, not {capture_time_us}")
        seq = self._next_seqs.get(track.name, 0)
        self._next_seqs[track.name] = seq + 1
        outgoing = OutgoingMedia(track, checked, seq, at_s, on_done, sent, capture_time_us)
        if track.kind == "video":
            if track.name in self._frames:
                self._frames[track.name].on_done(False)
            # The dict keeps the track's place: the track that has waited longest is sent first.
            self._frames[track.name] = outgoing
            return
        if len(self._sounds) == MAX_SOUNDS:
            self._sounds.popleft().on_done(False)
        self._sounds.append(outgoing)

    def file_of(self, track: Track, content: object, at_s: float, *, max_bytes: int = MAX_MEDIA_BYTES) -> bytes:
        """Return the file of a frame or a piece of sound with its header; an array of pixels loses nothing.

        Raises as `put_media` does.
        """
        checked = _checked(track, content)
        if not isinstance(checked, bytes) and track.kind == "video":
            checked = npy.encode(checked.astype(np.uint8, copy=False))
        seq = self._next_seqs.get(track.name, 0)
        self._next_seqs[track.name] = seq + 1
        file = OutgoingMedia(track, checked, seq, at_s, lambda _: None).encode()
        if len(file) > max_bytes:
            raise ValueError(f"{track.name}: {len(file)} bytes at once are too many; at most {max_bytes}")
        return file

    def take_next(self) -> str | bytes | OutgoingMedia | None:
        """Remove and return the next item to send, the smallest kind first; None when the queue is empty."""
        if self._unsent_acks:
            track, (seq, held_s) = self._unsent_acks.popitem()
            return write("reactor.ack", {"track": track, "seq": seq, "held_ms": round(1e3 * held_s)})
        if self._texts:
            return self._texts.popleft()
        if self._sounds:
            return self._sounds.popleft()
        return self._frames.pop(next(iter(self._frames))) if self._frames else None

    @property
    def is_empty(self) -> bool:
        return not (self._unsent_acks or self._texts or self._sounds or self._frames)

    def clear(self) -> None:
        """Drop everything: it was meant for a connection that is lost."""
        for outgoing in (*self._frames.values(), *self._sounds):
            outgoing.on_done(False)
        self._texts.clear()
        self.reset_acks()
        self._frames.clear()
        self._sounds.clear()


def _encoded(track: Track, metadata: Mapping[str, object] | bytes | None) -> bytes:
    """Return the bytes of metadata as the model gets them."""
    if metadata is None:
        return b""
    if not isinstance(metadata, bytes | bytearray | memoryview):
        fields = dict(metadata) if isinstance(metadata, Mapping) else metadata
        return metadata_text(track.name, fields).encode()
    sent = bytes(metadata)
    check_size(track.name, len(sent))
    return sent


def _checked(track: Track, content: object) -> bytes | NDArray[np.uint8] | NDArray[np.int16]:
    if isinstance(content, bytes | bytearray | memoryview):
        return _checked_file(track, bytes(content))
    if track.kind == "audio":
        return check_audio(track.name, content).copy()
    pixels = check_video(track.name, content)
    if pixels.ndim != 3:
        raise ValueError(f"{track.name}: publish one frame at a time, not a batch of {len(pixels)}")
    return pixels.copy()


def _checked_file(track: Track, content: bytes) -> bytes:
    container = container_of(content, INPUTS)
    if container is None or container.kind != track.kind:
        raise ValueError(f"{track.name}: these bytes are not a {names_of(INPUTS, track.kind)} file")
    return content
