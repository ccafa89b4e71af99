"""Pacing: the rate of frames, the due times of frames and sound, and how early a step must start."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.output.sink import Payload
from reactor_runtime.media.pacer import Schedule
from reactor_runtime.media.rate import Lead, RateEstimate
from reactor_runtime.media.sound import FORGIVEN_S, ROUNDING, SoundLine, length_s

logger = logging.getLogger(__name__)

DEFAULT_FPS = 30.0
# A time line has ended this long after its last frame or piece: the model makes something else.
OVER_S = 1.0
# As TCP smooths its round trip (RFC 6298): one late frame moves the estimate by an eighth.
READY_SMOOTHING = 0.125


class Pace:
    """Decide the rate, the due time of each bundle, and how early a step must start.

    A declared `fps` or a `set_fps` fixes the rate; otherwise it follows the frames a step makes per second. Frames,
    with the sound they come with, are on one time line, sound that comes alone on another: neither waits for the other.
    """

    def __init__(self, contract: Contract) -> None:
        self._fps = contract.fps
        self._max_fps = contract.max_fps
        self._sounding = [track for track in contract.tracks if track.direction == "out" and track.kind == "audio"]
        self._warned = False
        self._in_session = False
        self.schedule = self._alone = Schedule(DEFAULT_FPS)
        # Of the newest bundle.
        self.length_s = 1 / DEFAULT_FPS
        self._reset()

    def begin(self) -> None:
        """Start a session; the estimates of the session before are reset."""
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
        """Move the rate towards the rate at which the model makes frames."""
        fps = self._estimate.add(frames, compute_time)
        if fps is not None:
            self.schedule.set_fps(fps)

    def learn(self, compute_s: float, ready_s: float) -> None:
        """Learn from a step how long it computed, and how long after its hand-over its first bundle was ready."""
        self._lead.add(compute_s, ready_s)
        self._ready_s += (ready_s - self._ready_s) * READY_SMOOTHING

    def step_at(self, now: float) -> float:
        """Return when a step must start so that its output is ready when it is due."""
        lines = [line.upcoming for line in (self.schedule, self._alone) if line.upcoming is not None]
        going_on = [upcoming for upcoming in lines if upcoming > now - OVER_S]
        return min(going_on or lines, default=0.0) - self._lead.value_s

    def next(self, now: float, bundle: Mapping[TrackSpec, Payload]) -> float:
        """Return the due time of the next bundle, not before it can be ready; `length_s` is its duration then."""
        interval_s = 1 / self.schedule.fps
        sounds_s = self._durations_s(bundle) if self._lines else ()
        if not sounds_s:
            self.length_s = interval_s
            return self.schedule.next(now, min(self._ready_s, interval_s))
        alone = len(sounds_s) == len(bundle)
        self.length_s = max(sounds_s) if alone else length_s(sounds_s, interval_s)
        if self._fixed and not alone and not self._warned and self.length_s > interval_s * (1 + ROUNDING):
            self._warn(interval_s)
        return (self._alone if alone else self.schedule).next(
            now, min(self._ready_s, interval_s), length_s=self.length_s, forgiven_s=FORGIVEN_S
        )

    def _durations_s(self, bundle: Mapping[TrackSpec, Payload]) -> Sequence[float]:
        return [bundle[track].shape[1] / line.sample_rate for track, line in self._lines.items() if track in bundle]

    def begins(self, track: TrackSpec, due: float, samples: int) -> float:
        """Return when a piece of sound of the bundle due at `due` begins: where the piece before ends, if possible."""
        return self._lines[track].next(due, samples)

    def restart(self) -> None:
        """Reset the schedule: the next frame or piece is due at once. The rate stays."""
        self.schedule.reset()
        self._alone.reset()
        for line in self._lines.values():
            line.reset()

    def _reset(self) -> None:
        self._fixed = self._fps is not None
        self._estimate = RateEstimate(max_fps=self._max_fps)
        self._lead = Lead()
        self._ready_s = 0.0
        self.schedule = Schedule(self._fps or DEFAULT_FPS)
        self._alone = Schedule(DEFAULT_FPS)
        self._lines = {track: SoundLine(track.sample_rate) for track in self._sounding if track.sample_rate}

    def _warn(self, interval_s: float) -> None:
        self._warned = True
        logger.warning(
            "a frame came with %.1f ms of sound and lasts %.1f ms at %g fps: it is shown for as long as it sounds; "
            "give each frame sample_rate / fps samples, or set fps=%.3g",
            1e3 * self.length_s, 1e3 * interval_s, self.schedule.fps, 1 / self.length_s,
        )  # fmt: skip
