"""The way of a moment inside the server: encoded ahead, shown when it is due, in order, its credit given back."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.media import jpeg, wav
from reactor_runtime.seam.messages import Credit, Moment, Picture, Sound
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.encoder import Encoder
from reactor_runtime.server.figures import Figures
from reactor_runtime.server.outbox import EncodedFrame, EncodedSound
from reactor_runtime.server.trace_events import Stages
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach

logger = logging.getLogger(__name__)

EARLY_S = 0.00025  # what a timer and a turn of the loop would take: a moment that close to its time is shown at once
CLOSEST = 0.8  # of an interval: after a stall of the server what was late catches up this fast instead of in a burst


class Stage(Protocol):
    """Where what is due is shown: to every client of the session."""

    def show(self, frame: EncodedFrame) -> None: ...

    def play(self, sound: EncodedSound) -> None: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """What encoding a moment gave, and how long it took."""

    frames: tuple[EncodedFrame, ...]
    sounds: tuple[EncodedSound, ...]
    began: float
    ended: float
    thread: int


@dataclass(slots=True)
class _Queued:
    moment: Moment
    arrived_at: float
    encoding: Future[Encoded] | None = None
    ready_at: float = 0.0
    dropped: bool = False


class Playout:
    """Show moments at their due time, and messages after the moments before them; belongs to the server's loop.

    Bounded by the engine: it hands over no more moments than it has credits for.
    """

    def __init__(
        self,
        clock: Clock,
        encoder: Encoder,
        stage: Stage,
        credit: Callable[[Credit], None],
        figures: Figures | None = None,
    ) -> None:
        self._clock = clock
        self._encoder = encoder
        self._stage = stage
        self._credit = credit
        self._alarm = Alarm(clock)
        self._queue: deque[_Queued | Callable[[], None]] = deque()
        self._not_before = 0.0
        self._flushed = False
        self._begun: set[str] = set()
        self.times = Times()
        self._figures = figures or Figures()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, moment: Moment, ring: RingReader, started_at: float) -> None:
        """Queue a moment and start encoding it; `started_at` is the session's start."""
        self._figures.arrived(moment)
        first = self._first_of(moment)
        queued = _Queued(moment, self._clock.now())
        self._encoder.submit(
            lambda: encode_moment(moment, ring, started_at, first), lambda encoding: self._encoded(queued, encoding)
        )
        self._queue.insert(self._place(moment), queued)

    def _first_of(self, moment: Moment) -> set[str]:
        """Tell for which tracks this is the first after a flush."""
        if not self._flushed:
            return set()
        tracks = [picture.track for picture in moment.pictures] + [sound.track for sound in moment.sounds]
        first = set(tracks) - self._begun
        self._begun |= first
        return first

    def _place(self, moment: Moment) -> int:
        """Find where in the queue a moment belongs: sound alone and frames are made in any order, and due in theirs."""
        place = len(self._queue)
        for index in reversed(range(len(self._queue))):
            item = self._queue[index]
            if isinstance(item, _Queued):
                if item.moment.due <= moment.due:
                    break
                place = index
        return place

    def put_message(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` when everything queued so far has been shown."""
        if self._queue:
            self._queue.append(deliver)
        else:
            deliver()

    def flush(self, before: int) -> None:
        """Drop the moments numbered below `before`; messages among them are delivered at once."""
        kept: deque[_Queued | Callable[[], None]] = deque()
        for item in self._queue:
            if not isinstance(item, _Queued):
                item() if not kept else kept.append(item)
            elif item.moment.number < before:
                self._lost(item.moment, "flushed")
                self._drop(item)
            else:
                kept.append(item)
        self._queue = kept
        self._flushed = True
        self._begun.clear()
        self._not_before = 0.0
        self._alarm.ring()

    def clear(self) -> None:
        """Drop everything: the engine is gone, and with it whoever waits for credits and messages."""
        for item in self._queue:
            if isinstance(item, _Queued):
                item.dropped = True
                self._lost(item.moment, "engine_lost")
        self._queue.clear()

    async def run(self) -> None:
        """Show what is due, until cancelled."""
        while True:
            await self._alarm.wait(self._show_due())

    def _show_due(self) -> float | None:
        """Show everything whose time has come; says when to look again, None if only news can change anything."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, _Queued):
                if not item.ready_at:
                    return None
                at = item.moment.due
                if item.moment.pictures:  # sound isn't seen to come in a burst, and its times say when it is heard
                    at = max(at, self._not_before)
                if self._clock.now() < at - EARLY_S:
                    return at
            self._queue.popleft()
            if isinstance(item, _Queued):
                self._show(item)
            else:
                item()
        return None

    def _encoded(self, item: _Queued, encoding: Future[Encoded]) -> None:
        item.encoding = encoding
        item.ready_at = self._clock.now()
        if encoding.exception() is None:
            self._figures.encoded(item.moment, encoding.result().ended - encoding.result().began)
        if item.dropped:
            self._drop(item)
        if self._show_due() is not None:  # at once: waking the task that waits would take another turn of the loop
            self._alarm.ring()

    def _lost(self, moment: Moment, reason: str) -> None:
        self._figures.lost(moment, reason)
        if self._figures.trace is not None:
            self._figures.trace.dropped(moment, self._clock.now(), reason)

    def _drop(self, item: _Queued) -> None:
        """Give the credit back, once nothing reads the moment's memory any more."""
        item.dropped = True
        if item.ready_at:
            self._credit(Credit(item.moment.session, item.moment.number, 0.0))

    def _show(self, item: _Queued) -> None:
        moment = item.moment
        now = self._clock.now()
        if moment.pictures:
            self._not_before = now + moment.interval_s * CLOSEST
        assert item.encoding is not None, "only what is encoded is shown"
        error = item.encoding.exception()
        if error is not None:
            whose = {"session": moment.session}
            logger.error("a moment could not be encoded and is skipped", exc_info=error, extra=whose)
            self._lost(moment, "failed")
        else:
            encoded = item.encoding.result()
            self._figures.shown(moment, now)
            for frame in encoded.frames:
                self._stage.show(frame)
            for sound in encoded.sounds:
                self._stage.play(sound)
            if self._figures.trace is not None:
                times = item.arrived_at, encoded.began, encoded.ended, encoded.thread, item.ready_at, now
                self._figures.trace.shown(moment, Stages(*times))
            self.times.add(
                StageTimes(
                    step=moment.step_s,
                    arrive=item.arrived_at - moment.handed_over,
                    queue=encoded.began - item.arrived_at,
                    encode=encoded.ended - encoded.began,
                    back=item.ready_at - encoded.ended,
                    hold=max(0.0, min(now, moment.due) - item.ready_at),
                    late=max(0.0, now - moment.due),
                )
            )
        self._credit(Credit(moment.session, moment.number, item.ready_at))


class StageTimes(NamedTuple):
    """Seconds a moment spent in each stage from the start of its step until it was shown."""

    step: float
    arrive: float  # from hand-over, through shared memory and seam, to the server's loop
    queue: float  # until an encoder thread took it
    encode: float
    back: float  # from the encoder thread to the loop
    hold: float  # ready and not yet due
    late: float  # shown after it was due


class Times:
    """Keep the recent times of stages, for figures."""

    def __init__(self) -> None:
        self._recent: deque[StageTimes] = deque(maxlen=64)

    def add(self, times: StageTimes) -> None:
        self._recent.append(times)

    def medians_ms(self) -> dict[str, float]:
        """Give the median of each stage over the last 64 moments, as `encode_ms` and so on."""
        if not self._recent:
            return {}
        medians = np.median(np.array(self._recent), axis=0)
        return {
            f"{name}_ms": round(1e3 * float(value), 2) for name, value in zip(StageTimes._fields, medians, strict=True)
        }


def encode_moment(moment: Moment, ring: RingReader, started_at: float, first: Collection[str]) -> Encoded:
    """Encode all that a moment shows and plays, of some tracks the `first` after a flush; runs on an encoder thread."""
    began = time.monotonic()

    def header(part: Picture | Sound, at: float) -> MediaHeader:
        flag = FrameFlag.AFTER_FLUSH if part.track in first else FrameFlag(0)
        pts_us = max(0, round((at - started_at) * 1e6))
        return MediaHeader(part.track, part.seq, pts_us, moment.wall_us, moment.applied, flag)

    frames = tuple(
        EncodedFrame(
            picture.track,
            picture.seq,
            attach(header(picture, moment.due), jpeg.encode(_pixels(picture, ring))),
            moment.interval_s,
        )
        for picture in moment.pictures
    )
    sounds = tuple(_encode_sound(sound, ring, header(sound, sound.at)) for sound in moment.sounds)
    return Encoded(frames, sounds, began, time.monotonic(), threading.get_native_id())


def _pixels(picture: Picture, ring: RingReader) -> NDArray[np.uint8]:
    if picture.offset < 0:
        return np.zeros((picture.height, picture.width, 3), np.uint8)
    return ring.picture(picture.offset, picture.height, picture.width)


def _encode_sound(sound: Sound, ring: RingReader, header: MediaHeader) -> EncodedSound:
    samples = ring.samples(sound.offset, sound.channels, sound.samples)
    data = attach(header, wav.encode(samples, sound.sample_rate))
    return EncodedSound(sound.track, data, sound.samples / sound.sample_rate)
