"""The benchmarks, one function each, which yields rows of (name, figure, floor or bound).

Waiting times of users are measured with our client; rates, gaps and delays of a stream with the bare receiver.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from benchmarks import (
    browsers,
    clusters,
    environments,
    failures,
    loops,
    namespaces,
    networks,
    recorders,
    reloads,
    tensors,
    video,
    viewers,
    waiting,
)
from benchmarks.bare_pipeline import piping
from benchmarks.receiver import Received, receive
from benchmarks.serving import (
    MODEL,
    RUNS,
    TREE,
    address,
    age_s,
    answers_ms,
    cpu_of,
    cpu_s,
    encode_s,
    environment,
    free_port,
    processes,
    run,
    serving,
)
from reactor_runtime.client import connect
from tests.processes import children

Row = tuple[str, str, str]
SETTLED_S = 2.0


def free_running() -> Iterator[Row]:
    """Measure rate, age and CPU of the frames of a free-running model at 720p, with one client, all on two cores."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:2]))
    try:
        ratios, rates, ages, shares = [], [], [], []
        for _ in range(RUNS):
            floor = 1 / encode_s(1280, 720)
            with serving(fps=2000) as port:
                used_s = cpu_s()
                received = receive(port, 4.0)
                shares.append(1e3 * (cpu_s() - used_s) / len(received))
            rates.append(_rate(received))
            ages.append(1e3 * statistics.median(frame.age_s for frame in received))
            ratios.append(rates[-1] / floor)
    finally:
        os.sched_setaffinity(0, set(cores))
    yield "free-running 720p, two cores", f"{statistics.median(rates):.0f} fps", ""
    yield "  of one core's bare encode loop", f"{statistics.median(ratios):.2f}", "at least 1.45"
    yield "  age of the frame, p50", f"{statistics.median(ages):.1f} ms", "at most 7 ms"
    yield "  CPU of server and engine a frame", f"{statistics.median(shares):.2f} ms", ""


def sessions() -> Iterator[Row]:
    """Measure the age of the frames of free-running models at 720p: several sessions, each with one client."""
    for count in (2, 4):
        with serving(options=("--sessions", str(count)), fps=2000) as port, ThreadPoolExecutor(count) as clients:
            received = list(clients.map(lambda _, port=port: receive(port, 4.0), range(count)))
        ages = [1e3 * statistics.median(frame.age_s for frame in each) for each in received]
        yield f"{count} sessions, free-running 720p: frames", f"{sum(map(_rate, received)):.0f} fps", ""
        yield "  age of the frame, p50, the worst session", f"{max(ages):.1f} ms", ""


class Case(NamedTuple):
    """One paced stream, the bound of the deviation of its gaps, and that of its p99 beyond a bare encode."""

    name: str
    config: Mapping[str, float]
    bound_ms: float
    p99_ms: float


CASES = (
    Case("480p30", {"width": 640, "height": 480, "fps": 30}, 0.5, 1.5),
    Case("720p30", {"fps": 30}, 0.3, 1.5),
    Case("720p30, a new array each step", {"fps": 30, "copies": 1}, 0.5, 2.0),
    Case("720p60", {"fps": 60}, 0.5, 1.5),
    Case("720p30, 20 ms of Python a step", {"fps": 30, "burn_ms": 20}, 2.0, 10.0),
    Case("4K30", {"width": 3840, "height": 2160, "fps": 30, "max_frames": 4}, 5.0, 20.0),
)


class _Stream(NamedTuple):
    """Figures of one paced stream: evenness, delay, and CPU of its two processes a frame."""

    deviation_ms: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float

    @classmethod
    def measure(cls, port: int, fps: int, pids: tuple[int, ...], texts: list[dict[str, Any]] | None = None) -> _Stream:
        receive(port, 2.0)
        used_s = sum(map(cpu_of, pids))
        received = receive(port, 5.0, texts)
        cpu_ms = 1e3 * (sum(map(cpu_of, pids)) - used_s) / len(received)
        settled = received[fps:]
        ages = sorted(1e3 * frame.age_s for frame in settled)
        deviation_ms = 1e3 * float(np.std(np.diff([frame.at for frame in settled])))
        return cls(deviation_ms, statistics.median(ages), ages[int(len(ages) * 0.99) - 1], cpu_ms)

    @classmethod
    def median(cls, runs: list[_Stream]) -> _Stream:
        return cls(*map(statistics.median, zip(*runs, strict=True)))


def paced() -> Iterator[Row]:
    """Measure evenness, delay and CPU of paced frames, with an idle model and with one that computes in Python."""
    for case in CASES:
        yield from _paced(case)


