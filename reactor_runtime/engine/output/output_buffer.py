"""The part of the emitter that authors use: `self.output_buffer`."""

from __future__ import annotations

from reactor_runtime.engine.output.emitter import Emitter


class OutputBuffer:
    """Change the rate and empty the queue for the author, as `self.output_buffer`; belongs to the model's thread."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    @property
    def fps(self) -> float:
        """Return the rate at which frames are shown, in frames per second."""
        return self._emitter.pace.schedule.fps

    def set_fps(self, fps: float) -> None:
        """Show frames at `fps` from the next one on; ValueError unless it is above 0."""
        self._emitter.pace.set_fps(float(fps))

    def flush(self) -> None:
        """Drop all queued frames and the rest of a batch that waits to be queued, and show one black frame."""
        self._emitter.flush()
