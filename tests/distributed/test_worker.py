"""A worker outside of a rank."""

from __future__ import annotations

import pytest

from reactor_runtime.distributed import DistributedWorker


def test_a_worker_outside_of_a_rank_is_the_only_one() -> None:
    worker = DistributedWorker()
    assert (worker.rank, worker.world_size, worker.is_leader) == (0, 1, True)
    assert str(worker.device) == "cpu" or str(worker.device).startswith("cuda")


def test_a_worker_without_generate_names_it() -> None:
    class Empty(DistributedWorker):
        pass

    worker = Empty()
    worker.load()
    worker.reset()
    with pytest.raises(NotImplementedError, match=r"Empty\.generate\(input\) is missing"):
        worker.generate(None)
