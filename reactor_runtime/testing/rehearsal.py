"""The rehearsal of `reactor check --step`: load a model, and make the first step of a session."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model, number_of
from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.authoring.tracks.backlog import CAPACITY
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.author import load_failure, session_failure
from reactor_runtime.engine.liveness import is_in_debugger
from reactor_runtime.errors import ModelFailed, ReactorError, author_trail
from reactor_runtime.testing.loaded_objects import LoadedObjects, shared_writes
from reactor_runtime.testing.studio import Studio

# On the fake clock, which stands still while the model computes.
PATIENCE_S = 10.0
NO_FRAME = f"the model made no frame in {PATIENCE_S:g} s of its time"
NO_FRAME_HINT = "a model that waits for an event first is fine; one that does not should make its first step by then"
STEP_LIMIT_S = 60.0
HEIGHT, WIDTH = 480, 640
# So many images are sent, because a model may read several at once, and as much sound as an input buffer holds.
IMAGES = 32
SOUND_PIECES = CAPACITY
# The length of a piece of sound, as the clients send it.
PIECE_S = 0.020


class Rehearsed(NamedTuple):
    """The facts of the first step, None if it made no frame, warnings, and the contract after `load()`."""

    step: dict[str, Any] | None
    warnings: list[ReactorError]
    contract: Contract


def rehearse(
    contract: Contract,
    config: GivenConfig | Mapping[str, Any],
    project: Path,
    *,
    on_step_limit: Callable[[ReactorError], object],
    step_limit_s: float = STEP_LIMIT_S,
) -> Rehearsed:
    """Load a model and make its first step.

    If several sessions share the model, there is a warning for each object of `load()` that the session has changed.

    Raises LoadError or ModelFailed, at the author's line, if the model or its output fails. `on_step_limit` is called,
    on another thread, with the ModelFailed of a step that takes longer than `step_limit_s`; nothing here can end such a
    step.
    """
    model = contract.model
    try:
        studio = _Rehearsal(model, config, project=project)
        studio.warm_up()
    except ReactorError:
        raise
    except BaseException as error:
        raise load_failure(error, contract, project) from error
    exceeded = threading.get_ident(), step_limit_s, project, bool(number_of(studio.model, "warmup"))
    with _time_limit(step_limit_s, lambda: on_step_limit(_step_limit_error(*exceeded))), studio:
        contract.style.check_loaded(studio.model)
        loaded = LoadedObjects(studio.model) if contract.sessions_per_model > 1 else None
        try:
            studio.connect()
            for track in contract.tracks:
                if track.direction == "in":
                    for piece in test_media(track.kind, track.sample_rate):
                        studio.push_media(track.name, piece)
            facts, warnings = studio.make_first_frame()
        except BaseException as error:
            raise session_failure(error, project) from error
        if loaded is not None:
            warnings = [*warnings, *shared_writes(loaded, contract)]
        # With the rate that load() has set.
        return Rehearsed(facts, warnings, studio.contract.with_current_rate())


class _Rehearsal(Studio[Model]):
    """Make one step only: a second step, made ahead of time, may take as long as the first."""

    _works_ahead: ClassVar[bool] = False

    # Whether there was a step that the model has not skipped.
    _has_stepped = False

    @property
    def contract(self) -> Contract:
        return self._contract

    def make_first_frame(self) -> tuple[dict[str, Any] | None, list[ReactorError]]:
        """Pass time until the first frame is made, or the first step of a model without output tracks.

        Return the facts of the step that made it, and warnings.
        """
        recorder = self._recorder
        has_output = any(track.direction == "out" for track in self._contract.tracks)
        self._slot.pause_steps(False)
        try:
            self._wait.advance(
                lambda: bool(recorder.frames or recorder.failures or (self._has_stepped and not has_output)), PATIENCE_S
            )
        finally:
            self._slot.pause_steps(True)
        self._wait.raise_failure()
        if self._slot.refusal and not self._has_stepped:
            return None, [ReactorError(f"the model skips its steps: {self._slot.refusal}", hint=NO_FRAME_HINT)]
        if has_output and not recorder.frames:
            return None, [ReactorError(NO_FRAME, hint=NO_FRAME_HINT)]
        return self._slot.first_step.facts, list(recorder.warnings)

    def _on_step(self, output: object, compute_s: float) -> None:  # noqa: ARG002  (what `Studio` declares)
        self._has_stepped = self._has_stepped or not (is_idle(output) and self._slot.refusal)


@contextlib.contextmanager
def _time_limit(seconds: float, on_exceeded: Callable[[], object]) -> Iterator[None]:
    """Call `on_exceeded` on a thread if the block takes longer; a stop in a debugger extends the limit."""
    thread, over = threading.get_ident(), threading.Event()
    # The block does not end while `on_exceeded` runs, so that there is one result.
    lock = threading.Lock()

    def watch() -> None:
        while not over.wait(seconds):
            with lock:
                if not over.is_set() and not is_in_debugger(thread):
                    on_exceeded()
                    return

    threading.Thread(target=watch, name="reactor-step-limit", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()


def _step_limit_error(thread: int, limit_s: float, project: Path, warmed_up: bool) -> ModelFailed:
    """Return the error for a step that takes too long, at the author's line in `thread`, else in another thread."""
    stacks = sys._current_frames()
    frames = [stacks.pop(thread), *stacks.values()]
    trails = [author_trail(traceback.extract_stack(frame), project) for frame in frames]
    trail = next((each for each in trails if each), ())
    return ModelFailed(
        f"the first step has not ended after {limit_s:g} s",
        hint="load weights in load(), which has no limit"
        + ("" if warmed_up else ", and set warmup = 1 on the class if the first step compiles"),
        where=trail[-1] if trail else None,
        trail=trail,
    )


def test_media(kind: str, sample_rate: int | None) -> list[NDArray[Any]]:
    """Return test media for an input track: images of a gradient, or pieces of a tone of 440 Hz."""
    if kind == "video":
        image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        image[..., 0] = np.linspace(0, 255, WIDTH, dtype=np.uint8)
        image[..., 1] = np.linspace(0, 255, HEIGHT, dtype=np.uint8)[:, None]
        image[..., 2] = 128
        return [image] * IMAGES
    rate = sample_rate or 1
    samples = max(1, round(rate * PIECE_S))
    times = np.arange(samples * SOUND_PIECES) / rate
    tone = (8192 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)
    return [piece[np.newaxis] for piece in np.split(tone, SOUND_PIECES)]
