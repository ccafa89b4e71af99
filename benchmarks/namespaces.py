"""A network namespace, whose rate `tc tbf` limits and whose full queue drops packets; needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.networks import FPS, SECONDS, Row, watch
from benchmarks.serving import run, serving

NAME, NEAR, FAR = "reactor-bench", "reactor-b0", "reactor-b1"
SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
LINKS = (("2mbit", "50ms"), ("8mbit", "50ms"), ("8mbit", "400ms"), ("30mbit", "50ms"))


def namespaces() -> Iterator[Row]:
    """Measure the stream of `networks` through a namespace: age p50 and p99, frames, bytes, usual quality."""
    if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
        yield "network namespaces", "need root, ip and tc", ""
        return
    for rate, queue in LINKS:
        with _network(rate, queue), serving(host=SERVER, fps=FPS) as port:
            command = ["ip", "netns", "exec", NAME, sys.executable, "-m", __name__, str(port)]
            summary = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        yield f"namespace, {rate}, queue of {queue}", summary, ""


@contextlib.contextmanager
def _network(rate: str, queue: str) -> Iterator[None]:
    try:
        _run_command("ip", "netns", "add", NAME)
        _run_command("ip", "link", "add", NEAR, "type", "veth", "peer", "name", FAR, "netns", NAME)
        _run_command("ip", "address", "add", f"{SERVER}/24", "dev", NEAR)
        _run_command("ip", "-n", NAME, "address", "add", f"{CLIENT}/24", "dev", FAR)
        _run_command("ip", "link", "set", NEAR, "up")
        _run_command("ip", "-n", NAME, "link", "set", FAR, "up")
        _run_command("tc", "qdisc", "add", "dev", NEAR, "root", "tbf", "rate", rate, "burst", "16kb", "latency", queue)
        yield
    finally:
        subprocess.run(["ip", "link", "delete", NEAR], check=False)
        subprocess.run(["ip", "netns", "delete", NAME], check=False)


def _run_command(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    # The parent process reads the line.
    print(run(watch(int(sys.argv[1]), SECONDS, SERVER)).summary)  # noqa: T201
