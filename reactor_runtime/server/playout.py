"""The way of a moment inside the server: encoded ahead, shown when it is due, in order, its credit given back."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.seam.messages import Credit, Moment
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.encoded import Encoded, EncodedFrame, EncodedSound
from reactor_runtime.server.encoder import Encoder, Nudged
from reactor_runtime.server.encoding import encode, frames_of, jobs_of
from reactor_runtime.server.figures import Figures
from reactor_runtime.server.trace_events import Stages

logger = logging.getLogger(__name__)

EARLY_S = 0.00025  # what a timer and a turn of the loop would take: a moment that close to its time is shown at once
CLOSEST = 0.8  # of an interval: after a stall of the server what was late catches up this fast instead of in a burst


class Stage(Protocol):
    """Where what is due is shown: to every client of the session; those of a track need it on these rungs."""

    def rungs(self, track: str) -> Sequence[int]: ...

    def show(self, frame: EncodedFrame) -> None: ...

    def play(self, sound: EncodedSound) -> None: ...


@dataclass(slots=True)
class _Queued:
    moment: Moment
    arrived_at: float
    jobs: int = 0  # still encoding
    encoded: list[Encoded] = field(default_factory=list)
    error: BaseException | None = None
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
        best, *others = jobs_of(moment, self._stage.rungs)
        queued.jobs = 1 + len(others)
        if moment.pictures:
            self._encoder.anticipate(ring.life, best.is_top)
        nudged = _nudged(moment, ring)
        for job in (best, *others):
            work = partial(encode, moment, ring, started_at, first, job)
            self._encoder.submit(work, partial(self._encoded, queued), nudged if job is best else None)
        self._queue.insert(self._place(moment), queued)

    def turn_away(self, moment: Moment, ring: RingReader) -> None:
        """Give the credit back for a moment whose session is over, once nothing reads its memory any more."""
        credit = Credit(moment.session, moment.number, 0.0)
        if (nudged := _nudged(moment, ring)) is None:
            self._credit(credit)
        else:
            self._encoder.submit(lambda _: None, lambda _: self._credit(credit), nudged)

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
        error = encoding.exception()
        if error is None:
            item.encoded.append(encoding.result())
        item.error = item.error or error
        item.jobs -= 1
        if item.jobs:
            return
        item.ready_at = self._clock.now()
        if item.error is None:
            self._figures.encoded(item.encoded)
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
        if item.error is not None:
            whose = {"session": moment.session}
            logger.error("a moment could not be encoded and is skipped", exc_info=item.error, extra=whose)
            self._lost(moment, "failed")
        else:
            self._figures.shown(moment, now)
            for frame in frames_of(item.encoded):
                self._stage.show(frame)
            for sound in (sound for encoded in item.encoded for sound in encoded.sounds):
                self._stage.play(sound)
            stages = Stages(item.arrived_at, tuple(item.encoded), item.ready_at, now)
            if self._figures.trace is not None:
                self._figures.trace.shown(moment, stages)
            self.times.add(times_of(moment, stages))
        self._credit(Credit(moment.session, moment.number, item.ready_at))


def _nudged(moment: Moment, ring: RingReader) -> Nudged | None:
    """Say what of the moment the encoder has, or will have, since it was nudged for it."""
    return Nudged((ring.life, moment.number), moment.nudges) if moment.nudges else None


class StageTimes(NamedTuple):
    """Seconds a moment spent in each stage from the start of its step until it was shown."""

    step: float
    arrive: float  # from hand-over, through shared memory and seam, to the server
    queue: float  # until an encoder thread took it
    encode: float
    back: float  # from the encoder thread to the loop
    hold: float  # ready and not yet due
    late: float  # shown after it was due


def times_of(moment: Moment, stages: Stages) -> StageTimes:
    """Tell how long a moment that was shown took in each stage."""
    return StageTimes(
        step=moment.step_s,
        arrive=stages.noticed_at - moment.handed_over,
        queue=stages.encode_began - stages.noticed_at,
        encode=stages.encode_ended - stages.encode_began,
        back=stages.ready_at - stages.encode_ended,
        hold=max(0.0, min(stages.shown_at, moment.due) - stages.ready_at),
        late=max(0.0, stages.shown_at - moment.due),
    )


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
        ordered = np.sort(np.array(self._recent), axis=0)
        medians = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2  # np.median imports numpy.ma
        return {
            f"{name}_ms": round(1e3 * float(value), 2) for name, value in zip(StageTimes._fields, medians, strict=True)
        }
