"""`python -m benchmarks.hostile.random_messages`: thousands of hostile messages, sent as controller and as viewer.

Half of them come from controllers, one for each session, half from viewers while a controller receives each stream.
Prints counts of the answers; exits with 1 when a message with an id is not answered, a frame is missing or late,
memory or descriptors grow, or a traceback is logged. Our client sends no such messages, so bare sockets do. Run it on
an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.server_process import resident_mib
from tests.hostile.grammar import hostile
from tests.hostile.siege import MODEL, Siege, Stream, besiege, watching
from tests.processes import descriptors, engines_of
from tests.server.running import RunningServer, listening, write_project

ROUNDS = 10
# Of each round, without messages, because the machine may be busy with other work.
QUIET_S = 1.5
VIEWERS = 5
VIEWER_PER_S = 60.0
PATIENCE_S = 600.0
MOST_MIB = 6.0
MOST_LATER_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile.random_messages", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many messages in all (10000)")
    parser.add_argument("--sessions", type=int, default=1, help="how many engines (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the random messages (1)")
    arguments = parser.parse_args()
    count, sessions, seed = arguments.count, arguments.sessions, arguments.seed
    with (
        tempfile.TemporaryDirectory() as name,
        listening(write_project(Path(name), MODEL), "--sessions", str(sessions)) as server,
    ):
        server.wait_for(rf"^ready ({sessions} of {sessions} )?in")
        faults = asyncio.run(_run(server, count, sessions, seed))
        server.stop()
        faults += ["a traceback in the log"] if "Traceback" in server.log else []
    for fault in faults:
        _say(f"FAULT {fault}")
    _say("no fault" if not faults else f"{len(faults)} faults")
    return bool(faults)


async def _run(server: RunningServer, count: int, sessions: int, seed: int) -> list[str]:
    """Send the messages in rounds; the resources after the last round are compared with those after the second."""
    sieges: list[Siege] = []
    quiet: list[Stream] = []
    streams: list[Stream] = []
    engines = sorted(engines_of(server.process.pid))
    usages: list[Usage] = []
    _say(f"{'messages':>10}{'server MiB':>13}{'engines MiB':>13}{'descriptors':>13}{'of engines':>13}")
    for number in range(ROUNDS):
        messages = hostile(count // ROUNDS, seed * ROUNDS + number)
        half = len(messages) // 2
        parts = [messages[start:half:sessions] for start in range(sessions)]
        sieges += await asyncio.gather(
            *(besiege(server.url, "controller", part, within_s=PATIENCE_S) for part in parts)
        )
        async with _all_watched(server, sessions) as watched:
            await asyncio.sleep(QUIET_S)
        quiet += watched
        async with _all_watched(server, sessions) as watched:
            sieges += await _besiege_as_viewers(server, messages[half:], watched)
        streams += watched
        await asyncio.to_thread(server.wait_for_health, "ready")
        usages.append(_usage(server, engines))
        server_mib, engines_mib, *numbers = usages[-1]
        _say(f"{sum(siege.sent for siege in sieges):>10}{server_mib:>13.1f}{engines_mib:>13.1f}" + _cells(*numbers))
    return (
        _report(sieges)
        + _disturbed(quiet, streams)
        + _growth(usages[1], usages[-1], sessions)
        + ([] if sorted(engines_of(server.process.pid)) == engines else ["an engine died"])
    )


@contextlib.asynccontextmanager
async def _all_watched(server: RunningServer, sessions: int) -> AsyncIterator[list[Stream]]:
    """Receive the stream of each session as its controller during the block."""
    await asyncio.to_thread(server.until, lambda: _free(server) == sessions, "free engines")
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(watching(server.url)) for _ in range(sessions)]


def _free(server: RunningServer) -> int:
    return sum(engine["status"] == "ready" for engine in server.health()[1]["engines"])


async def _besiege_as_viewers(
    server: RunningServer, messages: Sequence[str | bytes], streams: Sequence[Stream]
) -> list[Siege]:
    """Send messages as viewers, the same number to each session."""
    count = VIEWERS * len(streams)
    each = (
        besiege(
            server.url,
            "viewer",
            messages[start::count],
            within_s=PATIENCE_S,
            per_s=VIEWER_PER_S,
            session=streams[start % len(streams)].session,
        )
        for start in range(count)
    )
    return await asyncio.gather(*each)


class Usage(NamedTuple):
    """Hold memory and descriptors of the server, and of its engines together; sizes in MiB."""

    server_mib: float
    engines_mib: float
    descriptors: int
    engines_descriptors: int


def _usage(server: RunningServer, engines: Sequence[int]) -> Usage:
    pid = server.process.pid
    return Usage(resident_mib(pid), sum(map(resident_mib, engines)), descriptors(pid), sum(map(descriptors, engines)))


def _report(sieges: list[Siege]) -> list[str]:
    """Print counts of the answers; return the faults."""
    codes = sum((siege.codes for siege in sieges), Counter[str]())
    unanswered = [key for siege in sieges for key in siege.unanswered]
    wrongly = [said for siege in sieges for said in siege.wrongly]
    _say(f"answers with an id: {sum(siege.answers for siege in sieges)}, missing: {len(unanswered)}")
    _say("errors: " + ", ".join(f"{code} {count}" for code, count in codes.most_common()))
    return [f"never answered: {key}" for key in unanswered[:10]] + [f"unexpected: {said}" for said in wrongly[:10]]


def _disturbed(quiet: list[Stream], streams: list[Stream]) -> list[str]:
    """Print how even the controller's stream was; return the faults."""
    missing = sum(stream.missing for stream in streams)
    before, during = _gaps(quiet), _gaps(streams)
    for when, gaps in (("without messages", before), ("with messages", during)):
        p50, p99, longest = (1e3 * gaps[int(len(gaps) * share)] for share in (0.5, 0.99, 0.9999))
        _say(f"frames {when}: {len(gaps)}, between them p50 {p50:.1f} ms, p99 {p99:.1f}, longest {longest:.1f}")
    _say(f"missing: {missing}")
    late = during[int(len(during) * 0.99)] > before[int(len(before) * 0.99)] + MOST_LATER_S
    return [f"{missing} frames are missing"] * bool(missing) + ["the stream was disturbed"] * late


def _gaps(streams: list[Stream]) -> list[float]:
    return sorted(gap for stream in streams for gap in stream.gaps_s[1:])


def _growth(before: Usage, after: Usage, sessions: int) -> list[str]:
    names = ("memory of the server", "memory of the engines", "descriptors of the server", "descriptors of the engines")
    most = (MOST_MIB, MOST_MIB * sessions, 1, sessions)
    compared = zip(names, before, after, most, strict=True)
    return [f"{name} grew from {was:.1f} to {now:.1f}" for name, was, now, more in compared if now > was + more]


def _cells(*numbers: float) -> str:
    return "".join(f"{number:>13}" for number in numbers)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}{os.linesep}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
