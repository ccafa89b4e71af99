"""The newest frame of each track, kept for clients that join, in full size where a client needs that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future

from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.server.encoding.encoder import Encoder

logger = logging.getLogger(__name__)


class LatestFrames:
    """Hold the newest frame of each track.

    If no client is sent the full size in the default encoding, that file is made when it is requested: on the encoder's
    threads, or at once without an encoder.
    """

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder
        self._frames: dict[str, EncodedFrame] = {}
        self._encoding: dict[str, asyncio.Future[EncodedFrame]] = {}

    def __iter__(self) -> Iterator[EncodedFrame]:
        return iter(tuple(self._frames.values()))

    def get(self, track: str) -> EncodedFrame | None:
        return self._frames.get(track)

    def put_frame(self, frame: EncodedFrame) -> None:
        """Replace the track's frame; requests for the full size of the old one no longer count."""
        self._frames[frame.track] = frame
        self._encoding.pop(frame.track, None)

    def clear(self) -> None:
        self._frames.clear()
        self._encoding.clear()

    def encode_full_size(self, track: str) -> asyncio.Future[EncodedFrame]:
        """Return the track's frame with its full size, or as it is if that fails; one job serves all requests."""
        encoding = self._encoding.get(track)
        if encoding is None:
            encoding = self._encoding[track] = asyncio.get_running_loop().create_future()
            self._start_encoding(self._frames[track], encoding)
        return encoding

    def _start_encoding(self, frame: EncodedFrame, encoding: asyncio.Future[EncodedFrame]) -> None:
        def on_encoded(outcome: Future[list[EncodedFrame]]) -> None:
            error = outcome.exception()
            if error is not None:
                logger.error("the latest frame could not be encoded in full size", exc_info=error)
            full = frame if error is not None else outcome.result()[0]
            if self._frames.get(frame.track) is frame:
                self._frames[frame.track] = full
            encoding.set_result(full)

        if self._encoder is not None:
            self._encoder.submit([frame.with_full_size], on_encoded)
            return
        at_once: Future[list[EncodedFrame]] = Future()
        at_once.set_result([frame.with_full_size()])
        on_encoded(at_once)
