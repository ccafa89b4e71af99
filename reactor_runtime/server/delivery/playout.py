"""Playout of a session's bundles: encode each ahead of time, show it when it is due, and return its credit.

The engine decides when a bundle is due; the subscribers pass it on to clients.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.ipc.messages import Bundle, Credit
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame, EncodedSound
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.jobs import RungsInUse, TrackOfSeat, merge_frames, plan_jobs, run_job
from reactor_runtime.server.encoding.raw_encoding import RAW
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.telemetry.trace_events import Stages

logger = logging.getLogger(__name__)

# The cost of a timer and a turn of the loop: a bundle that is due within this time is shown at once.
EARLY_S = 0.00025
# The shortest gap between frames, in intervals: late frames after a stall are not shown in a burst.
SHORTEST_GAP = 0.8
RATE_S = 2.0
# Frames of a bundle that are encoded in about a millisecond: 832x480.
SMALL_PIXELS = 400_000
MOST_MESSAGES = 200
MOST_MESSAGE_BYTES = 2 << 20


class PlayoutTarget(Protocol):
    """The receivers of frames and sound that are due, and the encodings and rungs in which they need each track."""

    @property
    def has_room(self) -> bool: ...

    def rungs_in_use(self, track: str, seat: int | None) -> RungsInUse: ...

    def needs_pixels(self, track: str, seat: int | None) -> bool: ...

    def show_frame(self, frame: EncodedFrame) -> None: ...

    def play_sound(self, sound: EncodedSound) -> None: ...


@dataclass(slots=True)
class _Queued:
    bundle: Bundle
    arrived_at: float
    encoded: Sequence[Encoded] = ()
    error: BaseException | None = None
    ready_at: float = 0.0
    dropped: bool = False


@dataclass(slots=True)
class _Message:
    deliver: Callable[[], None]
    size_bytes: int
    n: int


class Playout:
    """Show bundles when they are due, and deliver messages after the bundles before them; belongs to the server's loop.

    Bundles arrive straight from the channel; only those of the session between `start_session` and `end_session` are
    shown. The engine bounds the bundles: it sends no more than it has credits for. At most 200 messages and 2 MiB of
    messages wait; above that the oldest is delivered before its bundles.
    """

    def __init__(
        self,
        clock: Clock,
        encoder: Encoder,
        target: PlayoutTarget,
        send_credit: Callable[[Credit], None],
        metrics: Metrics,
    ) -> None:
        self._clock = clock
        self._encoder = encoder
        self._target = target
        self._send_credit = send_credit
        self._alarm = Alarm(clock)
        self._queue: deque[_Queued | _Message] = deque()
        # Of the session whose bundles are shown: "" between sessions, which is the id of none.
        self._session = ""
        self._is_stepped = False
        self._started_at = 0.0
        self._not_before = 0.0
        self._flushed = False
        self._tracks_since_flush: set[TrackOfSeat] = set()
        self.times = RecentStageTimes()
        self._metrics = metrics

    def __len__(self) -> int:
        return len(self._queue)

    def start_session(self, session: str, started_at: float, *, stepped: bool = False) -> None:
        """Accept the bundles of this session from here on, and drop all that wait.

        Those of a stepped session are shown as soon as the target has room, whenever they are due.
        """
        # The black frame at the end of the previous session may still be in the queue.
        self.flush(before=sys.maxsize)
        self._session, self._started_at, self._is_stepped = session, started_at, stepped

    def continue_from(self, started_at: float) -> None:
        """Change the time that presentation times are counted from, for the bundles that come from here on."""
        self._started_at = started_at

    def on_room(self) -> None:
        """Show what has waited for room, on the next turn of the loop."""
        self._alarm.ring()

    def end_session(self) -> None:
        """Accept no bundles from here on; those that wait are shown."""
        self._session = ""

    def put_bundle(self, bundle: Bundle, ring: RingReader) -> None:
        """Queue a bundle and start to encode it; of one of another session, encode only what the engine records."""
        if bundle.session != self._session:
            self._encode_recorded(bundle, ring)
            return
        self._metrics.arrived(bundle)
        after_flush = self._first_after_flush(bundle)
        queued = _Queued(bundle, self._clock.now())
        target = self._target
        jobs = plan_jobs(bundle, target.rungs_in_use, len(self._encoder.threads), target.needs_pixels)
        work = [partial(run_job, bundle, ring, self._started_at, after_flush, job) for job in jobs]
        short = not self._queue and sum(frame.height * frame.width for frame in bundle.frames) <= SMALL_PIXELS
        copies = self._is_stepped and all(task.encoding is RAW for job in jobs for task in job.tasks)
        self._encoder.submit(work, partial(self._on_encoded, queued), short=short, copies=copies)
        self._queue.insert(len(self._queue) if self._is_stepped else self._index_of(bundle), queued)

    def _encode_recorded(self, bundle: Bundle, ring: RingReader) -> None:
        """Encode the frames that have room for their file, and return the credit of the bundle, which is not shown."""
        credit = Credit(bundle.session, bundle.number, 0.0)
        recorded = bundle._replace(frames=tuple(frame for frame in bundle.frames if frame.room >= 0), sounds=())
        if not recorded.frames:
            self._send_credit(credit)
            return
        jobs = plan_jobs(recorded, lambda *_: {}, len(self._encoder.threads))
        work = [partial(run_job, recorded, ring, 0.0, (), job) for job in jobs]
        self._encoder.submit(work, lambda _: self._send_credit(credit))

    def _first_after_flush(self, bundle: Bundle) -> set[TrackOfSeat]:
        """Return the tracks, each with its seat, that are in a bundle for the first time after a flush."""
        if not self._flushed:
            return set()
        tracks = [(frame.track, frame.seat) for frame in bundle.frames]
        tracks += [(sound.track, sound.seat) for sound in bundle.sounds]
        first = set(tracks) - self._tracks_since_flush
        self._tracks_since_flush |= first
        return first

    def _index_of(self, bundle: Bundle) -> int:
        """Return the bundle's index in the queue by its due time: sound alone may arrive before earlier frames."""
        found = len(self._queue)
        for index in reversed(range(len(self._queue))):
            item = self._queue[index]
            if isinstance(item, _Queued):
                if item.bundle.due <= bundle.due:
                    break
                found = index
        return found

    def put_message(self, deliver: Callable[[], None], *, size_bytes: int = 0, n: int = 0) -> None:
        """Call `deliver` after everything queued so far has been shown; `n` is the event whose handler sent it."""
        if not self._queue:
            deliver()
            return
        self._queue.append(_Message(deliver, size_bytes, n))
        self._deliver_surplus()

    def put_answer(self, deliver: Callable[[], None], n: int, *, size_bytes: int = 0) -> None:
        """Call `deliver` at once, or after the messages that the handler of event `n` has sent."""
        numbers = [item.n if isinstance(item, _Message) else 0 for item in self._queue]
        if not n or n not in numbers:
            deliver()
            return
        self._queue.insert(len(numbers) - numbers[::-1].index(n), _Message(deliver, size_bytes, n))
        self._deliver_surplus()

    def _deliver_surplus(self) -> None:
        """Deliver the oldest messages before their bundles until the rest is within the limits."""
        messages = [item for item in self._queue if isinstance(item, _Message)]
        size_bytes = sum(message.size_bytes for message in messages)
        count = len(messages)
        for message in messages:
            if count <= MOST_MESSAGES and size_bytes <= MOST_MESSAGE_BYTES:
                return
            count, size_bytes = count - 1, size_bytes - message.size_bytes
            self._queue.remove(message)
            message.deliver()

    def flush(self, before: int) -> None:
        """Drop the bundles numbered below `before`, and deliver the messages among them at once."""
        kept: deque[_Queued | _Message] = deque()
        for item in self._queue:
            if isinstance(item, _Message):
                item.deliver() if not kept else kept.append(item)
            elif item.bundle.number < before:
                self._count_dropped(item.bundle, "flushed")
                self._drop(item)
            else:
                kept.append(item)
        self._queue = kept
        self._flushed = True
        self._tracks_since_flush.clear()
        self._not_before = 0.0
        self._alarm.ring()

    def clear(self) -> None:
        """Drop everything, messages and credits included: the engine has ended."""
        for item in self._queue:
            if isinstance(item, _Queued):
                self._count_dropped(item.bundle, "engine_lost")
        self._queue.clear()

    async def run(self) -> None:
        """Show bundles as they become due, until cancelled."""
        while True:
            await self._alarm.wait(self._play_due())

    def _play_due(self) -> float | None:
        """Play everything that is due; return when the next is, None if that depends on an encoding or a new bundle."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, _Queued):
                if not item.ready_at or not self._target.has_room:
                    return None
                at = self._show_at(item.bundle)
                if self._clock.now() < at - EARLY_S:
                    return at
            self._queue.popleft()
            if isinstance(item, _Queued):
                self._show_bundle(item)
            else:
                item.deliver()
        return None

    def _show_at(self, bundle: Bundle) -> float:
        if self._is_stepped:
            return 0.0
        # A burst is visible only in frames; sound is played by its presentation times.
        return max(bundle.due, self._not_before) if bundle.frames else bundle.due

    def _on_encoded(self, item: _Queued, encoding: Future[list[Encoded]]) -> None:
        item.error = encoding.exception()
        if item.error is None:
            item.encoded = encoding.result()
        item.ready_at = self._clock.now()
        if item.error is None:
            self._metrics.encoded(item.encoded)
        if item.dropped:
            self._drop(item)
        # At once, because waking the waiting task would take another turn of the loop.
        if self._play_due() is not None:
            self._alarm.ring()

    def _count_dropped(self, bundle: Bundle, reason: str) -> None:
        self._metrics.lost(bundle, reason)
        if self._metrics.trace is not None:
            self._metrics.trace.dropped(bundle, self._clock.now(), reason)

    def _drop(self, item: _Queued) -> None:
        """Return the credit once no thread reads the bundle's memory."""
        item.dropped = True
        if item.ready_at:
            self._send_credit(Credit(item.bundle.session, item.bundle.number, 0.0))

    def _show_bundle(self, item: _Queued) -> None:
        bundle = item.bundle
        now = self._clock.now()
        if bundle.frames:
            self._not_before = now + bundle.interval_s * SHORTEST_GAP
        try:
            if item.error is None:
                self._deliver_bundle(item, now)
            else:
                ids = {"session": bundle.session}
                logger.error("a bundle could not be encoded and is dropped", exc_info=item.error, extra=ids)
                self._count_dropped(bundle, "failed")
        finally:
            # Without it the model would wait for the memory of this bundle.
            self._send_credit(Credit(bundle.session, bundle.number, item.ready_at))

    def _deliver_bundle(self, item: _Queued, now: float) -> None:
        bundle = item.bundle
        self._metrics.shown(bundle, now)
        for frame in merge_frames(item.encoded):
            self._target.show_frame(frame)
        for sound in (sound for encoded in item.encoded for sound in encoded.sounds):
            self._target.play_sound(sound)
        stages = Stages(item.arrived_at, tuple(item.encoded), item.ready_at, now)
        if self._metrics.trace is not None:
            self._metrics.trace.shown(bundle, stages)
        self.times.add_times(times_of(bundle, stages), frame_at=now if bundle.frames else None)


