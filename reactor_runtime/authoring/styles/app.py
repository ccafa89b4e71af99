"""The step style: `ReactorApp`, whose steps read an input, generate, and return an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.tracks.tracks import Output

# Files that the runtime writes beside those of a step.
_OWN_FILES = ("result.json", "output.mp4")


class ApplicationError(Exception):
    """Skip a step: raise it in `process_input()` while there is nothing to generate. It is no failure.

    The step is tried again when an event or an input frame has come, or after 10 ms.
    """

    # For subclasses that do not call this `__init__`.
    reason = ""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Hold what `generate()` has returned, or the exception that it has raised, and its duration in seconds."""

    result: Any = None
    error: Exception | None = None
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        if self.result is not None and self.error is not None:
            raise ValueError("a StepOutcome has a result or an error, not both")

    def to_output(self) -> Output | None:
        """Return the result if it is an Output or None; raise the error, or NotImplementedError for another result."""
        if self.error is not None:
            raise self.error
        if self.result is None or isinstance(self.result, Output):
            return self.result
        raise NotImplementedError(
            f"generate() returned {type(self.result).__name__}: return an Output, or make one of it in process_output()"
        )


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """Describe a finished step, in place of its output: return it from `process_output()`.

    `elapsed` in seconds replaces the measured duration of the step. `error` is logged. `files` are the step's own files
    by name, for clients that request single steps; a stream has no use for them.
    """

    output: Output | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    error: object = None
    elapsed: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", dict(self.files))
        for name, content in self.files.items():
            _check_file(name, content)


class ReactorApp(AsyncModel):
    """Write a model as steps: `process_input()`, `generate()` and `process_output()`, one after the other.

    Events run between two steps, never within one. An annotated `state` is made anew for each session, and is None
    outside of sessions. Declare `fps` for a fixed rate; without it, frames play as fast as the model makes them, up to
    `max_fps`. `buffer_size` is the maximum number of frames that wait to be shown, at least those of one step; None is
    10. A class with `run()` is a loop, as a `ReactorModel` is.
    """

    fps: float = 30.0
    buffer_size: int | None = None
    state: Any = None

    async def process_input(self) -> Any:
        """Return the input of the next step, the state by default; raise ApplicationError to skip the step."""
        return self.state

    def generate(self, input: Any) -> Any:
        """Compute one step. An exception becomes the `error` of the outcome."""
        raise NotImplementedError(f"{type(self).__name__} needs generate(), which computes a step")

    async def process_output(self, outcome: StepOutcome) -> Output | StepCompleted | None:
        """Return what the step shows, None for nothing. Messages sent here reach clients before the frames.

        An exception that leaves it is a crash: the model is loaded again.
        """
        return outcome.to_output()

    async def emit(self, output: Output | object, *, compute_time: float | None = None, drop: bool = False) -> None:
        """Emit an Output, a frame or a batch of frames; without a client nothing happens.

        Waits while the queue is full; with `drop` it never waits, keeps the frames of a batch that fit and drops the
        rest. `compute_time` in seconds moves the rate towards the frames made per second. Raises TypeError or
        ValueError that names the track, the value and the fix. Call it on the model's thread.
        """
        await self._reactor_served().emit(output, compute_time=compute_time, drop=drop)

    async def complete_step(self, step: StepCompleted) -> None:
        """Emit the output of a step that `run()` has made; its `elapsed` is the `compute_time`."""
        if step.output is not None:
            await self.emit(step.output, compute_time=step.elapsed)


def _check_file(name: object, content: object) -> None:
    if not isinstance(name, str) or not isinstance(content, bytes):
        raise TypeError(f"StepCompleted.files maps names to bytes, not {name!r} to {type(content).__name__}")
    if name in ("", ".", "..", *_OWN_FILES) or "/" in name or "\\" in name:
        raise ValueError(
            f"StepCompleted.files: {name!r} can't be the name of a file: it is one segment, and not "
            f"{' or '.join(_OWN_FILES)}"
        )
