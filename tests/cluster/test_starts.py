from __future__ import annotations

import pytest

from reactor_runtime.cluster.front.starts import WorkerStarts
from reactor_runtime.errors import LoadError


def test_three_failures_in_a_row_end_the_front_with_the_last_reason() -> None:
    starts = WorkerStarts()
    for reason in ("a", "b", "disk on fire"):
        starts.raise_failure()
        starts.begin("w")
        starts.record_failure("w", reason, 0.0)
    with pytest.raises(LoadError, match="3 workers have ended before they were ready, the last one: disk on fire"):
        starts.raise_failure()


def test_failures_on_one_machine_do_not_end_a_front_whose_other_first_workers_load() -> None:
    starts = WorkerStarts()
    for worker in ("w-1", "w-2"):
        starts.begin(worker)
    for _ in range(4):
        starts.record_failure("w-1", "No module named 'tiny'", 0.0)
        starts.begin("w-1")
        starts.raise_failure()
    starts.record_failure("w-2", "disk on fire", 0.0)
    with pytest.raises(LoadError, match="5 workers"):
        starts.raise_failure()


def test_a_worker_that_was_ready_or_released_has_not_failed() -> None:
    starts = WorkerStarts()
    for worker in ("ready", "released", "unknown"):
        starts.begin(worker)
    starts.record_success("ready")
    starts.forget("released")
    starts.forget("unknown")
    for worker in ("ready", "released", "unknown"):
        starts.record_failure(worker, "it has ended", 5.0)
    assert starts.retry_at == 0.0
    for _ in range(4):
        starts.begin("w")
        starts.record_failure("w", "disk on fire", 5.0)
        starts.raise_failure()
    assert starts.retry_at == 20.0


def test_each_failure_in_a_row_is_followed_by_a_longer_wait() -> None:
    starts = WorkerStarts()
    waits = []
    for _ in range(6):
        starts.begin("w")
        starts.record_failure("w", "disk on fire", 100.0)
        waits.append(starts.retry_at - 100.0)
    assert waits == [0.0, 1.0, 5.0, 15.0, 30.0, 30.0]
