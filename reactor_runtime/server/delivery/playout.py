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
from reactor_runtime.ipc.messages import Bundle, Credit
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame, EncodedSound
from reactor_runtime.server.encoding.encoder import Encoder, HintedBundle
from reactor_runtime.server.encoding.jobs import encode, frames_of, jobs_of
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.telemetry.trace_events import Stages

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
    bundle: Bundle
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
        metrics: Metrics | None = None,
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
        self.times = RecentStageTimes()
        self._metrics = metrics or Metrics()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, bundle: Bundle, ring: RingReader, started_at: float) -> None:
        """Queue a moment and start encoding it; `started_at` is the session's start."""
        self._metrics.arrived(bundle)
        first = self._first_of(bundle)
        queued = _Queued(bundle, self._clock.now())
        best, *others = jobs_of(bundle, self._stage.rungs)
        queued.jobs = 1 + len(others)
        if bundle.pictures:
            self._encoder.anticipate(ring.engine_run, best.is_top)
        hinted = _hinted(bundle, ring)
        for job in (best, *others):
            work = partial(encode, bundle, ring, started_at, first, job)
            self._encoder.submit(work, partial(self._encoded, queued), hinted if job is best else None)
        self._queue.insert(self._place(bundle), queued)

    def turn_away(self, bundle: Bundle, ring: RingReader) -> None:
        """Give the credit back for a moment whose session is over, once nothing reads its memory any more."""
        credit = Credit(bundle.session, bundle.number, 0.0)
        if (hinted := _hinted(bundle, ring)) is None:
            self._credit(credit)
        else:
            self._encoder.submit(lambda _: None, lambda _: self._credit(credit), hinted)

    def _first_of(self, bundle: Bundle) -> set[str]:
        """Tell for which tracks this is the first after a flush."""
        if not self._flushed:
            return set()
        tracks = [picture.track for picture in bundle.pictures] + [sound.track for sound in bundle.sounds]
        first = set(tracks) - self._begun
        self._begun |= first
        return first

    def _place(self, bundle: Bundle) -> int:
        """Find where in the queue a moment belongs: sound alone and frames are made in any order, and due in theirs."""
        place = len(self._queue)
        for index in reversed(range(len(self._queue))):
            item = self._queue[index]
            if isinstance(item, _Queued):
                if item.bundle.due <= bundle.due:
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
            elif item.bundle.number < before:
                self._lost(item.bundle, "flushed")
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
                self._lost(item.bundle, "engine_lost")
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
                at = item.bundle.due
                if item.bundle.pictures:  # sound isn't seen to come in a burst, and its times say when it is heard
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
            self._metrics.encoded(item.encoded)
        if item.dropped:
            self._drop(item)
        if self._show_due() is not None:  # at once: waking the task that waits would take another turn of the loop
            self._alarm.ring()

    def _lost(self, bundle: Bundle, reason: str) -> None:
        self._metrics.lost(bundle, reason)
        if self._metrics.trace is not None:
            self._metrics.trace.dropped(bundle, self._clock.now(), reason)

    def _drop(self, item: _Queued) -> None:
        """Give the credit back, once nothing reads the moment's memory any more."""
        item.dropped = True
        if item.ready_at:
            self._credit(Credit(item.bundle.session, item.bundle.number, 0.0))

    def _show(self, item: _Queued) -> None:
        bundle = item.bundle
        now = self._clock.now()
        if bundle.pictures:
            self._not_before = now + bundle.interval_s * CLOSEST
        if item.error is not None:
            whose = {"session": bundle.session}
            logger.error("a moment could not be encoded and is skipped", exc_info=item.error, extra=whose)
            self._lost(bundle, "failed")
        else:
            self._metrics.shown(bundle, now)
            for frame in frames_of(item.encoded):
                self._stage.show(frame)
            for sound in (sound for encoded in item.encoded for sound in encoded.sounds):
                self._stage.play(sound)
            stages = Stages(item.arrived_at, tuple(item.encoded), item.ready_at, now)
            if self._metrics.trace is not None:
                self._metrics.trace.shown(bundle, stages)
            self.times.add(times_of(bundle, stages))
        self._credit(Credit(bundle.session, bundle.number, item.ready_at))


def _hinted(bundle: Bundle, ring: RingReader) -> HintedBundle | None:
    """Say what of the moment the encoder has, or will have, since it was nudged for it."""
    return HintedBundle((ring.engine_run, bundle.number), bundle.hints) if bundle.hints else None


class StageTimes(NamedTuple):
    """Seconds a moment spent in each stage from the start of its step until it was shown."""

    step: float
    arrive: float  # from hand-over, through shared memory and seam, to the server
    queue: float  # until an encoder thread took it
    encode: float
    back: float  # from the encoder thread to the loop
    hold: float  # ready and not yet due
    late: float  # shown after it was due


def times_of(bundle: Bundle, stages: Stages) -> StageTimes:
    """Tell how long a moment that was shown took in each stage."""
    return StageTimes(
        step=bundle.step_s,
        arrive=stages.noticed_at - bundle.handed_over,
        queue=stages.encode_began - stages.noticed_at,
        encode=stages.encode_ended - stages.encode_began,
        back=stages.ready_at - stages.encode_ended,
        hold=max(0.0, min(stages.shown_at, bundle.due) - stages.ready_at),
        late=max(0.0, stages.shown_at - bundle.due),
    )


class RecentStageTimes:
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
