"""Compares what the process uses after each session, and reports the resources that keep growing."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import thread as pools
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from reactor_runtime.authoring.code.source import line_of, location_of
from reactor_runtime.errors import Location, ReactorError, is_ours

# A number that grows in so many sessions in a row is reported.
SESSIONS = 3
# Without a leak, memory grows by less than three such steps: by caches, and by pages that are touched for the first
# time.
STEP_BYTES = 16 << 20
STEPS = 3
_STARTED_AT = "_reactor_started_at"
_OURS = ("reactor-", "asyncio_")
# Start threads for the author's code, with `asyncio.to_thread` or a pool.
_STARTERS = (threading.__file__, pools.__file__, os.path.join(os.path.dirname(asyncio.__file__), ""))


@dataclass(frozen=True, slots=True)
class Usage:
    """Hold what a process uses: threads, tasks, descriptors and processes by identity, bytes of memory by its kind."""

    things: Mapping[str, Mapping[object, object]]
    bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Leak:
    """Hold a kind of resource that grows, and the warning about it."""

    kind: str
    warning: ReactorError


@dataclass(slots=True)
class _Count:
    """Count in how many sessions in a row a number was above its maximum so far."""

    most: int
    in_a_row: int = 0
    reported: bool = False

    def add(self, value: int) -> bool:
        """Return True once, when the number has grown in three sessions in a row."""
        self.in_a_row = self.in_a_row + 1 if value > self.most else 0
        self.most = max(self.most, value)
        if self.reported or self.in_a_row < SESSIONS:
            return False
        self.reported = True
        return True


class _Floor:
    """Count the steps by which the lowest use of memory in the last three sessions has grown, however slowly.

    Memory that one session needs and frees is not counted, nor is a single growth, however large.
    """

    def __init__(self, value: int) -> None:
        self._mark = value
        self._last: deque[int] = deque(maxlen=SESSIONS)
        self._steps = 0
        self._began = value
        self.sessions = 0

    def add(self, value: int) -> bool:
        """Return True once, after the third step."""
        self._last.append(value)
        self.sessions += 1
        floor = min(self._last)
        if len(self._last) < SESSIONS or floor < self._mark + STEP_BYTES:
            return False
        self._mark = floor
        self._steps += 1
        return self._steps == STEPS

    @property
    def grown(self) -> int:
        """Return how much more memory is in use than before the first session."""
        return self._last[-1] - self._began


class LeakGuard:
    """Compare the use of resources after each session with that before the first; belongs to the model's loop."""

    def __init__(self, read: Callable[[], Usage]) -> None:
        self._read = read
        self._counts: dict[str, _Count] = {}
        self._floors: dict[str, _Floor] = {}
        self._last: Usage | None = None

    def begin(self) -> None:
        """Measure before the first session; do nothing before the others."""
        if self._last is None:
            self._last = self._read()
            self._counts = {kind: _Count(len(things)) for kind, things in self._last.things.items()}
            self._floors = {kind: _Floor(value) for kind, value in self._last.bytes.items()}

    def compare(self) -> list[Leak]:
        """Measure after a session; return each kind that keeps growing, once."""
        assert self._last is not None, "begin() comes first"
        before, now = self._last, self._read()
        self._last = now
        leaks = []
        for kind, things in now.things.items():
            if self._counts[kind].add(len(things)):
                leaks.append(Leak(kind, _describe(kind, before.things[kind], things)))
        for kind, value in now.bytes.items():
            floor = self._floors.setdefault(kind, _Floor(value))
            if floor.add(value):
                leaks.append(Leak(kind, _describe_memory(kind, value, floor)))
        return leaks


def _describe(kind: str, before: Mapping[object, object], things: Mapping[object, object]) -> ReactorError:
    left = next((thing for identity, thing in things.items() if identity not in before), None)
    what, where, hint = _DESCRIPTIONS[kind](left)
    message = f"each of the last {SESSIONS} sessions left {what} behind; there are {len(things)} {kind} now"
    return ReactorError(message, hint=hint, where=where)


def _describe_memory(kind: str, value: int, floor: _Floor) -> ReactorError:
    grown = f"{floor.grown / 1e6:.0f} MB in {floor.sessions} sessions"
    return ReactorError(
        f"{kind} grows from session to session: by {grown}, to {value / 1e6:.0f} MB now",
        hint="look for what a session appends to self or to a module, and keep it in self.state instead",
    )


