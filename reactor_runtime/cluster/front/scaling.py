"""How many workers a fleet needs, each for one session or for several. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Limit the number of workers: keep room for `spare` sessions, and release those idle for `idle_after_s`."""

    least: int
    most: int
    spare: int = 0
    idle_after_s: float = 600.0


class WorkerState(NamedTuple):
    """Describe a worker for the plan; `idle_since` is None while it loads or has a session.

    `requested` is whether this front has requested a place for it, which it does not have yet. `room` is how many more
    sessions fit on a worker that is busy.
    """

    id: str
    busy: bool
    idle_since: float | None
    requested: bool = False
    room: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold how many workers to start, which to release, and when the plan changes if nothing else happens."""

    start: int
    release: tuple[str, ...]
    check_at: float | None


def make_plan(scaling: Scaling, workers: Sequence[WorkerState], waiting: int, now: float, *, each: int = 1) -> Plan:
    """Return the plan for a fleet in which `waiting` more sessions are needed, and a worker can have `each` at a time.

    It never releases a worker with a session.
    Requests for places that are not needed any more are withdrawn at once, the newest first, before a machine is
    started for them. Workers are released in the order in which they became idle.
    """
    busy = sum(worker.busy for worker in workers)
    more = max(0, waiting + scaling.spare - sum(worker.room for worker in workers if worker.busy))
    wanted = min(max(busy + math.ceil(more / each), scaling.least), scaling.most)
    surplus = len(workers) - wanted
    if surplus <= 0:
        return Plan(-surplus, (), None)
    withdrawn = [worker.id for worker in workers if worker.requested][-surplus:]
    idle = sorted((worker.idle_since, worker.id) for worker in workers if worker.idle_since is not None)
    idle = idle[: surplus - len(withdrawn)]
    released = [id for since, id in idle if now - since >= scaling.idle_after_s]
    left = idle[len(released) :]
    return Plan(0, (*withdrawn, *released), left[0][0] + scaling.idle_after_s if left else None)
