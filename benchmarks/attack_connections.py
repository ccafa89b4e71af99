"""`python -m benchmarks.attack_connections [NAME ...]`: connections that want every descriptor of a server.

The server may open 1,024 descriptors, soft and hard. A controller of one address plays while others attack; each attack
names what it may take from the controller. Prints the figures; fails when a limit is exceeded, when the session or the
server ends, or when a client of a third address isn't served meanwhile.
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
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NamedTuple

from websockets.asyncio.client import connect

from tests.processes import children, descriptors
from tests.server.bare import MODEL
from tests.server.running import RunningServer, started, write_project
from tests.server.security.test_certificate import make_certificate

DESCRIPTORS = 1024
CONTROLLER = "127.0.0.1"
ATTACKER = "127.0.0.2"
BYSTANDER = "127.0.0.9"
SECONDS = 8.0
MOST_LINES = 4


class Attack(NamedTuple):
    """How to attack, and what may be lost: the share of frames, and how long no frame comes at most."""

    run: Callable[[Target], Coroutine[None, None, None]]
    least_frames: float = 0.8  # the attacker takes its share of the cores
    longest_gap_s: float = 0.5
    tls: bool = False
    session_ends: bool = False


class Target:
    """A server under attack, and what the attackers hold open."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.held: list[socket.socket] = []
        self.came = 0

    async def come(self, count: int, source: str = ATTACKER) -> None:
        """Open connections that say nothing; those that are reset are let go of."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.bind((source, 0))
            self.came += 1
            try:
                await loop.sock_connect(sock, ("127.0.0.1", self.server.port))
                self.held.append(sock)
            except OSError:
                sock.close()

    def leave(self) -> None:
        for sock in self.held:
            sock.close()
        self.held.clear()


async def silent(target: Target) -> None:
    """Open 1,300 connections of one address at once, and hold them."""
    await target.come(1300)


async def again_and_again(target: Target) -> None:
    """Open 1,150 connections of one address every 2 s, and hold all of them."""
    while True:
        await target.come(1150)
        await asyncio.sleep(2)
        target.leave()


async def churn(target: Target) -> None:
    """Open and close some 300 connections of one address a second."""
    while True:
        await target.come(30)
        target.leave()
        await asyncio.sleep(0.1)


async def many_addresses(target: Target) -> None:
    """Have eight addresses hold as many as each may have: more than there are descriptors."""
    for host in range(20, 28):
        await target.come(240, f"127.0.0.{host}")


async def lost_engine(target: Target) -> None:
    """Do the same, and have the model's process die while every descriptor for clients is taken."""
    await many_addresses(target)
    os.kill(target.server.engine, signal.SIGKILL)
    await asyncio.to_thread(target.server.wait_for, "is started again")
    await asyncio.to_thread(target.server.until, lambda: children(target.server.process.pid), "a new engine")


ATTACKS = {
    "silent": Attack(silent),
    "silent-tls": Attack(silent, tls=True),
    "again-and-again": Attack(again_and_again),
    "again-and-again-tls": Attack(again_and_again, tls=True),
    "churn": Attack(churn),
    "many-addresses": Attack(many_addresses),
    "lost-engine": Attack(lost_engine, session_ends=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack_connections", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ATTACKS], help=f"of {', '.join(ATTACKS)}; none: all")
    names = parser.parse_args().names or list(ATTACKS)
    faults = [f"{name}: {fault}" for name in names for fault in attack(name, ATTACKS[name])]
    for fault in faults:
        _say(f"FAULT {fault}")
    return bool(faults)


def attack(name: str, kind: Attack) -> list[str]:
    """Run one attack against a server of its own; returns what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        project, certificate = write_project(Path(folder) / "model", MODEL), None
        arguments: tuple[str, ...] = ()
        if kind.tls:
            certificate, key = make_certificate(Path(folder))
            arguments = ("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
        with started(project, *arguments, descriptors=(DESCRIPTORS, DESCRIPTORS)) as server:
            server.wait_for("ready in")
            tls = None if certificate is None else ssl.create_default_context(cafile=str(certificate))
            faults = asyncio.run(_measure(name, kind, Target(server), tls))
            faults += ["the server has ended"] if server.process.poll() is not None else []
            lines = server.log.partition("ready in")[2].count("refused ")
            faults += [f"{lines} lines in the log"] * (lines > MOST_LINES)
            faults += ["a traceback in the log"] * ("Traceback" in server.log)
    return faults


async def _measure(name: str, kind: Attack, target: Target, tls: ssl.SSLContext | None) -> list[str]:
    url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{target.server.port}/ws"
    faults: list[str] = []
    times: list[float] = []
    async with connect(url, ssl=tls, max_size=None, local_addr=(CONTROLLER, 0)) as controller:
        reading = asyncio.create_task(_read(controller, times))
        await asyncio.sleep(SECONDS / 2)
        before = len(times) / (times[-1] - times[0])
        times.clear()
        attacking = asyncio.create_task(kind.run(target))
        await asyncio.sleep(SECONDS)
        gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
        during, longest = len(times) / SECONDS, max(gaps, default=SECONDS)
        held = descriptors(target.server.process.pid)
        if not kind.session_ends:
            faults += [f"{during:.1f} instead of {before:.1f} fps"] * (during < before * kind.least_frames)
            faults += [f"no frame for {longest:.2f} s"] * (longest > kind.longest_gap_s)
            faults += ["the session has ended"] * reading.done()
        if name not in ("many-addresses", "lost-engine"):
            faults += await _bystander(target, tls)
        for task in (attacking, reading):
            task.cancel()
        ended = await asyncio.gather(attacking, reading, return_exceptions=True)
        faults += [repr(each) for each in ended[:1] if isinstance(each, Exception)]
        target.leave()
    faults += await _bystander(target, tls)
    _say(
        f"{name:<22}{target.came:>7} connections, {held:>5} descriptors, {before:5.1f} -> {during:5.1f} fps,"
        f" longest gap {1e3 * longest:6.0f} ms"
    )
    return faults


async def _read(socket: object, times: list[float]) -> None:
    loop = asyncio.get_running_loop()
    async for message in socket:  # type: ignore[attr-defined]  # a client's connection
        if isinstance(message, bytes):
            times.append(loop.time())


async def _bystander(target: Target, tls: ssl.SSLContext | None) -> list[str]:
    """See that somebody of another address is served."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", target.server.port, ssl=tls, local_addr=(BYSTANDER, 0)
            )
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
