"""A front on Ray: the age of frames that it relays, and the time until a client is assigned, beside a plain server."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from benchmarks.receiver import Received, receive, receive_text
from benchmarks.serving import answers_ms, cpu_of, encode_s, run, running, serving

Row = tuple[str, str, str]
RUNS = 5
SECONDS = 3.0
# The system counts processor time in units of 10 ms, and a connection takes some too.
RELAYED_S = 15.0
SETTLE_FRAMES = 30
ASSIGNMENTS = 20
EVENTS = 20
FREED_S = 0.3
ON_RAY = ("--on", "ray", "--cpus-per-session", "0")


def cluster() -> Iterator[Row]:
    """Measure 720p at 30 fps from a plain server, from a worker, and relayed by its front, in turns."""
    ages_ms: dict[str, list[float]] = {"plain": [], "worker": [], "relayed": []}
    input_ms: dict[str, list[float]] = {"plain": [], "worker": []}
    relay_ms, assigned_ms = [], []
    bare_ms = 1e3 * encode_s(1280, 720)
    with serving(fps=30) as plain, contextlib.ExitStack() as stack:
        front = stack.enter_context(serving(options=ON_RAY, fps=30))
        front_pid = max(running())
        for _ in range(RUNS):
            ages_ms["plain"].append(_age_ms(receive(plain, SECONDS)))
            url, ticket = _redirect(front)
            ages_ms["worker"].append(_age_ms(receive(url, SECONDS, query=f"&ticket={ticket}")))
            time.sleep(FREED_S)
            received, cpu_ms = _receive_relayed(front, front_pid)
            ages_ms["relayed"].append(_age_ms(received))
            relay_ms.append(cpu_ms)
            time.sleep(FREED_S)
            for name, port in (("plain", plain), ("worker", front)):
                input_ms[name].append(statistics.median(run(answers_ms(port, EVENTS))))
                time.sleep(FREED_S)
        for _ in range(ASSIGNMENTS):
            assigned_ms.append(_assign_ms(front))
            time.sleep(FREED_S)
    age_ms = {name: statistics.median(ages) for name, ages in ages_ms.items()}
    yield "plain server: hand-over to receipt, p50", f"{age_ms['plain']:.2f} ms", ""
    yield "  a worker, after a redirect", f"{age_ms['worker']:.2f} ms", ""
    yield "    of the plain server", f"{age_ms['worker'] / age_ms['plain']:.2f}", "at most 1.05"
    yield "  relayed by the front", f"{age_ms['relayed']:.2f} ms", ""
    yield "    of the worker", f"{age_ms['relayed'] / age_ms['worker']:.2f}", "at most 1.10"
    yield "    CPU of the front a frame", f"{statistics.median(relay_ms):.2f} ms", ""
    yield "      of a bare encode", f"{statistics.median(relay_ms) / bare_ms:.2f}", "at most 0.15"
    inputs = {name: statistics.median(delays) for name, delays in input_ms.items()}
    yield "plain server: input to frame, p50", f"{inputs['plain']:.1f} ms", ""
    yield "  a worker, after a redirect", f"{inputs['worker']:.1f} ms", ""
    yield "    of the plain server", f"{inputs['worker'] / inputs['plain']:.2f}", "at most 1.05"
    yield "connect to redirect, p50", f"{statistics.median(assigned_ms):.1f} ms", "at most 20 ms"


def _receive_relayed(front: int, front_pid: int) -> tuple[list[Received], float]:
    """Receive through the front; return the frames, and the processor time of the front for each in milliseconds."""
    used_s = cpu_of(front_pid)
    received = receive(front, RELAYED_S)
    return received, 1e3 * (cpu_of(front_pid) - used_s) / len(received)


def _assign_ms(front: int) -> float:
    """Return the time until the front redirects a client, in milliseconds, and take the worker's slot."""
    began = time.monotonic()
    url, ticket = _redirect(front)
    assigned_ms = 1e3 * (time.monotonic() - began)
    receive_text(url, "reactor.welcome", query=f"&ticket={ticket}")
    return assigned_ms


def _redirect(front: int) -> tuple[int, str]:
    """Return the port of a worker, and a ticket for it."""
    data = receive_text(front, "reactor.redirect", query="&redirect=1")
    port = urlsplit(data["url"]).port
    assert port is not None, "workers have ports of their own"
    return port, data["ticket"]


def _age_ms(received: list[Received]) -> float:
    return statistics.median(1e3 * frame.age_s for frame in received[SETTLE_FRAMES:])
