from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from reactor_runtime.cluster.worker_process.load_lock import GpuLoadLock
from tests.forks import ROOT
from tests.timeouts import TIMEOUT_S

HOLDER = """
import asyncio, sys
from reactor_runtime.cluster.worker_process.load_lock import GpuLoadLock
lock = GpuLoadLock("test 0")
asyncio.run(lock.acquire())
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the lock is one of Linux")
def test_one_process_holds_the_lock_of_a_gpu_until_it_is_killed() -> None:
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert GpuLoadLock("test 0").locked()
        assert not GpuLoadLock("test 1").locked()
        asyncio.run(_acquire_after(holder))
    assert not GpuLoadLock("test 0").locked()


async def _acquire_after(holder: subprocess.Popen[str]) -> None:
    lock = GpuLoadLock("test 0")
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    assert not waiting.done()
    holder.kill()
    async with asyncio.timeout(TIMEOUT_S):
        await waiting
    assert GpuLoadLock("test 0").locked()
    lock.release()
