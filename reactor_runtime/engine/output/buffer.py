"""What an author sees of the output queue: `self.output_buffer`."""

from __future__ import annotations

from reactor_runtime.engine.output.emitter import Emitter


class OutputBuffer:
    """Change the rate and empty the queue; use it from the model's thread."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    @property
    def fps(self) -> float:
        """Read the rate frames are shown at, in frames per second."""
        return self._emitter.pace.schedule.fps

    def set_fps(self, fps: float) -> None:
        """Show frames at `fps` from the next one on; ValueError if it isn't a number above 0."""
        self._emitter.pace.set_fps(float(fps))

    def flush(self) -> None:
        """Show nothing of what is queued, the rest of a batch still waiting to be queued included, then black."""
        self._emitter.flush()