class StageTimes(NamedTuple):
    """Seconds that a bundle spent in each stage from the start of its step until it was shown."""

    step: float
    # From hand-over, through shared memory and the channel, to the server.
    arrive: float
    # Until an encoder thread took it.
    queue: float
    encode: float
    # From the encoder thread to the loop.
    back: float
    # Ready and not yet due.
    hold: float
    # From when it was due until it was shown.
    late: float
    # From hand-over until it was shown.
    age: float
    # The playout reserve: how long blocks of uneven steps should wait until they are due.
    reserve: float


def times_of(bundle: Bundle, stages: Stages) -> StageTimes:
    """Return how long a bundle that was shown took in each stage."""
    return StageTimes(
        step=bundle.step_s,
        arrive=stages.arrived_at - bundle.handed_over,
        queue=stages.encode_began - stages.arrived_at,
        encode=stages.encode_ended - stages.encode_began,
        back=stages.ready_at - stages.encode_ended,
        hold=max(0.0, min(stages.shown_at, bundle.due) - stages.ready_at),
        late=max(0.0, stages.shown_at - bundle.due),
        age=stages.shown_at - bundle.handed_over,
        reserve=bundle.reserve_s,
    )


class RecentStageTimes:
    """Keep the stage times of the last 64 bundles, and when the last 64 frames were shown, for statistics."""

    def __init__(self) -> None:
        self._recent: deque[StageTimes] = deque(maxlen=64)
        self._frames_at: deque[float] = deque(maxlen=64)

    def add_times(self, times: StageTimes, *, frame_at: float | None) -> None:
        """Add the times of a bundle; `frame_at` is when its frames were shown, None for sound alone."""
        self._recent.append(times)
        if frame_at is not None:
            self._frames_at.append(frame_at)

    def fps(self, now: float) -> float:
        """Return the rate of the frames of the last two seconds."""
        recent = [at for at in self._frames_at if at > now - RATE_S]
        return (len(recent) - 1) / (recent[-1] - recent[0]) if len(recent) > 1 else 0.0

    def medians_ms(self) -> dict[str, float]:
        """Return the median of each stage over the last 64 bundles, as `encode_ms` and so on."""
        if not self._recent:
            return {}
        ordered = np.sort(np.array(self._recent), axis=0)
        # `np.median` would import numpy.ma.
        medians = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        return {
            f"{name}_ms": round(1e3 * float(value), 2) for name, value in zip(StageTimes._fields, medians, strict=True)
        }
