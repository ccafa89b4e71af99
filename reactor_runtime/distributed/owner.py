"""How the engine learns of the runners that `load()` starts: it is their owner, found in the context of the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from reactor_runtime.distributed.errors import RunnerUnhealthy

# The longest that the end of all ranks may take; then they are killed.
GRACE_S = 30.0


class Ranks(Protocol):
    """The processes of a runner; `module` is that of its worker."""

    module: str

    def shutdown(self) -> None:
        """End them, within `GRACE_S`; any thread."""


class RunnerOwner(Protocol):
    """Own the runners that are started in `owned_by`; a runner refers to it weakly."""

    def on_runner_start(self, ranks: Ranks) -> None:
        """Note that a runner has started; any thread."""

    def on_runner_lost(self, error: RunnerUnhealthy) -> None:
        """Note that a runner has become unhealthy; any thread."""


_owner: ContextVar[RunnerOwner | None] = ContextVar("reactor_runner_owner", default=None)


@contextmanager
def owned_by(owner: RunnerOwner) -> Iterator[None]:
    """Make `owner` the owner of the runners that the block starts, also in its tasks and in `asyncio.to_thread`."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def current_owner() -> RunnerOwner | None:
    """Return the owner of a runner that is started now."""
    return _owner.get()
