"""`python -m benchmarks.soak`: clients come and go and the model fails, minute after minute; nothing may grow.

In each minute random clients come and go and each engine fails once; then all clients leave and the server's resources
are measured. Prints a row a minute; exits with 1 when a figure grows or the server logs a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.server_process import Sample, WatchedServer, watched_server
from benchmarks.soak_clients import CONTROLLERS, OTHERS, SoakClients

MINUTE_S = 60.0
# Of each minute; in the rest the server notices that clients have left.
CLIENTS_S = 48.0
FAILURES = ("killed", "segfault", "raises", "hangs")
RAISED = 'reactor_sessions_total{reason="model_error"}'
RESTARTS = 'reactor_engine_restarts_total{{engine="{}"}}'
LIMITS = ("--step-timeout", "3", "--resume-grace", "1s", "--max-waiting", "16", "--max-viewers", "30")
VIDEO = ("--codec", "always")
MINUTES = "how long (20); at least 6"
# Minutes, one of each failure, after which everything is imported and allocated.
WARM_UP = 4
MOST_GROWTH_MIB = 4.0
MOST_DIFFERENCE = {"descriptors": 2, "threads": 4, "tasks": 2, "memfds": 1, "files": 0}
COLUMNS = {
    "server_mib": "server MiB",
    "engines_mib": "engines MiB",
    "descriptors": "descriptors",
    "engines_descriptors": "of engines",
    "threads": "threads",
    "engines_threads": "of engines",
    "tasks": "tasks",
    "memfds": "memfds",
    "files": "files",
}


@dataclass(frozen=True, slots=True)
class Settings:
    minutes: int
    clients: int
    sessions: int
    seed: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=20, choices=range(6, 10_000), metavar="N", help=MINUTES)
    parser.add_argument("--clients", type=int, default=24, help="how many clients at once (24)")
    parser.add_argument("--sessions", type=int, default=1, help="how many engines (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the random clients (1)")
    settings = Settings(**vars(parser.parse_args()))
    with watched_server(*LIMITS, *VIDEO, sessions=settings.sessions) as server:
        return asyncio.run(_soak(server, settings))


async def _soak(server: WatchedServer, settings: Settings) -> int:
    clients = SoakClients(server.port, settings.seed)
    source = random.Random(settings.seed)
    samples: list[Sample] = []
    before: dict[str, int] = {}
    began = asyncio.get_running_loop().time()
    _row("minute", "model", *COLUMNS.values())
    for minute in range(1, settings.minutes + 1):
        await asyncio.sleep(began + (minute - 1) * MINUTE_S - asyncio.get_running_loop().time())
        failures = [
            (source.uniform(5, CLIENTS_S - 10), FAILURES[(minute + engine - 1) % len(FAILURES)])
            for engine in range(settings.sessions)
        ]
        await _minute(server, clients, settings.clients, failures)
        samples.append(await asyncio.to_thread(_sample_at_rest, server))
        sample = asdict(samples[-1])
        _row(minute, failures[0][1], *(f"{sample[name]:.1f}" if "mib" in name else sample[name] for name in COLUMNS))
        if minute == WARM_UP:
            before = await asyncio.to_thread(server.count_objects, signal.SIGUSR2)
    after = await asyncio.to_thread(server.count_objects, signal.SIGUSR2)
    return _judge(server, clients, samples, before, after)


async def _minute(
    server: WatchedServer, clients: SoakClients, count: int, failures: Sequence[tuple[float, str]]
) -> None:
    """Run clients for most of a minute while each engine fails once; all clients have left at the end."""
    until = asyncio.get_running_loop().time() + CLIENTS_S
    kinds = [CONTROLLERS] * (count // 3) + [OTHERS] * (count - count // 3)
    running = [clients.run_clients(weighted, until) for weighted in kinds]
    failing = [_fail(server, clients, engine, after_s, how) for engine, (after_s, how) in enumerate(failures)]
    await asyncio.gather(*running, *failing)
    clients.failures.clear()


async def _fail(server: WatchedServer, clients: SoakClients, engine: int, after_s: float, how: str) -> None:
    """Kill the oldest engine, or set how the next controller makes its model fail."""
    await asyncio.sleep(after_s)
    if how != "killed":
        clients.failures[engine] = how
    elif engines := await asyncio.to_thread(lambda: server.engines):
        with contextlib.suppress(ProcessLookupError):
            os.kill(engines[0], signal.SIGKILL)


def _sample_at_rest(server: WatchedServer) -> Sample:
    server.rest()
    return server.sample()


def _judge(
    server: WatchedServer, clients: SoakClients, samples: list[Sample], before: dict[str, int], after: dict[str, int]
) -> int:
    """Compare the last samples with the first ones after the warm-up; print and count what has grown."""
    faults: list[str] = []
    settled = samples[WARM_UP:]
    first, last = settled[: max(2, len(settled) // 4)], settled[-max(2, len(settled) // 4) :]
    of_engines = {"engines_mib": MOST_GROWTH_MIB * server.sessions, "engines_descriptors": 2 * server.sessions}
    for name, most in {"server_mib": MOST_GROWTH_MIB, **of_engines, **MOST_DIFFERENCE}.items():
        was, is_now = (statistics.median(getattr(each, name) for each in part) for part in (first, last))
        _say(f"{name.replace('_', ' ')}: {was:.1f} to {is_now:.1f}, may grow by {most}")
        if is_now - was > most:
            faults.append(f"{name} grew from {was:.1f} to {is_now:.1f}")
    for name, was in before.items():
        _say(f"objects of {name}, garbage collected: {was} to {after[name]}")
    growth = {name: after[name] - before[name] for name in before if name != "objects"}
    faults += [f"{count} more of {name}" for name, count in growth.items() if count > 2]
    faults += [f"traceback: {piece}" for piece in server.own_tracebacks]
    if server.process.poll() is not None:
        faults.append("the server has ended")
    for kind, count in sorted(clients.started.items()):
        _say(f"{kind.replace('_', ' ')}: {count} started, {clients.finished[kind]} finished")
    _say(f"frames received: {clients.frames}")
    metrics = _metrics(server)
    restarts = ", ".join(f"{metrics[RESTARTS.format(number + 1)]:.0f}" for number in range(server.sessions))
    _say(f"restarts of each engine: {restarts}")
    _say(f"sessions ended by an exception of the model: {metrics.get(RAISED, 0):.0f}")
    for fault in faults:
        _say(f"FAULT {fault}")
    _say("nothing has grown" if not faults else f"{len(faults)} faults")
    return bool(faults)


def _metrics(server: WatchedServer) -> dict[str, float]:
    lines = server.get("/metrics").splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def _row(*cells: Any) -> None:
    _say("".join(f"{cell!s:>13}" for cell in cells))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