def _paced(case: Case) -> Iterator[Row]:
    width, height, fps = (
        int(case.config.get(key, default)) for key, default in (("width", 1280), ("height", 720), ("fps", 30))
    )
    bare_ms = 1e3 * encode_s(width, height)
    streams, floors = [], []
    for _ in range(RUNS):
        with piping(width, height, fps) as (port, pid):
            floors.append(_Stream.measure(port, fps, (pid, *children(pid))))
        with serving(MODEL, "127.0.0.1", (), **case.config) as port:
            texts: list[dict[str, Any]] = []
            streams.append(_Stream.measure(port, fps, processes(), texts))
        stages = next(text["data"] for text in reversed(texts) if text["type"] == "reactor.stats")
    ours, bare = _Stream.median(streams), _Stream.median(floors)
    yield f"{case.name}: deviation of gaps", f"{ours.deviation_ms:.2f} ms", f"at most {case.bound_ms} ms"
    yield "  of a bare pipeline of two processes", f"{bare.deviation_ms:.2f} ms", ""
    yield "  a bare encode in a loop, on one core", f"{bare_ms:.2f} ms", ""
    yield "  hand-over to receipt, p50", f"{ours.p50_ms:.2f} ms", ""
    yield "    of a bare pipeline", f"{bare.p50_ms:.2f} ms", ""
    yield "    beyond a bare encode", f"{ours.p50_ms - bare_ms:.2f} ms", ""
    yield "  hand-over to receipt, p99", f"{ours.p99_ms:.2f} ms", ""
    yield "    of a bare pipeline", f"{bare.p99_ms:.2f} ms", ""
    yield "    beyond a bare encode", f"{ours.p99_ms - bare_ms:.2f} ms", f"at most {case.p99_ms} ms"
    yield "  CPU of server and engine a frame", f"{ours.cpu_ms:.2f} ms", ""
    yield "    over that of a bare pipeline", f"{ours.cpu_ms / bare.cpu_ms:.2f}", ""
    yield "    over a bare encode in a loop", f"{ours.cpu_ms / bare_ms:.2f}", ""
    for stage in ("arrive", "queue", "encode", "back", "hold", "late", "send"):
        yield f"    {stage}", f"{stages[f'{stage}_ms']:.2f} ms", ""


def input_to_frame() -> Iterator[Row]:
    """Measure the time from an event to the first frame made with it, 640x480 at 30 fps."""
    for batch, bounds in ((1, ("at most 20 ms", "at most 34 ms")), (4, ("at most 167 ms", ""))):
        with serving(width=640, height=480, fps=30, batch=batch) as port:
            delays = sorted(run(answers_ms(port, 120)))
        name = "one frame a step" if batch == 1 else f"{batch} frames a step"
        yield f"input to frame, {name}, p50", f"{statistics.median(delays):.1f} ms", bounds[0]
        yield "  p99", f"{delays[int(len(delays) * 0.99) - 1]:.1f} ms", bounds[1]


def slow_painter() -> Iterator[Row]:
    """Measure the age of the painted frame with a 60 fps model and a client that paints 15 times a second."""
    with serving(fps=60) as port:
        painted = run(_paint(port, 15, 20.0))
    for name, ages in (
        ("in the first 2 s", sorted(1e3 * age for at, age in painted if at < SETTLED_S)),
        ("later", sorted(1e3 * age for at, age in painted if at >= SETTLED_S)),
    ):
        yield f"60 fps, client paints 15 fps, {name}: age p50", f"{statistics.median(ages):.0f} ms", ""
        yield "  p99", f"{ages[int(len(ages) * 0.99) - 1]:.0f} ms", "at most 120 ms"


def startup() -> Iterator[Row]:
    """Measure the times of whole commands."""
    helps, bares, pages = [], [], []
    for _ in range(RUNS):
        bares.append(_wall_s([sys.executable, "-c", "import typer"]))
        helps.append(_wall_s([sys.executable, "-m", "reactor_cli", "--help"]))
        pages.append(_until_page_s())
    ratio = statistics.median(helps) / statistics.median(bares)
    yield "reactor --help, of bare import typer", f"{ratio:.2f}", "at most 1.2"
    yield "reactor run until the page answers", f"{statistics.median(pages):.2f} s", "at most 0.4 s"
    with serving():
        yield "without a client: of one core", f"{100 * _cpu_share(10.0):.2f} %", "at most 0.15 %"


BENCHMARKS = {
    "free": free_running,
    "sessions": sessions,
    "paced": paced,
    "input": input_to_frame,
    "painter": slow_painter,
    "startup": startup,
    "reload": reloads.reloads,
    "torch": tensors.conversion,
    "emit": loops.emit,
    "camera": loops.camera,
    "networks": networks.networks,
    "namespaces": namespaces.namespaces,
    "video": video.video,
    "browser": browsers.browsers,
    "viewers": viewers.viewers,
    "recording": recorders.recording,
    "cluster": clusters.cluster,
    "waiting": waiting.waiting,
    "failures": failures.failures,
    "environments": environments.environments,
    "sharing": environments.sharing,
}


def _rate(received: list[Received]) -> float:
    settled = [frame.at for frame in received if frame.at - received[0].at > 1.0]
    return (len(settled) - 1) / (settled[-1] - settled[0])


async def _paint(port: int, fps: int, seconds: float) -> list[tuple[float, float]]:
    """Take the newest frame at a fixed rate, which acknowledges it; return the times since joining, and the ages."""
    painted: list[tuple[float, float]] = []
    async with connect(address(port)) as session:
        frames = session.frames(decode=False)
        began = due = time.monotonic()
        while due - began < seconds:
            frame = await anext(frames)
            painted.append((time.monotonic() - began, age_s(frame)))
            due += 1 / fps
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    return painted


def _wall_s(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, cwd=TREE, env=environment(), check=True)
    return time.perf_counter() - began


def _until_page_s() -> float:
    port = free_port()
    began = time.perf_counter()
    command = [sys.executable, "-m", "reactor_cli", "run", str(MODEL), "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=TREE, env=environment()
    )
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                    answer.read()
                return time.perf_counter() - began
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.005)
    finally:
        process.terminate()
        process.wait()


def _cpu_share(seconds: float) -> float:
    """Return the share of a core that server and engine use without a client."""
    before = cpu_s()
    time.sleep(seconds)
    return (cpu_s() - before) / seconds
