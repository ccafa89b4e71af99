"""`get_ctx()`: the running session, for the code of a block model.

`start_session()` and commands find their session by a context variable. Threads of the author inherit none, so running
sessions are stored here too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.events.messages import ModelMessage


class ContextTrack(Protocol):
    """Represent a track of the session; without a name, the model's only output and its only input."""

    def emit(self, frame: object) -> None:
        """Emit a frame, a block of frames, or sound on this track alone, as `emit_block` does."""
        ...

    def latest(self) -> NDArray[Any] | None:
        """Return the client's newest frame or sound, the same until a newer one comes; None before the first.

        Never waits.
        """
        ...


class Context(Protocol):
    """Represent the running session; every method may be called from any thread."""

    @property
    def model(self) -> str:
        """Return the name of the model's class."""
        ...

    def emit_block(self, frames: object) -> None:
        """Emit a block `(N, H, W, 3)`, a frame `(H, W, 3)` or an Output; None shows black until the next block.

        Blocks play evenly, at the rate they come. Waits while 2 blocks, or `buffer_size` frames, are queued; returns at
        once when the session stops. Raises ValueError or TypeError, with the fix, for a value that can't be shown.
        """
        ...

    def empty(self, shape: Sequence[int]) -> NDArray[np.uint8]:
        """Return memory for a block or a frame, with arbitrary values, that `emit_block()` does not copy.

        After `emit_block()` it may be read, and not be changed: take another one for the next block.
        """
        ...

    def should_stop(self) -> bool:
        """Return whether the client has left; `start_session()` must return soon then."""
        ...

    def send(self, message: dict[str, Any] | ModelMessage) -> None:
        """Send `{"type": …, "data": {…}}` to the session's clients, after the blocks emitted before it."""
        ...

    def enable_monitoring(self) -> None:
        """Resume measuring the rate of blocks."""
        ...

    def disable_monitoring(self) -> None:
        """Stop measuring the rate of blocks until `enable_monitoring()`, for a deliberate pause."""
        ...

    def get_track(self, name: str | None = None) -> ContextTrack:
        """Return a track; raise ValueError that lists the tracks if there is no such track."""
        ...


_own: ContextVar[Context] = ContextVar("reactor_session")
_running: list[Context] = []


def get_ctx() -> Context:
    """Return the running session, from any thread; raise RuntimeError if there is none, or several in this process.

    `start_session()` and commands always get their own session.
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
            f"several sessions run in this process ({names}): call get_ctx() in start_session() or a command, and pass "
            "the result to your thread"
        )
    return running[0]


@contextlib.contextmanager
def running(context: Context) -> Iterator[None]:
    """Make `context` available to all threads inside the `with` block."""
    _running.append(context)
    try:
        yield
    finally:
        _running.remove(context)


@contextlib.contextmanager
def belonging_to(context: Context) -> Iterator[None]:
    """Make `context` the only session for this thread inside the `with` block."""
    token = _own.set(context)
    try:
        yield
    finally:
        _own.reset(token)
