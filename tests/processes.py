"""What is true of other processes, looked up where the kernel says it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.timeouts import TIMEOUT_S

PROC = Path("/proc")
# Where the time of its start is in what the kernel states of a process after its parent (man 5 proc).
STARTED = 17


def alive(pid: int) -> bool:
    """Tell whether a process exists and is more than a zombie."""
    try:
        return _state(PROC / str(pid)) not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ancestors(pid: int) -> list[int]:
    """List the parent of a process, its parent and so on."""
    parent = _parent(pid)
    return [] if parent is None else [parent, *ancestors(parent)]


def children(pid: int) -> list[int]:
    """List the living children of a process, the first one first."""
    return _families().get(pid, [])


def engines_of(server: int) -> list[int]:
    """List the engines of a server: each is the first child of the second of two subreapers."""
    engines = []
    for subreaper in children(server):
        second = children(subreaper)[:1]
        engines += [own[0] for own in map(children, second) if own]
    return engines


def descendants(pid: int) -> list[int]:
    """List the living descendants of a process."""
    families, found = _families(), [pid]
    for each in found:
        found += families.get(each, [])
    return found[1:]


def _families() -> dict[int, list[int]]:
    """List the living children of every process in the order of their starts, from one look at each.

    Their ids are in another order after the highest id, which a run of all tests passes.
    """
    found = []
    for entry in os.listdir(PROC):
        if entry.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state, parent, *more = _stat(PROC / entry)
                if state not in "ZX":
                    found.append((int(more[STARTED]), int(entry), int(parent)))
    families: dict[int, list[int]] = {}
    for _, pid, parent_pid in sorted(found):
        families.setdefault(parent_pid, []).append(pid)
    return families


def _stat(task: Path) -> list[str]:
    """Return what the kernel states of a process or thread after its name: state, parent and more."""
    return (task / "stat").read_text().rpartition(")")[2].split()


def _state(task: Path) -> str:
    return _stat(task)[0]


def _all_stopped(pid: int) -> bool:
    try:
        return all(_state(thread) == "T" for thread in (PROC / str(pid) / "task").iterdir())
    # A thread has ended meanwhile.
    except (FileNotFoundError, ProcessLookupError):
        return False


def _parent(pid: int) -> int | None:
    try:
        return int(_stat(PROC / str(pid))[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def gone(pid: int) -> None:
    """Wait until a process that isn't ours to wait for has ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


class Process(Protocol):
    """A process that this one has started, as `subprocess.Popen` and `tests.forks.Fork` have it."""

    @property
    def args(self) -> Any: ...
    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@contextlib.contextmanager
def ended_after(server: Process) -> Iterator[None]:
    """Kill a server at the end of the block, if it is there still, and see all its descendants end with it."""
    try:
        yield
    finally:
        others = descendants(server.pid)
        server.kill()
        server.wait(TIMEOUT_S)
        for other in others:
            gone(other)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop all threads of a process for the duration of the block.

    The signal stops them once one of them runs to receive it, which on a busy machine is later than `kill` returns.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until_stopped(pid)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_until_stopped(pid: int) -> None:
    """Wait until all threads of a process are stopped."""
    deadline = time.monotonic() + TIMEOUT_S
    while not _all_stopped(pid):
        assert time.monotonic() < deadline, f"process {pid} does not stop"
        time.sleep(0.001)


def descriptors(pid: int) -> int:
    """Count what a process holds open."""
    return len(list((PROC / str(pid) / "fd").iterdir()))


def threads(pid: int) -> int:
    """Count the threads of a process."""
    return len(list((PROC / str(pid) / "task").iterdir()))
