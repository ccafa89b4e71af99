"""Where workers run: the interface of a scheduler such as Ray, and its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class WorkerPending:
    """Report that a worker has no place yet, for `reason`."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerPlaced:
    """Report the node that a worker listens on: at `url` for clients, at `address` for the front, which is a URL too.

    `certificate` is the one that it has read at its start, in PEM; "" without one. Workers that an earlier front has
    started are reported too.
    """

    worker: str
    url: str
    address: str
    node: str
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """Report that a worker has ended, or could not be started."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementConnected:
    """Report the first contact with the scheduler, the workers that ran before, and the `secret` of their cluster."""

    workers: tuple[str, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class PlacementLost:
    """Report that the scheduler can't be reached; workers continue."""

    reason: str


@dataclass(frozen=True, slots=True)
class PlacementRestored:
    """Report that the scheduler can be reached again, and which workers it has."""

    workers: tuple[str, ...]


WorkerEvent: TypeAlias = WorkerPending | WorkerPlaced | WorkerGone | PlacementLost | PlacementRestored
PlacementEvent: TypeAlias = PlacementConnected | WorkerEvent


class Placement(Protocol):
    """Start and stop workers on the machines of a cluster; use on the front's loop."""

    def start(self, worker: str) -> None:
        """Request a place for a new worker, and start it there."""

    def stop(self, worker: str) -> None:
        """End a worker at once; `WorkerGone` follows."""

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        """Report events until cancelled or closed: first the contact with the scheduler, however long that takes.

        Reconnects after a loss. Raises UsageError if the scheduler can't be used at all.
        """

    async def aclose(self) -> None:
        """End the workers and the contact with the scheduler."""

    def kill(self) -> None:
        """End what belongs to this process, at once."""
