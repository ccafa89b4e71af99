"""The leak guard: compares threads, tasks, descriptors and memory after each session; reports what keeps growing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import thread as pools
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

from reactor_runtime.authoring.code.source import line_of, location_of
from reactor_runtime.errors import Location, ReactorError, is_ours

# So many sessions in a row.
SESSIONS = 3
# Memory grows by less without a leak: caches, and memory that is touched for the first time.
LEAST_BYTES = 16 << 20
_STARTED_AT = "_reactor_started_at"
_OURS = ("reactor-", "asyncio_")
# Start threads for the author's code, with `asyncio.to_thread` or a pool.
_STARTERS = (threading.__file__, pools.__file__, os.path.join(os.path.dirname(asyncio.__file__), ""))


@dataclass(frozen=True, slots=True)
class Usage:
    """Hold what a process uses: threads, tasks and descriptors by identity, memory in bytes by its kind."""

    things: Mapping[str, Mapping[object, object]]
    bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Leak:
    """Hold a kind of resource that grows, and the warning about it."""

    kind: str
    warning: ReactorError


@dataclass(slots=True)
class _Growth:
    """Count in how many measurements in a row a value was above its maximum so far by `least`."""

    most: int
    in_a_row: int = 0
    reported: bool = False

    def add(self, value: int, least: int) -> bool:
        """Return True once, when the value has grown in three sessions in a row."""
        self.in_a_row = self.in_a_row + 1 if value >= self.most + least else 0
        self.most = max(self.most, value)
        if self.reported or self.in_a_row < SESSIONS:
            return False
        self.reported = True
        return True


class LeakGuard:
    """Compare the use of resources after each session with that before the first; belongs to the model's loop."""

    def __init__(self, read: Callable[[], Usage]) -> None:
        self._read = read
        self._growths: dict[str, _Growth] = {}
        self._last: Usage | None = None

    def begin(self) -> None:
        """Measure before the first session; do nothing before the others."""
        if self._last is None:
            self._last = self._read()
            for kind, value in _counts(self._last).items():
                self._growths[kind] = _Growth(value)

    def compare(self) -> list[Leak]:
        """Measure after a session; return each kind that has grown in three sessions in a row, once."""
        assert self._last is not None, "begin() comes first"
        before, now = self._last, self._read()
        self._last = now
        leaks = []
        for kind, value in _counts(now).items():
            growth = self._growths.setdefault(kind, _Growth(value))
            if growth.add(value, LEAST_BYTES if kind in now.bytes else 1):
                leaks.append(Leak(kind, _describe(kind, value, before, now)))
        return leaks


def _counts(usage: Usage) -> dict[str, int]:
    return {**{kind: len(things) for kind, things in usage.things.items()}, **usage.bytes}


def _describe(kind: str, value: int, before: Usage, now: Usage) -> ReactorError:
    if kind in now.bytes:
        return ReactorError(
            f"each of the last {SESSIONS} sessions left more {kind} in use: {value / 1e6:.0f} MB now",
            hint="look for what a session appends to self or to a module, and keep it in self.state instead",
        )
    things = now.things[kind]
    left = next((thing for identity, thing in things.items() if identity not in before.things[kind]), None)
    what, where, hint = _DESCRIPTIONS[kind](left)
    message = f"each of the last {SESSIONS} sessions left {what} behind; there are {value} {kind} now"
    return ReactorError(message, hint=hint, where=where)


def _describe_thread(thread: Any) -> tuple[str, Location | None, str]:
    hint = "end it in @disconnected, or start it once in load()"
    if thread is None:
        return "a thread", None, hint
    started_at = vars(thread).get(_STARTED_AT)
    where = started_at or location_of(_target(thread))
    place = f" started in {_short(started_at)}" if started_at else ""
    return f'the thread "{thread.name}"{place}', where, hint


def _describe_task(task: Any) -> tuple[str, Location | None, str]:
    hint = "cancel it in @disconnected"
    if task is None:
        return "a task", None, hint
    frame = getattr(task.get_coro(), "cr_frame", None)
    where = None if frame is None else line_of(frame)
    place = f" which waits in {_short(where)}" if where else ""
    return f'the task "{getattr(task.get_coro(), "__qualname__", task.get_name())}"{place}', where, hint


def _describe_descriptor(target: Any) -> tuple[str, Location | None, str]:
    return f"the descriptor of {target or 'a file'}", None, "close it in @disconnected, or use `with`"


_DESCRIPTIONS: Mapping[str, Callable[[Any], tuple[str, Location | None, str]]] = {
    "threads": _describe_thread,
    "tasks": _describe_task,
    "descriptors": _describe_descriptor,
}


def _short(where: Location) -> str:
    return f"{os.path.basename(where.file)}:{where.line}"


def _target(thread: threading.Thread) -> FunctionType | None:
    """Return the function that a thread runs: its target, or the run() of its class."""
    target = vars(thread).get("_target") or type(thread).run
    target = getattr(target, "__func__", target)
    return target if isinstance(target, FunctionType) and not is_ours(target.__code__.co_filename) else None


def read_usage(ours: Collection[int] = ()) -> Usage:
    """Measure this process, without our descriptors; call it on the loop whose tasks are counted."""
    return Usage(
        {
            "threads": _threads(),
            "tasks": {id(task): task for task in asyncio.all_tasks()},
            "descriptors": _descriptors(ours),
        },
        {**_resident(), **_on_gpu()},
    )


def _threads() -> dict[object, object]:
    """Return the threads, without ours; those of one pool count once, because a pool has a limit."""
    found: dict[object, object] = {}
    for thread in threading.enumerate():
        if not thread.name.startswith(_OURS):
            found[_pool_of(thread) or thread] = thread
    return found


def _pool_of(thread: threading.Thread) -> object:
    values = vars(thread)
    if values.get("_target") is not vars(pools).get("_worker"):
        return None
    # The queue of the pool's work: the pool itself may be garbage already.
    return id(values["_args"][1])


def _descriptors(ours: Collection[int]) -> dict[object, object]:
    """Return the open descriptors and what they refer to, as far as the system tells, without ours."""
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    found: dict[object, object] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if int(name) in ours:
                continue
            # The descriptor of the listing itself is closed by now.
            with contextlib.suppress(OSError):
                found[name] = (
                    os.readlink(f"{folder}/{name}") if sys.platform == "linux" else os.fstat(int(name)).st_mode
                )
    return found


def _resident() -> dict[str, int]:
    try:
        with open("/proc/self/statm", "rb") as file:
            return {"memory": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    # Only Linux has it.
    except OSError:
        return {}


def _on_gpu() -> dict[str, int]:
    """Return the memory that PyTorch's tensors use on all GPUs; a model without PyTorch does not import it."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    return {"GPU memory": sum(cuda.memory_allocated(device) for device in range(cuda.device_count()))}


@contextlib.contextmanager
def thread_starts_recorded() -> Iterator[None]:
    """Store on each thread the author's line that starts it, while the block runs.

    `threading` has no hook for this, and the stack of a running thread does not show it.
    """
    start = threading.Thread.start

    def recording(thread: threading.Thread) -> None:
        vars(thread)[_STARTED_AT] = _author_line(sys._getframe(1))
        start(thread)

    threading.Thread.start = recording  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def _author_line(frame: FrameType | None) -> Location | None:
    """Return the innermost line that is neither ours nor of the standard library's threads."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_ours(file) and not file.startswith(_STARTERS):
            return line_of(frame)
        frame = frame.f_back
    return None
