"""Pictures and sound that have come and wait to be taken: the newest picture of each track, sound in its order."""

from __future__ import annotations

from collections import deque

from reactor_runtime.client.media import Frame, Sound

MOST_SOUND_S = 5.0


class NewestFrames:
    """Keep the newest frame of each track; one that nobody took is replaced, and nothing waits behind it.

    `arrived` counts the frames of a track, over sessions and connections: who remembers the count knows what is new.
    """

    def __init__(self) -> None:
        self.arrived: dict[str, int] = {}
        self._newest: dict[str, Frame] = {}

    def put(self, frame: Frame) -> None:
        self._newest[frame.track] = frame
        self.arrived[frame.track] = self.arrived.get(frame.track, 0) + 1

    def newest(self, track: str, *, after: int = 0) -> Frame | None:
        """Return the newest frame, unless it was there when `after` frames had come."""
        return self._newest.get(track) if self.arrived.get(track, 0) > after else None

    def clear(self) -> None:
        """Forget the pictures, as those of another session; the counts go on."""
        self._newest.clear()


class ReceivedSound:
    """Keep the pieces of each track in order until they are taken; over 5 s the oldest go.

    A piece that follows a flush replaces those that wait.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Sound]] = {}
        self._seconds: dict[str, float] = {}

    def put(self, sound: Sound) -> None:
        waiting = self._waiting.setdefault(sound.track, deque())
        if sound.after_flush:
            waiting.clear()
            self._seconds[sound.track] = 0.0
        waiting.append(sound)
        self._count(sound, 1)
        while self._seconds[sound.track] > MOST_SOUND_S and len(waiting) > 1:
            self._count(waiting.popleft(), -1)

    def take(self, track: str) -> Sound | None:
        """Return the oldest piece that waits."""
        waiting = self._waiting.get(track)
        if not waiting:
            return None
        sound = waiting.popleft()
        self._count(sound, -1)
        return sound

    def _count(self, sound: Sound, sign: int) -> None:
        seconds = sign * sound.array.shape[1] / sound.sample_rate
        self._seconds[sound.track] = self._seconds.get(sound.track, 0.0) + seconds
