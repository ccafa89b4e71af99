"""At which rate frames are shown, when each is due, and how early the step that makes it must start."""

from __future__ import annotations

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.media.pacer import Schedule
from reactor_runtime.media.rate import Lead, RateEstimate

DEFAULT_FPS = 30.0
READY_SMOOTHING = 0.125  # as TCP smooths its round trip (RFC 6298): one late frame moves the estimate by an eighth


class Pace:
    """Decide the rate, the due time of each moment, and how early a step must start.

    A declared `fps` or a `set_fps` fixes the rate; otherwise it follows the frames a step makes per second.
    """

    def __init__(self, contract: Contract) -> None:
        self._fps = contract.fps
        self._max_fps = contract.max_fps
        self._in_session = False
        self.schedule = Schedule(DEFAULT_FPS)
        self._reset()

    def begin(self) -> None:
        """Start a session with nothing learned from the one before."""
        self._reset()
        self._in_session = True

    def end(self) -> None:
        self._reset()
        self._in_session = False

    def set_fps(self, fps: float) -> None:
        """Fix the rate from the next frame on, outside a session for all sessions; ValueError if it isn't above 0."""
        self.schedule.set_fps(fps)
        self._fixed = True
        if not self._in_session:
            self._fps = fps

    @property
    def adaptive(self) -> bool:
        return not self._fixed

    def adapt(self, frames: int, compute_time: float) -> None:
        """Move towards the rate the model makes frames at."""
        fps = self._estimate.add(frames, compute_time)
        if fps is not None:
            self.schedule.set_fps(fps)

    def learn(self, compute_s: float, ready_s: float) -> None:
        """Take in how long a step computed, and how long from its first hand-over until that moment could be shown."""
        self._lead.add(compute_s, ready_s)
        self._ready_s += (ready_s - self._ready_s) * READY_SMOOTHING

    def step_at(self) -> float:
        """Say when a step must start for its first frame to be ready when it is due."""
        upcoming = self.schedule.upcoming
        return 0.0 if upcoming is None else upcoming - self._lead.value_s

    def next(self, now: float) -> float:
        """Give the next moment its due time, not before it can be ready."""
        return self.schedule.next(now, min(self._ready_s, 1 / self.schedule.fps))

    def _reset(self) -> None:
        self._fixed = self._fps is not None
        self._estimate = RateEstimate(max_fps=self._max_fps)
        self._lead = Lead()
        self._ready_s = 0.0
        self.schedule = Schedule(self._fps or DEFAULT_FPS)