def kept_model_warning(model: object) -> ReactorError:
    """Return the warning about a former model that stays in memory; it names the thread that refers to it, if one does.

    Call it on the loop's thread.
    """
    thread = next((each for each in threading.enumerate() if _refers_to(each, model)), None)
    hint = "a cache, or a module that was not executed again, may hold it; `reactor run --reload=full` frees all"
    what, where = f"the former {type(model).__name__} stays in memory after the reload", None
    if thread is not None:
        described, where, _ = _describe_thread(thread)
        what = f"{what}: {described} refers to it"
        hint = "start the thread in @connected and end it in @disconnected, or let it hold a weak reference"
    return ReactorError(what, hint=hint, where=where)


def _refers_to(thread: threading.Thread, model: object) -> bool:
    if thread.name.startswith(_OURS) or thread is threading.current_thread():
        return False
    values = vars(thread)
    target, arguments = values.get("_target"), (*values.get("_args", ()), *values.get("_kwargs", {}).values())
    if getattr(target, "__self__", None) is model or any(each is model for each in arguments):
        return True
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if any(each is model for each in frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False


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
    waits_at = _waits_at(task.get_coro())
    where = waits_at or (task.started_at if isinstance(task, _Task) else None)
    place = f" which waits in {_short(waits_at)}" if waits_at else f" started in {_short(where)}" if where else ""
    return f'the task "{getattr(task.get_coro(), "__qualname__", task.get_name())}"{place}', where, hint


def _waits_at(coroutine: Any) -> Location | None:
    """Return the innermost line of the author that waits in a coroutine and those that it awaits."""
    found = None
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if _is_authors(frame):
            found = line_of(frame)
        coroutine = coroutine.cr_await
    return found


def _describe_process(process: Any) -> tuple[str, Location | None, str]:
    return f"the process {process or ''}".rstrip(), None, "end it in @disconnected and wait for it, or use `with`"


def _describe_descriptor(target: Any) -> tuple[str, Location | None, str]:
    return f"the descriptor of {target or 'a file'}", None, "close it in @disconnected, or use `with`"


_DESCRIPTIONS: Mapping[str, Callable[[Any], tuple[str, Location | None, str]]] = {
    "threads": _describe_thread,
    "tasks": _describe_task,
    "descriptors": _describe_descriptor,
    "processes": _describe_process,
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
            "processes": read_processes(),
        },
        memory_in_use(),
    )


def memory_in_use() -> dict[str, int]:
    """Return the bytes that this process uses, and PyTorch's tensors on its GPUs, as far as the system tells."""
    return {**_resident(), **_on_gpu()}


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


def read_processes() -> dict[object, object]:
    """Return the numbers of the child processes with their command lines; nothing where the system does not list them.

    A process that has ended, but has not been waited for, is one of them.
    """
    found: dict[object, object] = {}
    for listing in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError):
            for pid in Path(listing).read_text().split():
                with contextlib.suppress(OSError):
                    found[pid] = _describe_child(Path("/proc") / pid)
    return found


def _describe_child(process: Path) -> str:
    arguments = process.joinpath("cmdline").read_text(errors="replace").rstrip("\0").replace("\0", " ")
    # The name stands in parentheses, and the state after it.
    name, _, rest = process.joinpath("stat").read_text(errors="replace").partition("(")[2].rpartition(")")
    ended = ", which has ended" if rest.split()[0] == "Z" else ""
    return f"{process.name} ({arguments[:80] or name}){ended}"


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


class _Task(asyncio.Task[Any]):
    """Keep the author's line that starts the task: a task that waits in asyncio alone has no other line of theirs."""

    def __init__(self, coroutine: Any, **options: Any) -> None:
        super().__init__(coroutine, **options)
        self.started_at = _author_line(sys._getframe(1))


def record_task_starts(loop: asyncio.AbstractEventLoop) -> None:
    """Store on each task of a loop the author's line that starts it."""
    loop.set_task_factory(lambda loop, coroutine, **options: _Task(coroutine, loop=loop, **options))


def _author_line(frame: FrameType | None) -> Location | None:
    """Return the innermost line of the author in a stack."""
    while frame is not None and not _is_authors(frame):
        frame = frame.f_back
    return None if frame is None else line_of(frame)


def _is_authors(frame: FrameType) -> bool:
    """Return whether a frame is neither ours nor of the standard library's threads and tasks."""
    file = frame.f_code.co_filename
    return not is_ours(file) and not file.startswith(_STARTERS)
