"""The picture on screen of each track, and in the size the model made it in, for those who need that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future

from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.jobs import enlarged

logger = logging.getLogger(__name__)


class LatestFrames:
    """Hold the newest frame of each track.

    Where everybody sees a smaller one, the full size is encoded when somebody asks for it, on the encoder's threads;
    without an encoder at once.
    """

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder
        self._held: dict[str, EncodedFrame] = {}
        self._growing: dict[str, asyncio.Future[EncodedFrame]] = {}

    def __iter__(self) -> Iterator[EncodedFrame]:
        return iter(tuple(self._held.values()))

    def get(self, track: str) -> EncodedFrame | None:
        return self._held.get(track)

    def show(self, frame: EncodedFrame) -> None:
        """Replace what is on the track's screen, and forget who waits for that."""
        self._held[frame.track] = frame
        self._growing.pop(frame.track, None)

    def clear(self) -> None:
        self._held.clear()
        self._growing.clear()

    def grow(self, track: str) -> asyncio.Future[EncodedFrame]:
        """Have the frame on screen in full size; if it can't be had, the one there is. One job serves all who ask."""
        growing = self._growing.get(track)
        if growing is None:
            growing = self._growing[track] = asyncio.get_running_loop().create_future()
            self._encode(self._held[track], growing)
        return growing

    def _encode(self, frame: EncodedFrame, growing: asyncio.Future[EncodedFrame]) -> None:
        def done(outcome: Future[EncodedFrame]) -> None:
            error = outcome.exception()
            if error is not None:
                logger.error("the picture on screen could not be encoded in full size", exc_info=error)
            whole = frame if error is not None else outcome.result()
            if self._held.get(frame.track) is frame:
                self._held[frame.track] = whole
            growing.set_result(whole)

        if self._encoder is not None:
            self._encoder.submit(lambda _: enlarged(frame), done)
            return
        at_once: Future[EncodedFrame] = Future()
        at_once.set_result(enlarged(frame))
        done(at_once)
