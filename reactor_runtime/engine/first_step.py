"""The check of a model's output, which reports what is probably a mistake, with the author's line.

The first output is checked whole, later ones by a few pixels once a second.

`reactor run`, `reactor check --step` and the offline drivers use it. Output that can't be shown raises at the author's
`yield`; see `media.frames` and `engine.author`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import author_line, location_of
from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.errors import Location, ReactorError
from reactor_runtime.media.jpeg_frame import JpegFrame, Payload

SLOW_S = 1.0
# The maximum of a frame whose values of 0..1 were cast to uint8 without scaling.
_DARKEST = 1

WATCH_S = 1.0
# A track is reported after so many black samples in a row, one each second.
BLACK_SAMPLES = 3
# About 1,000 values of a frame are read.
_SAMPLED = 16

Bundles = Sequence[Mapping[TrackSpec, Payload]]
Report = Callable[[ReactorError], object]

_BLACK_HINT = (
    "values of 0..1, and NaN, become 0 when they are cast to uint8: use reactor_runtime.frames.to_frames, "
    "and check for NaN before it; a video that begins black is fine"
)
_BLACK_LATER_HINT = (
    "NaN becomes 0 when it is cast to uint8: look for what computes the first NaN; "
    "a video that is meant to be black is fine"
)
SLOW_HINT = (
    "if only the first step is slow, as with torch.compile, set warmup = 1 on the class; else do less in a step: fewer "
    "frames, a smaller size, or fewer iterations"
)
SLOW_AFTER_WARM_UP_HINT = "the warm-up has not made it faster: make fewer frames a step, or smaller ones"
SLOW_HINTS = (SLOW_HINT, SLOW_AFTER_WARM_UP_HINT)


def output_warnings(bundles: Bundles, step_s: float | None, *, warmed_up: bool = False) -> list[tuple[str, str]]:
    """Return pairs of message and hint for output that is probably a mistake; `step_s` is None if not measured."""
    # One warning for all seats, by the track's name.
    black: dict[str, str] = {}
    for track in bundles[0] if bundles else ():
        frames = [frame for bundle in bundles if (frame := _pixels(track, bundle[track])) is not None]
        if frames and all(frame.max() <= _DARKEST for frame in frames):
            level = "is 0" if not any(frame.any() for frame in frames) else "is 0 or 1 of 255"
            black.setdefault(track.name, f"{track.key} is black in the first step: every value {level}")
    found = [(message, _BLACK_HINT) for message in black.values()]
    if step_s is not None and step_s > SLOW_S:
        late = f"the first step took {step_s:.1f} s, and an event waits for the end of a step"
        found.append((late, SLOW_AFTER_WARM_UP_HINT if warmed_up else SLOW_HINT))
    return found


def _pixels(track: TrackSpec, payload: Payload) -> NDArray[Any] | None:
    """Return the pixels of a frame that may be black by mistake; None for sound, and for a JPEG, which no cast made."""
    return None if track.kind != "video" or isinstance(payload, JpegFrame) else payload


def step_facts(bundles: Bundles, step_s: float | None) -> dict[str, Any]:
    """Describe the time and the output of a step in JSON values."""
    pieces: dict[TrackSpec, list[Payload]] = {}
    for bundle in bundles:
        for track, payload in bundle.items():
            pieces.setdefault(track, []).append(payload)
    return {"seconds": step_s, "tracks": [_track_facts(track, arrays) for track, arrays in pieces.items()]}


def _track_facts(track: TrackSpec, payloads: Sequence[Payload]) -> dict[str, Any]:
    first = payloads[0]
    facts = {
        "name": track.key,
        "kind": track.kind,
        "dtype": "JPEG" if isinstance(first, JpegFrame) else str(first.dtype),
    }
    if track.kind == "video":
        height, width, _ = first.shape
        return {**facts, "frames": len(payloads), "width": width, "height": height}
    samples = sum(payload.shape[1] for payload in payloads)
    return {**facts, "channels": first.shape[0], "seconds": samples / (track.sample_rate or 1)}


class BlackWatch:
    """Find a video track that turns black and stays black for 3 s: values that have become NaN are 0 as uint8.

    Reads about 1,000 values of the newest frame, once a second.
    """

    def __init__(self) -> None:
        self._next_s = 0.0
        self._black: dict[str, int] = {}

    def find_black(self, now: float, bundles: Bundles) -> list[str]:
        """Return the tracks that have just been black for 3 s, and were not before."""
        if now < self._next_s or not bundles:
            return []
        self._next_s = now + WATCH_S
        found = []
        for track, payload in bundles[-1].items():
            frame = _pixels(track, payload)
            if frame is None:
                continue
            height, width, _ = frame.shape
            sample = frame[:: max(1, height // _SAMPLED), :: max(1, width // _SAMPLED)]
            # The check of the first step reports a track that was never bright.
            if sample.max() > _DARKEST:
                self._black[track.key] = 0
            elif track.key in self._black:
                self._black[track.key] += 1
                if self._black[track.key] == BLACK_SAMPLES:
                    found.append(track.key)
        return found


class FirstStep:
    """Check the first output after a model's load, and after a change of its code; watch later output for black frames.

    `now` reads the clock for later output. `seconds` reads a clock that does not advance while the model waits; without
    it the driver passes the duration.
    """

    def __init__(
        self,
        served: ServedModel,
        report: Report,
        seconds: Callable[[], float] | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._now = now
        self._watch: BlackWatch | None = BlackWatch()
        self._served = served
        self._report = report
        self._seconds = seconds
        self._began: float | None = None
        self.warmed_up = False
        self.checked = False
        # The facts of the step that was checked last.
        self.facts: dict[str, Any] | None = None

    @contextlib.contextmanager
    def unchecked(self) -> Iterator[None]:
        """Check nothing in the block: its steps are those of the warm-up."""
        self.checked = self.warmed_up = True
        try:
            yield
        finally:
            self.checked = False

    def check_again(self) -> None:
        """Check the first output of another version of the model too."""
        self._began = None
        self.checked = False
        self._watch = BlackWatch()

    def start_timer(self) -> None:
        """Start to measure: the model computes from now on."""
        if self._seconds is not None and not self.checked:
            self._began = self._seconds()

    def check(self, bundles: Bundles, step_s: float | None, frame: FrameType | None = None) -> None:
        """Report probable mistakes in output; `frame` is the author's stack frame that made it, if known."""
        if self.checked:
            self._watch_for_black(bundles, frame)
            return
        self.checked = True
        if self._seconds is not None and self._began is not None:
            step_s = self._seconds() - self._began
        self.facts = step_facts(bundles, step_s)
        found = output_warnings(bundles, step_s, warmed_up=self.warmed_up)
        where = self._place(frame) if found else None
        for message, hint in found:
            self._report(ReactorError(message, hint=hint, where=where))

    def _watch_for_black(self, bundles: Bundles, frame: FrameType | None) -> None:
        """Report a track that has become black, once for each load."""
        black = [] if self._watch is None else self._watch.find_black(self._now(), bundles)
        if black:
            self._watch = None
            self._report(
                ReactorError(
                    f"{black[0]} has been black for {BLACK_SAMPLES} s, and was not before",
                    hint=_BLACK_LATER_HINT,
                    where=self._place(frame),
                )
            )

    def _place(self, frame: FrameType | None) -> Location | None:
        """Return the author's line in a stack frame or its callers, else the method that makes the video frames."""
        contract = self._served.contract
        return author_line(frame) or location_of(contract.model, contract.style.frames_method)
