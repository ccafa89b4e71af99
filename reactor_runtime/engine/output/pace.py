"""Pacing: the rate of frames, the due times of frames and sound, and how early a step must start."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.output.sink import Payload
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.media.pacer import Schedule
from reactor_runtime.media.rate import Lead, RateEstimate
from reactor_runtime.media.reserve import PlayoutReserve
from reactor_runtime.media.sound import FORGIVEN_S, ROUNDING, SoundLine, length_s

logger = logging.getLogger(__name__)

DEFAULT_FPS = 30.0
# A schedule whose next due time is this long ago is ignored: the model now makes only frames, or only sound.
OVER_S = 1.0
# As TCP smooths its round trip (RFC 6298): one late frame moves the estimate by an eighth.
READY_SMOOTHING = 0.125
# How early a frame of a camera may start a step, in intervals.
EARLY = 0.5
# The step before which the playout reserve is filled at once: its size can be estimated from three steps.
FILLED_AT = 3
# What a reserve below its target takes longer to play of this share of what is missing: a higher share changes the
# rate more, a lower one leaves more gaps.
REFILL = 0.4
# How much longer than at its rate a block may play.
MOST_SLOWER = 0.2


class Pace:
    """Decide the rate, the due time of each bundle, and how early a step must start.

    A declared `fps` or a `set_fps` fixes the rate; otherwise it follows the frames a step makes per second, and the
    `compute_time` of an `emit`. In a model of 3.x that does not change a rate that its author has chosen. Frames
    and the sound that comes with them have one schedule, sound that comes alone another: neither waits for the other.

    Blocks of a model with uneven steps get a playout reserve. The third block is shown later to fill it; after that a
    block plays slower while there is less in reserve. A block with sound never plays slower: it is shown later by the
    reserve if it is late, when there is a gap anyway.
    """

    def __init__(self, served: ServedModel) -> None:
        self._served, contract = served, served.contract
        # The rates of the version: of its class, or of its `load()`.
        self._rates = served.version.fps, contract.max_fps
        self._fps = served.version.fps
        # Whether the author has chosen the rate, for all sessions and for this one.
        self._is_chosen = self._version_has_rate()
        self._is_chosen_now = False
        self._warned = self._bounded = False
        self._in_session = False
        self._is_loading = False
        # The rate that `load()` has set, None if it has set none.
        self.loaded_fps: float | None = None
        # Whether the newest output was made from a new frame of a camera, and no frame was skipped before it.
        self.follows_input = False
        # When a session began whose time is that of its frames and sound; None where it is that of the clock.
        self._media_time_from: float | None = None
        self.schedule = self._alone = Schedule(DEFAULT_FPS)
        # The duration of the newest bundle.
        self.length_s = 1 / DEFAULT_FPS
        self._reset()

    def begin(self, *, media_time_from: float | None = None) -> None:
        """Start a session; the estimates of the session before are reset.

        With `media_time_from` bundles are due one after the other from then on, whenever they come.
        """
        self._reset()
        self._media_time_from = media_time_from
        self._in_session = True

    def end(self) -> None:
        self._reset()
        self._media_time_from = None
        self._in_session = False

    def on_new_version(self) -> None:
        """Use the rate that another version of the model declares or assigns, if it is another, and its sound tracks.

        The reserve is estimated anew: other code takes other times.
        """
        self.end_load()
        version, before = self._served.version, self._rates
        self._rates = version.fps, version.contract.max_fps
        self._reset_reserve()
        if self._rates != before:
            self._fps = version.fps
            self._fixed = self._fps is not None
            self._is_chosen = self._version_has_rate()
            self._estimate = RateEstimate(max_fps=version.contract.max_fps)
            self.schedule.set_fps(self._fps or self.schedule.fps)
        self._sound_lines: dict[TrackSpec, SoundLine] = {**self._new_sound_lines(), **self._sound_lines}

    def begin_load(self) -> None:
        """Keep the rate that is set from now on for the version whose `load()` sets it."""
        self._is_loading, self.loaded_fps = True, None

    def end_load(self) -> None:
        """Apply a rate at once when it is set."""
        self._is_loading = False

    @property
    def fps(self) -> float:
        """Return the rate at which frames are shown, in `load()` the rate that it has set."""
        return self.loaded_fps if self._is_loading and self.loaded_fps is not None else self.schedule.fps

    def set_fps(self, fps: float) -> None:
        """Fix the rate from the next frame on, outside a session for all sessions; ValueError if it isn't above 0."""
        if self._is_loading:
            self.loaded_fps = Schedule(fps).fps
            return
        self.schedule.set_fps(fps)
        self._fixed = self._is_chosen_now = True
        if not self._in_session:
            self._fps = fps
            self._is_chosen = True

    @property
    def adaptive(self) -> bool:
        return not self._fixed

    def adapt(self, frames: int, compute_time: float) -> None:
        """Move the rate towards the rate at which the model makes frames."""
        if self._served.contract.follows_clients and (self._is_chosen or self._is_chosen_now):
            return
        fps = self._estimate.add(frames, compute_time)
        if fps is not None:
            self.schedule.set_fps(fps)
        # A model of single frames that are computed at once has no rate of its own.
        if frames > 1 and not self._bounded and self._estimate.exceeds_max:
            self._bounded = True
            logger.info(
                "the model makes more than max_fps=%g frames a second, and is shown at that rate; set max_fps on the "
                "class for a higher one", self._served.contract.max_fps,
            )  # fmt: skip

    def begin_block(self, now: float, frames: int, compute_s: float, *, room: int, has_sound: bool) -> None:
        """Set when, and how fast, the frames of a step that ended at `now` play, from what is in reserve.

        `room` is how many frames may be queued. A model that is too slow for the rate that is set gets no reserve,
        which could not last, and neither does a session in the time of its media. Call it after `adapt`.
        """
        if self._media_time_from is not None:
            return
        interval_s = 1 / self.schedule.fps
        self._reserve.add(frames, compute_s, interval_s=interval_s, room=room)
        slowest_s = (1 + MOST_SLOWER) * frames * interval_s
        lasts = not self._fixed or self._reserve.step_s <= slowest_s
        self.reserve_s = target_s = self._reserve.target_s if lasts else 0.0
        upcoming = self.schedule.upcoming
        early_s = target_s if upcoming is None else upcoming - now
        missing_s = max(0.0, target_s - max(0.0, early_s))
        is_gap = has_sound and early_s < -FORGIVEN_S
        self._fill_s = target_s if is_gap or self._reserve.steps == FILLED_AT else 0.0
        if self._fill_s or has_sound:
            missing_s = 0.0
        self._block_lead_s = self._reserve.step_s + target_s if target_s else 0.0
        self._slower = 1 + min(MOST_SLOWER, REFILL * missing_s / (frames * interval_s))

    def learn(self, compute_s: float, ready_s: float) -> None:
        """Add to the estimates how long a step computed, and how long after hand-over its first bundle was ready."""
        self._lead.add(compute_s, ready_s)
        self._ready_s += (ready_s - self._ready_s) * READY_SMOOTHING

    def step_at(self, now: float) -> float:
        """Return when a step must start so that its output is ready when it is due."""
        dues = [schedule.upcoming for schedule in (self.schedule, self._alone) if schedule.upcoming is not None]
        recent = [due for due in dues if due > now - OVER_S]
        return min(recent or dues, default=0.0) - max(self._lead.value_s, self._block_lead_s)

    def due_at(self, now: float) -> float:
        """Return when the output of the next step is due; `now` if that is at once."""
        dues = [schedule.upcoming for schedule in (self.schedule, self._alone) if schedule.upcoming is not None]
        return min((due for due in dues if due > now - OVER_S), default=now)

    def over_at(self, *, alone: bool) -> float:
        """Return when the newest bundle, or with `alone` the newest sound without a frame, has been shown."""
        return (self._alone if alone else self.schedule).upcoming or 0.0

    @property
    def early_s(self) -> float:
        """Return how many seconds before `step_at` a frame of a camera may start the step."""
        return EARLY / self.schedule.fps if self.follows_input else 0.0

    def next(self, now: float, bundle: Mapping[TrackSpec, Payload]) -> float:
        """Return the due time of the next bundle, not before it can be ready, and set `length_s` to its duration."""
        interval_s = self._slower / self.schedule.fps
        durations_s = self._durations_s(bundle) if self._sound_lines else ()
        alone = len(durations_s) == len(bundle)
        ready_s, early_s = min(self._ready_s, interval_s), self.early_s
        if not alone:
            ready_s, self._fill_s = max(ready_s, self._fill_s), 0.0
        if self._media_time_from is not None:
            now, ready_s, early_s = self._media_time_from, 0.0, 0.0
        if not durations_s:
            self.length_s = interval_s
            length = None if self._slower == 1 else interval_s
            return self.schedule.next(now, ready_s, length_s=length, early_s=early_s)
        self.length_s = max(durations_s) if alone else length_s(durations_s, interval_s)
        if self._fixed and not alone and not self._warned and self.length_s > interval_s * (1 + ROUNDING):
            self._warn(interval_s)
        return (self._alone if alone else self.schedule).next(
            now, ready_s, length_s=self.length_s, forgiven_s=FORGIVEN_S
        )

    def _durations_s(self, bundle: Mapping[TrackSpec, Payload]) -> Sequence[float]:
        lines = self._sound_lines.items()
        return [bundle[track].shape[1] / line.sample_rate for track, line in lines if track in bundle]

    def begins(self, track: TrackSpec, due: float, samples: int) -> float:
        """Return when the sound of the bundle due at `due` begins: at the end of the previous piece, if possible."""
        return self._sound_lines[track].next(due, samples)

    def restart(self) -> None:
        """Reset the schedule: the next frame or piece is due at once. The rate stays."""
        self.schedule.reset()
        self._alone.reset()
        self._fill_s, self._slower = 0.0, 1.0
        for line in self._sound_lines.values():
            line.reset()

    def _version_has_rate(self) -> bool:
        """Return whether the author's class or its `load()` has a rate."""
        version, contract = self._served.version, self._served.contract
        return version.assigned_fps is not None or contract.style.assigned(contract.model, "fps") is not None

    def _reset(self) -> None:
        self._fixed = self._fps is not None
        self._is_chosen_now = False
        self._estimate = RateEstimate(max_fps=self._served.contract.max_fps)
        self._lead = Lead()
        self._ready_s = 0.0
        self._reset_reserve()
        self.follows_input = False
        self.schedule = Schedule(self._fps or DEFAULT_FPS)
        self._alone = Schedule(DEFAULT_FPS)
        self._sound_lines = self._new_sound_lines()

    def _reset_reserve(self) -> None:
        self._reserve = PlayoutReserve()
        # How long before they are due blocks should be ready, and how long before that a step starts for it.
        self.reserve_s = self._block_lead_s = 0.0
        # By how much later the next bundle is shown to fill the reserve, and how much longer each frame is shown.
        self._fill_s, self._slower = 0.0, 1.0

    def _new_sound_lines(self) -> dict[TrackSpec, SoundLine]:
        tracks = [track for track in self._served.contract.output_tracks if track.kind == "audio"]
        return {track: SoundLine(track.sample_rate) for track in tracks if track.sample_rate}

    def _warn(self, interval_s: float) -> None:
        self._warned = True
        logger.warning(
            "a frame came with %.1f ms of sound and lasts %.1f ms at %g fps: it is shown for as long as its "
            "sound lasts; give each frame sample_rate / fps samples, or set fps=%.3g",
            1e3 * self.length_s, 1e3 * interval_s, self.schedule.fps, 1 / self.length_s,
        )  # fmt: skip
