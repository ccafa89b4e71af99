"""The memory of a process and of those it has started, on Linux, and on NVIDIA GPUs with nvidia-smi."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")
KIB = 1024
MIB = 1 << 20
PATIENCE_S = 10.0


def descendants(pid: int) -> list[int]:
    """Return the processes that a process and its children have started; none where /proc does not list them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return [*found, *(each for child in found for each in descendants(child))]


def resident_bytes(pids: Sequence[int], *, peak: bool) -> int | None:
    """Return the resident memory of processes together, now or at the `peak` of each; None where it is not known."""
    sizes = [size for pid in pids if (size := _status_bytes(pid, "VmHWM" if peak else "VmRSS")) is not None]
    return sum(sizes) if sizes else None


def _status_bytes(pid: int, name: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * KIB
    return None


def gpu_bytes(pids: Sequence[int]) -> int | None:
    """Return the memory that processes hold on NVIDIA GPUs; None without nvidia-smi, or if they hold none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split(",") for line in answer.splitlines()]
    used = [int(size) for pid, size in rows if pid.strip().isdigit() and int(pid) in pids and size.strip().isdigit()]
    return sum(used) * MIB if used else None
