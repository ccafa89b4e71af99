"""The warm-up: steps in a session without a client, after `load()`; their output is discarded.

`Host.warm_up` runs the session. Black frames and silence stand in for the inputs of a client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.clock import Clock, Timer
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import OutgoingBundle
from reactor_runtime.errors import LoadError
from reactor_runtime.ipc.messages import Credit, ToServer

logger = logging.getLogger(__name__)

# The id of the session, and of its client.
WARM_UP = "warmup"
# Of the frames and pieces of sound that stand in for a camera and a microphone.
INPUT_FPS = 30
HEIGHT, WIDTH = 480, 640
PATIENCE_S = 30.0


class WarmUp:
    """Count the steps of the session and end it with `stop` after the last one; a `Sink` that discards all output.

    `on_step` is called before each step, with its number and the number of steps. Belongs to the model's thread.
    """

    def __init__(
        self,
        contract: Contract,
        steps: int,
        *,
        emitter: Emitter,
        stop: Callable[[], object],
        on_step: Callable[[int, int], object],
    ) -> None:
        self._contract = contract
        self._steps = steps
        self._emitter = emitter
        self._stop = stop
        self._on_step = on_step
        self._has_video = any(track.kind == "video" and track.direction == "out" for track in contract.tracks)
        self._with_output = 0
        # The number of the step that the model makes now.
        self.step = 1
        on_step(1, steps)

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        """Count a step with output, and return the credit of the bundle at once."""
        asyncio.get_running_loop().call_soon(self._credit, Credit(bundle.session, bundle.number, ready_at=0.0))
        # Sound alone that comes beside frames is no step, and neither is the rest of a batch.
        if bundle.first and not (self._has_video and all(piece.track.kind == "audio" for piece in bundle.pieces)):
            self._with_output += 1
            self._count()

    def send(self, message: ToServer) -> None:
        """Discard a message: there is no client."""

    def release(self, number: int) -> None:
        """Do nothing: bundles have no memory here."""

    def on_idle(self) -> None:
        """Count a step without a frame."""
        self._count()

    def check_output(self) -> None:
        """Raise LoadError if all steps were without a frame: they have not run what is slow at first.

        An app may skip them, as long as there is no client to send an input.
        """
        style = self._contract.style
        if self.step > self._steps and not self._with_output and not style.may_skip_steps:
            method = style.frames_method
            raise LoadError(
                f"{method}() yielded no frame in the {self._steps} steps of the warm-up",
                hint="give the state defaults with which it makes frames, or warm up in load() and remove `warmup`",
                where=location_of(self._contract.model, method),
            )

    def log_waiting(self) -> None:
        """Log that the current step takes long; it never ends if the model waits for an event."""
        logger.warning(
            "step %d of the warm-up has not ended after %.0f s; a model that waits for an event never makes it: give "
            "the state defaults with which it makes frames, or remove `warmup`",
            self.step,
            PATIENCE_S,
        )

    def _count(self) -> None:
        if self.step > self._steps:
            return
        self.step += 1
        if self.step > self._steps:
            self._stop()
        else:
            self._on_step(self.step, self._steps)

    def _credit(self, credit: Credit) -> None:
        self._emitter.credit(credit)
        # The next step does not wait for the time at which this one's frames would be shown.
        self._emitter.pace.restart()


class StandInInputs:
    """Push black frames and silence into the inputs of a model at the rate of a camera; belongs to the loop."""

    def __init__(self, contract: Contract, inputs: Inputs, clock: Clock) -> None:
        self._media = {track.name: _empty(track) for track in contract.tracks if track.direction == "in"}
        self._inputs = inputs
        self._clock = clock
        self._timer: Timer | None = None

    def start(self) -> None:
        """Push the first piece in the next iteration of the loop, when the session has begun."""
        if self._media:
            self._timer = self._clock.call_at(self._clock.now(), self._push)

    def stop(self) -> None:
        """Push no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _push(self) -> None:
        for track, media in self._media.items():
            self._inputs.push_array(track, media)
        self._timer = self._clock.call_at(self._clock.now() + 1 / INPUT_FPS, self._push)


def _empty(track: TrackSpec) -> NDArray[Any]:
    if track.kind == "video":
        return np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    return np.zeros((1, (track.sample_rate or INPUT_FPS) // INPUT_FPS), np.int16)
