"""Counts what one paced frame costs the server and the engine: calls, system calls, turns of the loop, messages.

Counts hardly depend on the machine and on what else it does. `python -m tests.counting.frame_cost` prints them, and
writes the functions that a frame calls to `frame_cost.json`, with which a test names those that have been added.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reactor_runtime.client import Frame, connect
from tests.counting.python_calls import PythonCalls
from tests.counting.system_calls import TURNS, counted_calls
from tests.server.client import parse_header
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

KNOWN = Path(__file__).with_suffix(".json")
FRAMES = 60
SETTLED_FRAMES = 10
ROUNDS = 5
# So many on a machine so busy that a frame is late in each of them.
MOST_ROUNDS = 30
# The fewest calls a frame of a function that is listed.
LISTED = 0.3
ENCODE = "reactor_runtime/ipc/framing.py encode_parts"
MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def load(self, config):
        self.frames = [gray(level, 240, 320) for level in range(100)]

    def inference(self):
        while True:
            yield from self.frames
"""

Calls = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FrameCost:
    """Hold what one frame costs a process; `system_calls` are those but waits of threads for each other.

    How often threads wait for the interpreter's lock depends on the machine.
    """

    python_calls: float
    builtin_calls: float
    system_calls: float
    turns: float
    messages: float


@dataclass(frozen=True, slots=True)
class Count:
    """Hold the cost of a frame, and how often it calls each Python function and each kind of system call."""

    cost: FrameCost
    functions: Calls
    system: Calls


def count_frames(folder: Path, budgets: Mapping[str, FrameCost] | None = None) -> dict[str, Count]:
    """Serve a model of small frames to a client that acknowledges them; return what one costs "server" and "engine".

    A busy machine adds calls and takes none away: with `budgets` rounds are counted until the least are within them.
    """
    calls = PythonCalls(folder / "counts")
    # The delay by `ptrace` would change the codec, and with it what a frame costs.
    with serving(write_project(folder / "model", MODEL), "--codec", "never", variables=calls.variables) as server:
        return asyncio.run(_count(server, calls, budgets or {}))


async def _count(server: RunningServer, calls: PythonCalls, budgets: Mapping[str, FrameCost]) -> dict[str, Count]:
    found: dict[str, Count] = {}
    async with connect(f"http://127.0.0.1:{server.port}") as session:
        frames = session.frames(decode=False)
        await _receive(frames, SETTLED_FRAMES)
        for name, pid in (("server", server.process.pid), ("engine", server.engine)):
            rounds: list[Count] = []
            while not _is_enough(rounds, budgets.get(name)):
                with counted_calls(pid) as system:
                    traced = await _receive(frames, FRAMES)
                await _receive(frames, SETTLED_FRAMES)
                await _toggle(server, calls, pid)
                profiled = await _receive(frames, FRAMES)
                functions, builtins = await _toggle(server, calls, pid)
                rounds.append(_per_frame(functions, builtins, profiled, system, traced))
            found[name] = _least(rounds)
    return found


async def _toggle(server: RunningServer, calls: PythonCalls, pid: int) -> tuple[Counter[str], Counter[str]]:
    calls.toggle(pid)
    await asyncio.to_thread(server.until, partial(calls.written, pid), "counts")
    return calls.of(pid)


def _is_enough(rounds: Sequence[Count], budget: FrameCost | None) -> bool:
    if budget is None or not rounds:
        return len(rounds) == ROUNDS
    return not over_budget(_least(rounds).cost, budget) or len(rounds) == MOST_ROUNDS


def over_budget(cost: FrameCost, budget: FrameCost) -> list[str]:
    """Return what a frame takes more of than its budget."""
    taken, most = dataclasses.asdict(cost), dataclasses.asdict(budget)
    return [f"{taken[each]:.1f} {each} a frame, budget {most[each]}" for each in most if taken[each] > most[each]]


def _least(rounds: Sequence[Count]) -> Count:
    """Return the least of each count: what a busy machine adds, as a wait for room, is not in all rounds."""
    costs = [dataclasses.astuple(each.cost) for each in rounds]
    cheapest = min(rounds, key=lambda each: each.cost.python_calls)
    return Count(FrameCost(*map(min, zip(*costs, strict=True))), cheapest.functions, cheapest.system)


async def _receive(frames: AsyncGenerator[Frame, None], count: int) -> int:
    """Receive frames; return how many the model has made meanwhile.

    Frames made before the call are left out: without all of their calls, a frame would seem cheaper.
    """
    begun_us = time.time_ns() // 1000
    async with asyncio.timeout(TIMEOUT_S):
        while parse_header((frame := await anext(frames)).data[14:]).wall_us < begun_us:
            pass
        first = last = frame.seq
        for _ in range(count):
            last = (await anext(frames)).seq
    return last - first


def _per_frame(
    functions: Counter[str], builtins: Counter[str], profiled: int, system: Counter[str], traced: int
) -> Count:
    of_system = {name: count / traced for name, count in system.items() if name != "futex"}
    of_functions = {name: count / profiled for name, count in functions.items()}
    cost = FrameCost(
        python_calls=sum(of_functions.values()),
        builtin_calls=builtins.total() / profiled,
        system_calls=sum(of_system.values()),
        turns=sum(of_system.get(name, 0.0) for name in TURNS),
        messages=of_functions.get(ENCODE, 0.0),
    )
    return Count(cost, of_functions, of_system)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = count_frames(Path(folder))
    known = {}
    for name, count in found.items():
        sys.stdout.write(f"{name}: {count.cost}\n")
        listed = {function: round(times) for function, times in count.functions.items() if times > LISTED}
        known[name] = dict(sorted(listed.items()))
    KNOWN.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
