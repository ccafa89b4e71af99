"""A network in the kernel, whose rate `tc tbf` limits and whose queue drops what it doesn't hold; needs root."""

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
    """The same stream through a namespace: age p50 and p99, frames, bytes, usual quality."""
    if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
        yield "network namespaces", "need root, ip and tc", ""
        return
    for rate, queue in LINKS:
        with _network(rate, queue), serving(host=SERVER, fps=FPS) as port:
            command = ["ip", "netns", "exec", NAME, sys.executable, "-m", __name__, str(port)]
            words = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        yield f"namespace, {rate}, queue of {queue}", words, ""


@contextlib.contextmanager
def _network(rate: str, queue: str) -> Iterator[None]:
    try:
        _do("ip", "netns", "add", NAME)
        _do("ip", "link", "add", NEAR, "type", "veth", "peer", "name", FAR, "netns", NAME)
        _do("ip", "address", "add", f"{SERVER}/24", "dev", NEAR)
        _do("ip", "-n", NAME, "address", "add", f"{CLIENT}/24", "dev", FAR)
        _do("ip", "link", "set", NEAR, "up")
        _do("ip", "-n", NAME, "link", "set", FAR, "up")
        _do("tc", "qdisc", "add", "dev", NEAR, "root", "tbf", "rate", rate, "burst", "16kb", "latency", queue)
        yield
    finally:
        subprocess.run(["ip", "link", "delete", NEAR], check=False)
        subprocess.run(["ip", "netns", "delete", NAME], check=False)


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    print(run(watch(int(sys.argv[1]), SECONDS, SERVER)).words)  # noqa: T201  (what it was started for)
