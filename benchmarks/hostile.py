"""`python -m benchmarks.hostile`: thousands of hostile messages, sent as controller and as viewer; nothing may happen.

Half of them come from a controller, half from viewers while a controller watches its stream. Prints what came of them;
fails when one with an id isn't answered, a frame is missing or late, something has grown, or a traceback is logged.
Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.watched import resident_mib
from tests.hostile.grammar import hostile
from tests.hostile.siege import MODEL, Siege, Stream, besiege, watching
from tests.processes import descriptors
from tests.server.running import RunningServer, serving, write_project

ROUNDS = 10
QUIET_S = 1.5  # of each round, for comparison: the machine has other things to do as well
VIEWERS = 5
VIEWER_PER_S = 60.0
PATIENCE_S = 600.0
MOST_MIB = 6.0
MOST_LATER_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many messages in all (10000)")
    parser.add_argument("--seed", type=int, default=1, help="of what chance has (1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving(write_project(Path(name), MODEL)) as server:
        faults = asyncio.run(_run(server, arguments.count, arguments.seed))
        faults += ["a traceback in the log"] if "Traceback" in server.log else []
    for fault in faults:
        _say(f"FAULT {fault}")
    _say("nothing has happened" if not faults else f"{len(faults)} faults")
    return bool(faults)


async def _run(server: RunningServer, count: int, seed: int) -> list[str]:
    """Send the messages in rounds; what is held after the second is what there may be after the last."""
    sieges: list[Siege] = []
    quiet: list[Stream] = []
    streams: list[Stream] = []
    engine = server.engine
    held: list[tuple[float, float, int, int]] = []
    _say(f"{'messages':>10}{'server MiB':>13}{'engine MiB':>13}{'descriptors':>13}{'of engine':>13}")
    for number in range(ROUNDS):
        messages = hostile(count // ROUNDS, seed * ROUNDS + number)
        half = len(messages) // 2
        sieges.append(await besiege(server.url, "controller", messages[:half], within_s=PATIENCE_S))
        async with watching(server.url) as stream:
            await asyncio.sleep(QUIET_S)
        quiet.append(stream)
        await asyncio.to_thread(server.wait_for_health, "ready")
        async with watching(server.url) as stream:
            parts = [messages[half + start :: VIEWERS] for start in range(VIEWERS)]
            sieges += await asyncio.gather(
                *(besiege(server.url, "viewer", part, within_s=PATIENCE_S, per_s=VIEWER_PER_S) for part in parts)
            )
        streams.append(stream)
        await asyncio.to_thread(server.wait_for_health, "ready")
        held.append(_held(server, engine))
        server_mib, engine_mib, *numbers = held[-1]
        _say(f"{sum(siege.sent for siege in sieges):>10}{server_mib:>13.1f}{engine_mib:>13.1f}" + _cells(*numbers))
    return (
        _report(sieges)
        + _disturbed(quiet, streams)
        + _grown(held[1], held[-1])
        + ([] if server.engine == engine else ["engine died"])
    )


def _held(server: RunningServer, engine: int) -> tuple[float, float, int, int]:
    pid = server.process.pid
    return resident_mib(pid), resident_mib(engine), descriptors(pid), descriptors(engine)


def _report(sieges: list[Siege]) -> list[str]:
    """Say what came of the messages; gives what shouldn't have."""
    codes = sum((siege.codes for siege in sieges), Counter[str]())
    unanswered = [key for siege in sieges for key in siege.unanswered]
    wrongly = [said for siege in sieges for said in siege.wrongly]
    _say(f"answers with an id: {sum(siege.answers for siege in sieges)}, owed and not given: {len(unanswered)}")
    _say("errors: " + ", ".join(f"{code} {count}" for code, count in codes.most_common()))
    return [f"never answered: {key}" for key in unanswered[:10]] + [f"not asked for: {said}" for said in wrongly[:10]]


def _disturbed(quiet: list[Stream], streams: list[Stream]) -> list[str]:
    """Say how even the controller's stream was; gives what would have been noticed."""
    missing = sum(stream.missing for stream in streams)
    before, meanwhile = _gaps(quiet), _gaps(streams)
    for when, gaps in (("in quiet", before), ("meanwhile", meanwhile)):
        p50, p99, longest = (1e3 * gaps[int(len(gaps) * share)] for share in (0.5, 0.99, 0.9999))
        _say(f"frames {when}: {len(gaps)}, between them p50 {p50:.1f} ms, p99 {p99:.1f}, longest {longest:.1f}")
    _say(f"missing: {missing}")
    late = meanwhile[int(len(meanwhile) * 0.99)] > before[int(len(before) * 0.99)] + MOST_LATER_S
    return [f"{missing} frames are missing"] * bool(missing) + ["the stream was disturbed"] * late


def _gaps(streams: list[Stream]) -> list[float]:
    return sorted(gap for stream in streams for gap in stream.gaps_s[1:])


def _grown(before: tuple[float, float, int, int], after: tuple[float, float, int, int]) -> list[str]:
    names = ("memory of the server", "memory of the engine", "descriptors of the server", "descriptors of the engine")
    most = (MOST_MIB, MOST_MIB, 1, 1)
    compared = zip(names, before, after, most, strict=True)
    return [f"{name} grew from {was:.1f} to {now:.1f}" for name, was, now, more in compared if now > was + more]


def _cells(*numbers: float) -> str:
    return "".join(f"{number:>13}" for number in numbers)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}{os.linesep}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
