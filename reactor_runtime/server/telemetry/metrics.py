"""Counters and timings of the server: cheap to add to, and copied for each request of `/metrics`."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc.messages import LEAK_KINDS, Bundle
from reactor_runtime.server.encoding.encoded import Encoded, MediaFile
from reactor_runtime.server.telemetry.trace import Trace

MOST_VALUES = 64
LONGEST_VALUE = 64
MOST_UNSEEN = 1000
OTHER = "other"

STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.016, 0.025, 0.033, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ENCODE_S = (0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016, 0.025, 0.05, 0.1, 0.25)
SEND_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
INPUT_S = (0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10)


class Histogram:
    """Count values by size; a value costs one search among a few bounds and two additions."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """Return how many values there were."""
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many values were at most each bound, in the form of Prometheus; the last bound is `+Inf`."""
        names = [str(float(bound)) for bound in self._bounds]
        return list(zip([*names, "+Inf"], map(float, accumulate(self._counts)), strict=True))


class LabelledCounter:
    """Count by label: the given names and 64 more, of at most 64 characters; all others count as `other`.

    The limits are needed because an author may make labels of what a client sends.
    """

    __slots__ = ("_most", "counts")

    def __init__(self, *names: str) -> None:
        self.counts = dict.fromkeys(names, 0)
        self._most = len(names) + MOST_VALUES

    def add(self, name: str, count: int = 1) -> None:
        if name not in self.counts and (len(self.counts) >= self._most or len(name) > LONGEST_VALUE):
            name = OTHER
        self.counts[name] = self.counts.get(name, 0) + count


def _by_track() -> defaultdict[str, int]:
    return defaultdict(int)


def _by_seat() -> defaultdict[tuple[str, int], int]:
    return defaultdict(int)


def _by_rung() -> defaultdict[tuple[str, str, int], int]:
    return defaultdict(int)


@dataclass(slots=True)
class FrameCounters:
    """Count frames that the model handed over by track, frames encoded and sent by track, encoding and rung."""

    emitted: defaultdict[str, int] = field(default_factory=_by_track)
    encoded: defaultdict[tuple[str, str, int], int] = field(default_factory=_by_rung)
    sent: defaultdict[tuple[str, str, int], int] = field(default_factory=_by_rung)


@dataclass(slots=True)
class TrafficCounters:
    """Count bytes and messages to and from clients, without the headers of WebSocket and TCP."""

    sent_bytes: LabelledCounter = field(default_factory=lambda: LabelledCounter("video", "audio", "text", "other"))
    received_bytes: LabelledCounter = field(default_factory=lambda: LabelledCounter("media", "text"))
    sent_messages: int = 0
    received_messages: LabelledCounter = field(
        default_factory=lambda: LabelledCounter("event", "ack", "ping", "view", "media", "invalid")
    )


@dataclass(slots=True)
class _Seen:
    """The next sequence numbers of a session, and the arrival times of inputs that no frame has shown yet."""

    # By track and seat.
    next_seqs: defaultdict[tuple[str, int], int] = field(default_factory=_by_seat)
    unseen: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_UNSEEN))


class Metrics:
    """Hold all counters and timings of a server since its start; use on the server's loop.

    `trace` is for the same callers, which record there when each of these events happened.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace
        self.sessions = LabelledCounter(
            "left", "finished", "turn_over", "idle", "model_error", "model_died", "server_stopping", "lost"
        )
        # At a front: workers that ended, or were given up, though the front has not stopped them.
        self.workers_lost = 0
        self.frames = FrameCounters()
        self.skipped = LabelledCounter("socket", "window", "rate", "viewers")
        self.dropped = LabelledCounter("discarded", "flushed", "failed", "engine_lost")
        self.traffic = TrafficCounters()
        self.errors = LabelledCounter(*(code.value for code in ErrorCode))
        self.leaks = LabelledCounter(*LEAK_KINDS)
        self.inputs_lost = LabelledCounter("video", "audio")
        self.refusals = LabelledCounter("400", "401", "403", "421", "429", "none")
        self.step_s = Histogram(STEP_S)
        self.encode_s = Histogram(ENCODE_S)
        self.send_s = Histogram(SEND_S)
        self.input_s = Histogram(INPUT_S)
        self._seen: dict[str, _Seen] = {}

    def copied(self) -> Metrics:
        """Return a copy for another thread."""
        return copy.deepcopy(self, {id(self.trace): None})

    def arrived(self, bundle: Bundle) -> None:
        """Count the frames of a bundle; a gap in the sequence numbers are frames that the engine discarded."""
        next_seqs = self._seen.setdefault(bundle.session, _Seen()).next_seqs
        for frame in bundle.frames:
            self.frames.emitted[frame.track] += 1
            gap = 0
            for seat, seq in enumerate((frame.seq, *frame.others_seqs), frame.seat or 0):
                gap = max(gap, seq - next_seqs[frame.track, seat])
                next_seqs[frame.track, seat] = seq + 1
            if gap > 0:
                self.frames.emitted[frame.track] += gap
                self.dropped.add("discarded", gap)

    def encoded(self, jobs: Sequence[Encoded]) -> None:
        """Count the frames of a bundle's jobs, and observe the time from the first start to the last end."""
        self.encode_s.observe(max(job.ended for job in jobs) - min(job.began for job in jobs))
        for frame in (frame for job in jobs for frame in job.frames):
            for encoding, files in frame.files.items():
                for rung in files:
                    self.frames.encoded[frame.track, encoding.name, rung] += 1

    def lost(self, bundle: Bundle, reason: str) -> None:
        """Count a bundle that is not shown, by reason."""
        if bundle.session in self._seen:
            self._seen[bundle.session].unseen.extend(bundle.inputs)
        if bundle.frames:
            self.dropped.add(reason, len(bundle.frames))

    def shown(self, bundle: Bundle, now: float) -> None:
        """Observe the time of the step, and of each input whose effect is shown for the first time."""
        if bundle.first and bundle.step_s:
            self.step_s.observe(bundle.step_s)
        unseen = self._seen[bundle.session].unseen if bundle.session in self._seen else ()
        if bundle.inputs or (unseen and bundle.frames):
            for arrived_at in (*unseen, *bundle.inputs):
                self.input_s.observe(now - arrived_at)
            if unseen:
                unseen.clear()

    def forget(self, session: str) -> None:
        """Free what is kept of a session, which is over."""
        self._seen.pop(session, None)

    def sent(self, item: str | bytes | MediaFile, send_s: float) -> None:
        """Count an item that a socket took, and observe the seconds until the socket was ready again."""
        traffic = self.traffic
        if isinstance(item, str):
            traffic.sent_messages += 1
            traffic.sent_bytes.add("text", _size(item))
            return
        if isinstance(item, bytes):
            traffic.sent_bytes.add("other", len(item))
            return
        traffic.sent_bytes.add(item.kind, len(item.data))
        self.send_s.observe(send_s)

    def received(self, size_bytes: int, *, is_text: bool) -> None:
        """Count a client's message by its kind, before it is decoded."""
        self.traffic.received_bytes.add("text" if is_text else "media", size_bytes)
        if not is_text:
            self.traffic.received_messages.add("media")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
