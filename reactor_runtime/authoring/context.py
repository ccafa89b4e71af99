"""What a block model's code holds while it serves a session: `get_ctx()`, and what it gives.

The sessions that run in this process are kept here, because threads an author starts inherit nothing else to find
theirs by; a model's own threads find theirs by a context variable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from numpy.typing import NDArray

from reactor_runtime.authoring.messages import ModelMessage


class ContextTrack(Protocol):
    """A track of the session; without a name, the model's only output and its only input."""

    def emit(self, frame: object) -> None:
        """Hand over a frame, a block of frames, or sound for this track alone, as `emit_block` does."""
        ...

    def latest(self) -> NDArray[Any] | None:
        """Return the newest frame or sound of the client's, the same until a newer one comes; None before the first.

        Never waits.
        """
        ...


class Context(Protocol):
    """A session, as the model's code has it; every method may be called from any thread."""

    @property
    def model(self) -> str:
        """The name of the model's class."""
        ...

    def emit_block(self, frames: object) -> None:
        """Hand over a block `(N, H, W, 3)`, a frame `(H, W, 3)` or an Output; None shows black until the next block.

        Blocks play evenly, at the rate they come. Waits while 2 blocks, or `buffer_size` frames, are queued; returns at
        once when the session stops. Raises ValueError or TypeError for what can't be shown, saying what to change.
        """
        ...

    def should_stop(self) -> bool:
        """Tell that the client has gone: return from `start_session()` soon."""
        ...

    def send(self, message: dict[str, Any] | ModelMessage) -> None:
        """Send `{"type": …, "data": {…}}` to the session's clients, after the blocks handed over before it."""
        ...

    def enable_monitoring(self) -> None:
        """Measure again how fast blocks come."""
        ...

    def disable_monitoring(self) -> None:
        """Pause on purpose: the time until `enable_monitoring()` does not lower the rate."""
        ...

    def get_track(self, name: str | None = None) -> ContextTrack:
        """Return a track; ValueError names those there are."""
        ...


_own: ContextVar[Context] = ContextVar("reactor_session")
_running: list[Context] = []


def get_ctx() -> Context:
    """Return the session that runs, from any thread; RuntimeError without one, or if two are and neither is meant.

    `start_session()` and commands always get their own.
    """
    running, own = tuple(_running), _own.get(None)
    if own is not None:
        if own in running:
            return own
        raise RuntimeError(f"the session of {own.model} that this code belongs to is over")
    if not running:
        raise RuntimeError("no session runs: get_ctx() works from the start of start_session() until it has returned")
    if len(running) > 1:
        names = ", ".join(context.model for context in running)
        raise RuntimeError(
            f"get_ctx() can't tell which session is meant, those of {names} run in this process: call it in "
            "start_session() or a command, and hand what it returns to your thread"
        )
    return running[0]


@contextlib.contextmanager
def running(context: Context) -> Iterator[None]:
    """Let any thread find `context` while the block runs."""
    _running.append(context)
    try:
        yield
    finally:
        _running.remove(context)


@contextlib.contextmanager
def belonging_to(context: Context) -> Iterator[None]:
    """Let the code in the block, in this thread, find `context` and no other."""
    token = _own.set(context)
    try:
        yield
    finally:
        _own.reset(token)
