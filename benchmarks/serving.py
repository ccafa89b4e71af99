"""A server of ours in a process of its own: where it is, what it costs, how old its pictures are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactor_runtime.client import Frame
from reactor_runtime.client.media import read_header
from tests.processes import children, engines_of

MODEL = Path(__file__).parent / "model"
STARTUP_S = 30


@contextlib.contextmanager
def serving(project: Path = MODEL, host: str = "127.0.0.1", **config: float) -> Iterator[int]:
    """Serve a model of the benchmarks; gives the port."""
    arguments = [f"--set={key}={value}" for key, value in config.items()]
    run_model = [sys.executable, "-m", "reactor_cli", "run", str(project), "--host", host, "--port", "0"]
    command = [*run_model, "--log-level", "warning", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None, "a pipe was asked for"
    port = 0
    for line in process.stdout:
        if found := re.search(r"http://[^:/]+:(\d+)", line):
            port = int(found[1])
        if line.startswith("ready"):
            break
    try:
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STARTUP_S)
        process.stdout.close()


def address(port: int, host: str = "127.0.0.1") -> str:
    """Say where a client finds it."""
    return f"http://{host}:{port}"


def age_s(frame: Frame) -> float:
    """Say how long ago the model handed a frame over; both ends have one clock here, so nothing is estimated."""
    return time.time() - read_header(frame.jpeg).wall_us / 1e6


def cpu_s() -> float:
    """CPU time so far of the server that is running and of its engine, in seconds."""
    return sum(map(cpu_of, running()))


def running() -> tuple[int, ...]:
    """Give the process ids of the server that is running and of its engine, in this order."""
    servers = children(os.getpid())
    return *servers, *(engine for server in servers for engine in engines_of(server))


def cpu_of(pid: int) -> float:
    """CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(coroutine: Any) -> Any:
    """Run a client on the loop the server uses too."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
