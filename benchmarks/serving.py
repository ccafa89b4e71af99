"""A server in a process of its own: its CPU time, the age of its frames, its answers to events; and floors of both."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from reactor_runtime.client import Frame, connect
from tests.processes import children, descendants, engines_of

ROOT = Path(__file__).resolve().parents[1]
# The source tree whose server is measured, and how often. `against.py` sets both for its processes.
TREE = Path(os.environ.get("BENCH_TREE", ROOT))
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
MODEL = Path(__file__).parent / "model"
STARTUP_S = 30
SETTLED_S = 2.0
# With several sessions there is a line for each.
READY = re.compile(r"ready (?:(\d+) of (\d+) )?in ")


@contextlib.contextmanager
def serving(
    project: Path = MODEL, host: str = "127.0.0.1", options: Sequence[str] = (), **config: float
) -> Iterator[int]:
    """Serve a model of the benchmarks with `options` of `reactor run`; yield the port."""
    arguments = [*options, *(f"--set={key}={value}" for key, value in config.items())]
    run_model = [sys.executable, "-m", "reactor_cli", "run", str(project), "--host", host, "--port", "0"]
    command = [*run_model, "--log-level", "warning", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TREE, env=environment())
    assert process.stdout is not None, "stdout is a pipe"
    port = 0
    for line in process.stdout:
        if found := re.search(r"http://[^:/]+:(\d+)", line):
            port = int(found[1])
        if (ready := READY.match(line)) and ready[1] == ready[2]:
            break
    try:
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STARTUP_S)
        process.stdout.close()


def environment() -> dict[str, str]:
    """Return the environment in which Python imports Reactor from the tree that is measured."""
    return {**os.environ, "PYTHONPATH": str(TREE), "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    """Return a port that is free now, for a server that is started more than once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def address(port: int, host: str = "127.0.0.1") -> str:
    """Return the URL for clients."""
    return f"http://{host}:{port}"


def age_s(frame: Frame) -> float:
    """Return the time since the model handed a frame over, whatever it was encoded as."""
    return frame.delay_ms / 1e3 + time.monotonic() - frame.arrived_s


def cpu_s() -> float:
    """Return the CPU seconds that the running server and its engine have used."""
    return sum(map(cpu_of, processes()))


def processes() -> tuple[int, ...]:
    """Return the process ids of the running server and of all below it, whichever of them a revision's engine is."""
    return tuple(pid for server in children(os.getpid()) for pid in (server, *descendants(server)))


def running() -> tuple[int, ...]:
    """Return the process ids of the running server and of its engine, in this order."""
    servers = children(os.getpid())
    return *servers, *(engine for server in servers for engine in engines_of(server))


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(coroutine: Any) -> Any:
    """Run a client on the event loop implementation that the server uses."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def photo_like(width: int, height: int, count: int) -> NDArray[np.uint8]:
    """Return the frames of the benchmarks' model, for floors."""
    spec = importlib.util.spec_from_file_location("bench_model", MODEL / "pipeline.py")
    assert spec is not None, "the model is a source file"
    assert spec.loader is not None, "the model is a source file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    frames: NDArray[np.uint8] = module.photo_like(width, height, count)
    return frames


def encode_s(width: int, height: int) -> float:
    """Return the floor: the time to encode one of the model's frames on one core, median of 100."""
    images = photo_like(width, height, 4)
    times = []
    for index in range(100):
        began = time.perf_counter()
        simplejpeg.encode_jpeg(images[index % 4], 85, "RGB", "420")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def answers_ms(port: int, count: int) -> list[float]:
    """Send events at random times; return the times until the first frame made with each."""
    delays: list[float] = []
    source = random.Random(11)
    async with connect(address(port)) as session:
        await session.frame()
        await asyncio.sleep(SETTLED_S)
        for level in range(count):
            await asyncio.sleep(source.uniform(0.05, 0.29))
            await session.frame(after=await session.send("set_level", level=level))
            assert session.input_delay_ms is not None, "frame(after=...) waits for it"
            delays.append(session.input_delay_ms)
    return delays
