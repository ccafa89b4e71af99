"""`python -m benchmarks.hostile.connections [NAME ...]`: measure a server whose descriptors are under attack.

The server may open 1,024 descriptors, soft and hard. A controller receives frames from one address while a process of
low priority attacks from another one; each attack has limits for the frames that the controller loses. Prints a row for
each attack; exits with 1 when a limit is exceeded, when the session or the server ends, or when a client of a third
address is not served.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from tests.processes import children, descriptors
from tests.server.bare import MODEL
from tests.server.running import RunningServer, started, write_project
from tests.server.security.test_certificate import make_certificate

DESCRIPTORS = 1024
CONTROLLER = "127.0.0.1"
ATTACKER = "127.0.0.2"
BYSTANDER = "127.0.0.9"
SECONDS = 8.0
RAMP_S = 2.0
NICE = 10
MOST_LINES = 4


class Attack(NamedTuple):
    """An attack and its limits: the share of frames that still arrives, and the longest time without one."""

    run: Callable[[Attacker], Coroutine[None, None, None]]
    least_frames: float = 0.9
    longest_gap_s: float = 0.5
    tls: bool = False
    kills_engine: bool = False
    exhausts: bool = False


class Attacker:
    """Open connections to a server and keep them open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.held: list[socket.socket] = []

    async def open(self, count: int, source: str = ATTACKER) -> None:
        """Open connections that send nothing, and keep those that are not reset."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.bind((source, 0))
            try:
                await loop.sock_connect(sock, ("127.0.0.1", self.port))
                self.held.append(sock)
            except OSError:
                sock.close()

    def close(self) -> None:
        """Close all connections."""
        for sock in self.held:
            sock.close()
        self.held.clear()


async def silent(attacker: Attacker) -> None:
    """Open 1,300 connections of one address at once, and keep them open."""
    await attacker.open(1300)
    await asyncio.Event().wait()


async def again_and_again(attacker: Attacker) -> None:
    """Open 1,150 connections of one address, and close and open all of them every 2 s."""
    while True:
        await attacker.open(1150)
        await asyncio.sleep(2)
        attacker.close()


async def churn(attacker: Attacker) -> None:
    """Open and close some 300 connections of one address a second."""
    while True:
        await attacker.open(30)
        attacker.close()
        await asyncio.sleep(0.1)


async def many_addresses(attacker: Attacker) -> None:
    """Open the most connections that an address may have, from eight addresses: more than there are descriptors."""
    for host in range(20, 28):
        await attacker.open(240, f"127.0.0.{host}")
    await asyncio.Event().wait()


ATTACKS = {
    "silent": Attack(silent),
    "silent-tls": Attack(silent, tls=True),
    "again-and-again": Attack(again_and_again),
    "again-and-again-tls": Attack(again_and_again, tls=True),
    "churn": Attack(churn),
    "many-addresses": Attack(many_addresses, exhausts=True),
    "lost-engine": Attack(many_addresses, exhausts=True, kills_engine=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile.connections", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ATTACKS], help=f"of {', '.join(ATTACKS)}; none: all")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or list(ATTACKS)
    if arguments.port is not None:
        os.nice(NICE)
        asyncio.run(ATTACKS[names[0]].run(Attacker(arguments.port)))
    faults = [f"{name}: {fault}" for name in names for fault in attack(name, ATTACKS[name])]
    for fault in faults:
        _say(f"FAULT {fault}")
    return bool(faults)


def attack(name: str, kind: Attack) -> list[str]:
    """Run one attack against a server of its own; return its faults."""
    with tempfile.TemporaryDirectory() as folder:
        project, certificate = write_project(Path(folder) / "model", MODEL), None
        arguments: tuple[str, ...] = ()
        if kind.tls:
            certificate, key = make_certificate(Path(folder))
            arguments = ("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
        with started(project, *arguments, descriptors=(DESCRIPTORS, DESCRIPTORS)) as server:
            server.wait_for("ready in")
            tls = None if certificate is None else ssl.create_default_context(cafile=str(certificate))
            faults = asyncio.run(_measure(name, kind, server, tls))
            faults += ["the server has ended"] if server.process.poll() is not None else []
            lines = server.log.partition("ready in")[2].count("refused")
            faults += [f"{lines} lines in the log"] * (lines > MOST_LINES)
            faults += ["a traceback in the log"] * ("Traceback" in server.log)
    return faults


@contextlib.contextmanager
def _attacking(name: str, port: int) -> Iterator[None]:
    """Attack from a process of its own, so that the attacker takes no time from the measuring loop."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.hostile.connections", name, "--port", str(port)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def _measure(name: str, kind: Attack, server: RunningServer, tls: ssl.SSLContext | None) -> list[str]:
    url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{server.port}/ws"
    faults: list[str] = []
    times: list[float] = []
    async with connect(url, ssl=tls, max_size=None, local_addr=(CONTROLLER, 0)) as controller:
        reading = asyncio.create_task(_read(controller, times))
        await asyncio.sleep(SECONDS / 2)
        before = len(times) / (times[-1] - times[0])
        with _attacking(name, server.port):
            await asyncio.sleep(RAMP_S)
            times.clear()
            await asyncio.sleep(SECONDS)
            gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
            during, longest = len(times) / SECONDS, max(gaps, default=SECONDS)
            held = descriptors(server.process.pid)
            faults += [f"{during:.1f} instead of {before:.1f} fps"] * (during < before * kind.least_frames)
            faults += [f"no frame for {longest:.2f} s"] * (longest > kind.longest_gap_s)
            faults += ["the session has ended"] * reading.done()
            if kind.kills_engine:
                os.kill(server.engine, signal.SIGKILL)
                await asyncio.to_thread(server.wait_for, "is started again")
                await asyncio.to_thread(server.until, lambda: children(server.process.pid), "a new engine")
            if not kind.exhausts:
                faults += await _bystander(server, tls)
        reading.cancel()
        await asyncio.wait([reading])
    await asyncio.sleep(RAMP_S)
    faults += await _bystander(server, tls)
    _say(f"{name:<22}{held:>6} descriptors {before:7.1f} -> {during:5.1f} fps, longest gap {1e3 * longest:6.0f} ms")
    return faults


async def _read(socket: ClientConnection, times: list[float]) -> None:
    loop = asyncio.get_running_loop()
    async for message in socket:
        if isinstance(message, bytes):
            times.append(loop.time())


async def _bystander(server: RunningServer, tls: ssl.SSLContext | None) -> list[str]:
    """Send a request from a third address; return a fault unless it is served."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, local_addr=(BYSTANDER, 0))
            writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        return [f"another address is not served: {error!r}"]
    return [] if b" 200 " in line else [f"another address is answered {line!r}"]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}{os.linesep}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
