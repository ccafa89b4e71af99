"""A model that computes in several processes, one for each GPU: `DistributedRunner` and its workers.

`runner.py` is the public object and `rank_group.py` its processes, each a `rank_process.py`. A rank runs `__main__.py`,
and not `multiprocessing`, which would execute the main module of the author's program. Both sides exchange one request
and its reply at a time (`exchange.py`): values as `packing.py` packs them, large buffers in a `shared_slot.py`,
exceptions as a `remote_error.py`. `outcomes.py` compares the replies of all ranks.
"""

from __future__ import annotations

from reactor_runtime.distributed.errors import (
    RankDesync,
    RunnerUnhealthy,
    SharedSlotAllocationFailed,
    WorkerCrashed,
    WorkerTimeout,
)
from reactor_runtime.distributed.runner import DistributedRunner
from reactor_runtime.distributed.worker import DistributedWorker

__all__ = [
    "DistributedRunner",
    "DistributedWorker",
    "RankDesync",
    "RunnerUnhealthy",
    "SharedSlotAllocationFailed",
    "WorkerCrashed",
    "WorkerTimeout",
]
