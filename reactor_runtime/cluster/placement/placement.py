"""Where workers run: what the fleet needs of a scheduler such as Ray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class WorkerPending:
    """A worker has no place yet, for `reason`."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerPlaced:
    """A worker listens on a node: at `url` for clients, at `address` for the front, which is a URL too.

    `certificate` is that which it has read at its start, in PEM; "" without one. Also reported of workers that another
    front has started.
    """

    worker: str
    url: str
    address: str
    node: str
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker has ended, or could not be started."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementLost:
    """The scheduler can't be reached; workers continue."""

    reason: str


@dataclass(frozen=True, slots=True)
class PlacementRestored:
    """The scheduler can be reached again; of the workers, it knows these."""

    workers: tuple[str, ...]


PlacementEvent: TypeAlias = WorkerPending | WorkerPlaced | WorkerGone | PlacementLost | PlacementRestored


class Placement(Protocol):
    """Starts and stops workers on the machines of a cluster; use on the front's loop."""

    @property
    def found(self) -> tuple[str, ...]:
        """The workers that ran before this front started; `run` reports them too."""

    def start(self, worker: str) -> None:
        """Request a place for a new worker, and start it there."""

    def stop(self, worker: str) -> None:
        """End a worker at once; `WorkerGone` follows."""

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        """Report events until cancelled or closed, and reconnect to the scheduler after a loss.

        Raises UsageError if the scheduler can't be used at all.
        """

    async def aclose(self) -> None:
        """End the workers and the contact with the scheduler."""

    def kill(self) -> None:
        """End what belongs to this process, at once."""
