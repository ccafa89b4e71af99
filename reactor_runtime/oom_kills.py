"""Counts the processes that the kernel has killed for lack of memory, where the system has such a count."""

from __future__ import annotations

import re
from pathlib import Path

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class OomKills:
    """Compare the kernel's count of killed processes in this process's cgroup with the count at construction.

    Version 2 of cgroups has the count in `memory.events`, version 1 in `memory.oom_control`, and a system without
    either in `/proc/vmstat`. `root` is the folder of the file system.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._file = next((file for file in _files(root) if _read(file) is not None), None)
        self._before = None if self._file is None else _read(self._file)

    def happened(self) -> bool | None:
        """Return whether the kernel has killed a process since construction; None if the system has no count."""
        now = None if self._file is None else _read(self._file)
        return None if now is None or self._before is None else now > self._before


def _files(root: Path) -> list[Path]:
    """Return the files that may have the count, the file of the smallest group first."""
    found = []
    for controllers, path in _groups(root):
        # A container sees its own group at the top, under the path that the machine knows.
        if not controllers:
            found += [root / f"sys/fs/cgroup{path}/memory.events", root / "sys/fs/cgroup/memory.events"]
        elif "memory" in controllers.split(","):
            v1 = "sys/fs/cgroup/memory"
            found += [root / f"{v1}{path}/memory.oom_control", root / f"{v1}/memory.oom_control"]
    return [*found, root / "proc/vmstat"]


def _groups(root: Path) -> list[tuple[str, str]]:
    """Return the controllers and the path of each cgroup of this process."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    parts = [line.split(":", 2) for line in lines]
    return [(controllers, path.rstrip("/")) for _, controllers, path in parts]


def _read(file: Path) -> int | None:
    try:
        found = _COUNT.search(file.read_text())
    except OSError:
        return None
    return None if found is None else int(found[1])
