"""What is on its way to one client: messages in order, sound in order, and of each video track the newest frame."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from reactor_runtime.clock import Clock
from reactor_runtime.server.delivery.track_sender import TrackSender
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.messages import View

MOST_MESSAGES = 1000
MOST_MESSAGE_BYTES = 4 << 20
MOST_SOUND_S = 1.0
ROUNDING_S = 1e-6  # durations don't add up exactly


@dataclass(slots=True)
class Counters:
    """Frames offered to a client, sent to it, and skipped because it did not keep up."""

    offered: int = 0
    sent: int = 0
    skipped: int = 0
    sent_by_track: dict[str, int] = field(default_factory=dict)


class SoundQueue:
    """Keep the sound that waits, in order; of each track at most one second, then the oldest goes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, EncodedSound]] = deque()
        self._seconds: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def head(self) -> int | None:
        """The order of the oldest."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, order: int, sound: EncodedSound) -> None:
        """Add a piece; one that is longer than a second waits alone."""
        track = sound.track
        self._waiting.append((order, sound))
        self._seconds[track] = self._seconds.get(track, 0.0) + sound.duration_s
        while self._seconds[track] > MOST_SOUND_S + ROUNDING_S:
            oldest = next(item for item in self._waiting if item[1].track == track)
            if oldest[1] is sound:
                return
            self._waiting.remove(oldest)
            self._seconds[track] -= oldest[1].duration_s

    def take(self) -> bytes:
        """Take the oldest out."""
        _, sound = self._waiting.popleft()
        self._seconds[sound.track] -= sound.duration_s
        return sound.data

    def drop(self, unwanted: Callable[[str], bool] = lambda _: True) -> None:
        """Drop what waits of the tracks that are unwanted."""
        kept = [item for item in self._waiting if not unwanted(item[1].track)]
        self._waiting.clear()
        self._seconds.clear()
        for order, sound in kept:
            self.put(order, sound)


class Outbox:
    """Hold what one client is still to be sent, bounded; its sender takes from it as fast as the socket does.

    Messages: at most 1,000 and 4 MiB, then no more is taken. Sound: at most one second a track, then the oldest goes.
    Video: one frame a track, a newer one replaces it. A message is sent after the frames that were offered before it,
    unless those wait for an acknowledgement: a message never does.
    """

    def __init__(self, clock: Clock, metrics: Metrics | None = None, view: View | None = None) -> None:
        self._metrics = metrics or Metrics()
        self.counters = Counters()
        self.finished = False
        self.view = view or View()
        self.sounds = SoundQueue()
        self.track_senders: dict[str, TrackSender] = {}
        self._on_queued: Callable[[], object] = _nothing
        self._clock = clock
        self._orders = itertools.count(1)
        self._messages: deque[tuple[int, str, int]] = deque()
        self._message_bytes = 0
        self._slots: dict[str, tuple[int, EncodedFrame]] = {}

    def notify_queued(self, on_queued: Callable[[], object] | None) -> None:
        """Call `on_queued`, on the loop's thread, whenever there may be something new to take; None ends that."""
        self._on_queued = on_queued or _nothing

    def put_message(self, text: str) -> bool:
        """Queue a text message; False when there is no room: then it isn't queued.

        There is room for any one message: a welcome may be large, and nothing has to be read before it.
        """
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        if (self._messages and self._message_bytes + size > MOST_MESSAGE_BYTES) or len(self._messages) >= MOST_MESSAGES:
            return False
        self._message_bytes += size
        self._messages.append((next(self._orders), text, size))
        self._on_queued()
        return True

    def offer(self, frame: EncodedFrame) -> None:
        """Make this the track's newest frame, unless the client doesn't want it."""
        if self._unwanted(frame.track):
            return
        self.counters.offered += 1
        if frame.track not in self.track_senders:
            self.track_senders[frame.track] = TrackSender()
        if frame.track in self._slots:
            self.counters.skipped += 1
            self._metrics.skipped.add(self.track_senders[frame.track].skipped(self._clock.now()))
        self._slots[frame.track] = (next(self._orders), frame)
        self._on_queued()

    def skip_frame(self, track: str, reason: str) -> None:
        """Count a frame that is not offered for another reason than the client's view."""
        if not self._unwanted(track):
            self.counters.offered += 1
            self.counters.skipped += 1
            self._metrics.skipped.add(reason)

    def put_sound(self, sound: EncodedSound) -> None:
        """Queue a piece of sound; more than a second of its track pushes the oldest out."""
        if self._unwanted(sound.track):
            return
        self.sounds.put(next(self._orders), sound)
        self._on_queued()

    def acknowledge(self, track: str, seq: int) -> None:
        """Take the client's word that it has shown all frames of `track` up to `seq`."""
        if track in self.track_senders:
            self.track_senders[track].acknowledged(seq, self._clock.now())
            self._on_queued()

    def set_view(self, view: View) -> None:
        """Send from here on what the client asks for; what it doesn't want any more is dropped."""
        self.view = view
        for track in [track for track in self._slots if self._unwanted(track)]:
            del self._slots[track]
        self.sounds.drop(self._unwanted)
        self._on_queued()

    def finish(self) -> None:
        """Take nothing in any more; the messages that are left are still to be sent."""
        self.finished = True
        self.drop_media()
        self._on_queued()

    def drop_media(self) -> None:
        """Drop the frames and the sound that wait: they belong to a session that is over."""
        self._slots.clear()
        self.sounds.drop()

    def leave_session(self) -> None:
        """Drop the media that waits, and expect no acknowledgement of what was sent."""
        self.drop_media()
        for track_sender in self.track_senders.values():
            track_sender.begin_session()

    def take(self) -> tuple[str | bytes | None, float | None]:
        """Take out the oldest of what may be sent; if nothing may be, say when to look again without any news."""
        now = self._clock.now()
        track, retry_at = self._sendable_track(now)
        frame_order = self._slots[track][0] if track is not None else None
        waiting = self._messages[0][0] if self._messages else None
        orders = [order for order in (waiting, self.sounds.head, frame_order) if order is not None]
        if not orders:
            return None, retry_at
        oldest = min(orders)
        if track is not None and oldest == frame_order:
            return self._take_frame(track, now), None
        if self._messages and self._messages[0][0] == oldest:
            _, text, size = self._messages.popleft()
            self._message_bytes -= size
            return text, None
        return self.sounds.take(), None

    def _sendable_track(self, now: float) -> tuple[str | None, float | None]:
        best, retry_at = None, None
        for track, (order, _) in self._slots.items():
            at = self.track_senders[track].opens_at(now)
            if at > now:
                retry_at = at if retry_at is None else min(at, retry_at)
            elif best is None or order < self._slots[best][0]:
                best = track
        return best, retry_at

    def _take_frame(self, track: str, now: float) -> bytes:
        _, frame = self._slots.pop(track)
        rung, data = self.track_senders[track].send(frame, now, self.view.max_fps)
        self.counters.sent += 1
        self._metrics.frames.sent[track, rung] += 1
        self.counters.sent_by_track[track] = self.counters.sent_by_track.get(track, 0) + 1
        return data

    def _unwanted(self, track: str) -> bool:
        return self.finished or not self.view.shows(track)


def _nothing() -> None:
    """Do nothing while no sender runs."""
