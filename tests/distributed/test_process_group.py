"""Ranks with torch: the process group of gloo, devices, and tensors on their way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.distributed import DistributedRunner, WorkerCrashed
from reactor_runtime.distributed.packing import pack, unpack
from tests.distributed import workers
from tests.distributed.test_runner import rank_pids, started
from tests.distributed.workers import Plain, Sums
from tests.processes import gone
from tests.timeouts import TIMEOUT_S
from tests.torched import torch


@pytest.fixture(scope="module")
def runner() -> Iterator[DistributedRunner]:
    runner = DistributedRunner(Sums, world_size=2)
    runner.start()
    yield runner
    runner.shutdown()


def test_ranks_compute_together_in_the_default_process_group(runner: DistributedRunner) -> None:
    total, backend, size = runner.generate(1)
    assert total.tolist() == [3, 3]
    assert (backend, size) == ("nccl" if torch.cuda.device_count() else "gloo", 2)


def test_a_worker_of_several_has_a_torch_device(runner: DistributedRunner) -> None:
    assert runner.generate("device") == torch.device("cuda:0" if torch.cuda.device_count() else "cpu")


def test_the_store_and_gloo_listen_on_this_machine_alone(runner: DistributedRunner) -> None:
    runner.generate(1)
    addresses = {address for pid in rank_pids(runner) for address in listening(pid)}
    assert addresses
    assert {address.partition(":")[0] for address in addresses} <= {"0100007F", "0" * 24 + "01000000"}


def listening(pid: int) -> list[str]:
    """Return the addresses at which a process listens, as /proc writes them."""
    sockets = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            rows = [line.split() for line in file][1:]
        found += [row[1] for row in rows if row[3] == "0A" and row[9] in sockets]
    return found


def test_a_rank_that_dies_while_others_wait_in_a_collective_is_a_crash() -> None:
    runner = DistributedRunner(Plain, world_size=2)
    runner.start()
    pids = rank_pids(runner)
    with pytest.raises(WorkerCrashed, match="rank 1 of Plain was killed"):
        runner.generate(workers.kill_one_in_collective)
    for pid in pids:
        gone(pid)
    runner.shutdown()


def test_a_program_may_make_the_process_group_itself() -> None:
    # The call imports torch.
    with started(Plain, call_timeout=TIMEOUT_S) as runner:
        assert runner.generate(workers.own_group) == 2


def test_one_rank_has_no_process_group() -> None:
    with started(Plain, world_size=1) as runner:
        assert runner.generate(workers.is_torch_imported) is False


def test_tensors_of_all_kinds_arrive_on_the_cpu() -> None:
    sent = workers.tensors()
    packed = pack(sent, "tensors")
    received: dict[str, Any] = unpack(packed.body, [memoryview(bytearray(each)) for each in packed.buffers])
    # The large one is not in the bytes.
    assert len(packed.buffers) == 1
    for name, before in sent.items():
        after = received[name]
        assert (after.dtype, after.shape, after.device.type) == (before.dtype, before.shape, "cpu")
        assert torch.equal(after, before.detach().cpu())
        assert not after.requires_grad


def test_world_size_above_the_cuda_devices_is_refused() -> None:
    devices = torch.cuda.device_count()
    if not devices:
        pytest.skip("without CUDA any number of ranks is fine")
    with pytest.raises(ValueError, match="visible CUDA devices"):
        DistributedRunner(Plain, world_size=devices + 1)
