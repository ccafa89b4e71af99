"""How many sessions a loaded model can serve: by the time that its steps take, and the memory that a session needs.

`CapacityEstimate` computes the number, `CapacityReports` sends it when it has changed.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.engine.batch_shares import FEWEST, BatchShares
from reactor_runtime.engine.leaks import memory_in_use
from reactor_runtime.ipc import messages as ipc

# The share of the time, and of the free memory, that is left.
RESERVE = 0.1
STEPS = 32
UNPACED = math.inf
REPORT_S = 1.0
# A session that has made no steps holds up others for so long, and for the time of some steps of those.
MEASURED_S = 3.0
MEASURING = "the sessions that run are being measured"


@dataclass(frozen=True, slots=True)
class Memory:
    """Hold bytes of one kind of memory: what the process uses, and what is free for it."""

    used: int
    free: int


class CapacityEstimate:
    """Estimate how many sessions fit from what those that run need. Pure.

    A step counts with its share of the time for which its frames are shown. Stepped sessions and a model without a rate
    of its own have no such time, and only their memory counts. `in_batches` says that sessions share their steps, which
    take less time than that of each session times their number.
    """

    def __init__(self, most: int, *, in_batches: bool = False) -> None:
        self._most = most
        self._batches = BatchShares(1 - RESERVE) if in_batches else None
        # The newest steps of each slot with a session: the seconds of each, and for how long its frames are shown.
        self._steps: dict[int, deque[tuple[float, float]]] = {}
        # When the newest session began.
        self._began = 0.0
        # The memory in use before the first session, and the most that a session has needed, by kind.
        self._before: dict[str, int] = {}
        self._needed: dict[str, float] = {}

    @property
    def running(self) -> int:
        """Return how many sessions run."""
        return len(self._steps)

    def begin_session(self, slot: int, now: float, memory: Mapping[str, Memory]) -> None:
        if not self._before:
            self._before = {kind: each.used for kind, each in memory.items()}
        self._steps[slot] = deque(maxlen=STEPS)
        self._began = now

    def end_session(self, slot: int) -> None:
        del self._steps[slot]

    def add_step(self, slot: int, seconds: float, shown_s: float, sessions: int = 1) -> None:
        """Add a step that took `seconds`, and whose frames are shown for `shown_s`; `UNPACED` in a stepped session.

        `sessions` is how many were in its batch that are paced and got frames.
        """
        if slot in self._steps:
            self._steps[slot].append((seconds, shown_s))
            if self._batches is not None and shown_s < UNPACED:
                self._batches.add_batch(sessions, seconds / shown_s)

    def estimate(self, now: float, memory: Mapping[str, Memory]) -> tuple[int, str]:
        """Return how many sessions fit, those that run included, and why not more; "" if as many fit as there may be.

        Call it while a session runs. No other session fits until those that run are measured.
        """
        stepped = sum(1 for steps in self._steps.values() if steps and steps[-1][1] == UNPACED)
        paced = [steps for steps in self._steps.values() if not steps or steps[-1][1] < UNPACED]
        measured = [steps for steps in paced if len(steps) >= FEWEST]
        if len(measured) < len(paced):
            is_known = self._batches is not None and self._batches.knows(len(paced))
            if not is_known and now < self._idle_at:
                return self.running, MEASURING
        fits, reason = self._most, ""
        if measured:
            if self._batches is None:
                by_time, limit = self._fit_in_time([_medians(steps) for steps in measured])
            else:
                by_time, limit = self._batches.fit(len(measured), now)
                if now >= self._idle_at:
                    by_time += len(paced) - len(measured)
            if stepped + by_time < fits:
                fits, reason = max(self.running, stepped + by_time), limit or MEASURING
        by_memory, kind = self._fit_in_memory(memory)
        if by_memory < fits:
            fits, reason = by_memory, f"a session needs {self._needed[kind] / 1e6:.0f} MB of {kind}"
        return fits, reason

    @property
    def _idle_at(self) -> float:
        """Return when sessions that are not measured yet no longer hold up others: they wait for something."""
        newest = [steps[-1] for steps in self._steps.values() if steps and steps[-1][1] < UNPACED]
        longest_s = max((max(self.running * seconds, shown_s) for seconds, shown_s in newest), default=0.0)
        return self._began + MEASURED_S + FEWEST * longest_s

    def _fit_in_time(self, measured: list[tuple[float, float]]) -> tuple[int, str]:
        step_s, shown_s = max(measured)
        each = sum(seconds / shown_s for seconds, shown_s in measured) / len(measured)
        # Without the last bits, which would count as a session.
        fits = int((1 - RESERVE) / each + 1e-9) if each else self._most
        return fits, f"a step takes {1e3 * step_s:.1f} ms of {1e3 * shown_s:.1f} ms"

    def _fit_in_memory(self, memory: Mapping[str, Memory]) -> tuple[int, str]:
        fits, least = self._most, ""
        for kind, each in memory.items():
            grown = (each.used - self._before.get(kind, each.used)) / self.running
            needed = self._needed[kind] = max(grown, self._needed.get(kind, 0.0))
            if needed and (more := int(each.free * (1 - RESERVE) / needed)) + self.running < fits:
                fits, least = self.running + more, kind
        return fits, least


class CapacityReports:
    """Measure the sessions of a host, and send how many fit when that changes; belongs to the loop of the sessions."""

    def __init__(
        self,
        most: int,
        clock: Clock,
        send: Callable[[ipc.Capacity], object],
        read_memory: Callable[[], Mapping[str, Memory]],
        *,
        in_batches: bool = False,
    ) -> None:
        self._capacity = CapacityEstimate(most, in_batches=in_batches)
        self.add_step = self._capacity.add_step
        self._clock = clock
        self._send = send
        self._read_memory = read_memory
        # The number, and whether it was measured: the server begins with one session.
        self._sent = 1, False
        self._timer: Timer | None = None

    def begin_session(self, slot: int) -> None:
        """Measure a session from here on."""
        self._capacity.begin_session(slot, self._clock.now(), self._read_memory())
        if self._timer is None:
            self._report_in_time()

    def end_session(self, slot: int) -> None:
        """Measure a session no more; of those that come next the first is measured again."""
        self._capacity.end_session(slot)
        if not self._capacity.running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_in_time(self) -> None:
        self._timer = self._clock.call_at(self._clock.now() + REPORT_S, self._report)

    def _report(self) -> None:
        fits, reason = self._capacity.estimate(self._clock.now(), self._read_memory())
        if (fits, reason != MEASURING) != self._sent:
            self._sent = fits, reason != MEASURING
            self._send(ipc.Capacity(fits, reason))
        self._report_in_time()


def _medians(steps: deque[tuple[float, float]]) -> tuple[float, float]:
    return median(seconds for seconds, _ in steps), median(shown_s for _, shown_s in steps)


def read_memory() -> dict[str, Memory]:
    """Return the memory of this process and its GPUs by kind, as far as the system tells."""
    used = memory_in_use()
    free = {"memory": _free_memory(), "GPU memory": _free_on_gpu()}
    return {kind: Memory(used[kind], each) for kind, each in free.items() if each is not None and kind in used}


def _free_memory() -> int | None:
    """Return what the system has left, or the control group if that is less."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        found.append(1024 * int(text.split("MemAvailable:")[1].split()[0]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int(group.joinpath("memory.max").read_text()) - int(group.joinpath("memory.current").read_text()))
    return min(found, default=None)


def _free_on_gpu() -> int | None:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    free, _ = cuda.mem_get_info()
    return int(free) + int(cuda.memory_reserved()) - int(cuda.memory_allocated())
