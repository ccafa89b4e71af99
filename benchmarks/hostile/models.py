"""`python -m benchmarks.hostile.models`: models and clients that would end the engine, starve it or leave processes.

Prints a row for each attack, with its figure and its limit; exits with 1 when a limit is exceeded. Repeats all attacks
for `--minutes`; without it each runs once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from benchmarks.server_process import resident_mib
from benchmarks.serving import cpu_of
from reactor_runtime.client import EventError, Session, connect
from reactor_runtime.server.routes.uploads import MOST_AT_ONCE
from tests.processes import alive, descendants
from tests.server.client import WireClient, controlling
from tests.server.running import RunningServer, environment, serving, started, write_project

STARTS = 6
PRINTS = 100_000
UPLOADS = 150
UPLOAD_BYTES = (1 << 20) + (1 << 17)
PATIENCE_S = 120.0
MODEL = """
    import multiprocessing, subprocess, threading
    from dataclasses import dataclass


    class Panic(BaseException):
        pass


    @dataclass
    class Point:
        x: float

        def __post_init__(self):
            raise Panic("as it was asked to")


    class MyState(InputState):
        pass


    def chat(line):
        for number in range(300):
            print(line, number)


    def wait_for(threads):
        for thread in threads:
            thread.join()
        print("the threads have printed")


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = 30

        def load(self, config):
            self.notes = 0
            sys.setswitchinterval(1e-6)
            threads = [threading.Thread(target=chat, args=("chat",)) for _ in range(4)]
            for thread in threads:
                thread.start()
            threading.Thread(target=wait_for, args=(threads,)).start()
            time.sleep(0.02)

        def inference(self):
            sys.setswitchinterval(0.005)
            while True:
                yield MyOutput(main_video=gray(self.notes % 256))

        @event(name="slow")
        async def slow(self):
            await asyncio.sleep(0.003)
            self.notes += 1

        @event(name="move")
        def move(self, to: Point):
            pass

        @event(name="talk")
        def talk(self, lines: int):
            for number in range(lines):
                print("line", number)

        @event(name="have_children")
        def have_children(self):
            stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", stubborn], env={})
            subprocess.Popen([sys.executable, "-c", daemon], start_new_session=True, env={})
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
            if not ctypes.PyDLL(None).fork():
                time.sleep(600)
"""
CHILDREN = 4
EMITTER = """
    class MyModel(ReactorModel):
        output: MyOutput
        fps = 30

        async def run(self):
            while True:
                await self.emit(MyOutput(main_video=gray(1)))
"""


class Row(NamedTuple):
    """Report the figure of an attack, and whether it is a fault."""

    attack: str
    figure: str
    limit: str
    fault: bool


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile.models", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to repeat the attacks (once)")
    until = time.monotonic() + 60 * parser.parse_args().minutes
    # The client logs each event that is refused.
    logging.getLogger("reactor_runtime.client").setLevel(logging.ERROR)
    faults, rounds = 0, 0
    while not rounds or time.monotonic() < until:
        rounds += 1
        for attack in ATTACKS:
            with tempfile.TemporaryDirectory() as folder:
                for row in attack(Path(folder)):
                    faults += row.fault
                    result = "FAULT" if row.fault else "ok"
                    sys.stdout.write(f"{row.attack:<62}{row.figure:>24}   {row.limit:<24}{result}\n")
                    sys.stdout.flush()
    sys.stdout.write(f"rounds {rounds}, faults {faults}\n")
    return bool(faults)


def printing_threads(folder: Path) -> Iterator[Row]:
    """Print in threads while `load()` returns, in both formats of the log."""
    for log_format in ("text", "json"):
        crashes = 0
        for start in range(STARTS):
            project = write_project(folder / f"{log_format}{start}", MODEL)
            with started(project, "--log-format", log_format) as server:
                server.wait_for("the threads have printed|the model's process")
                crashes += "the model's process" in server.log
        yield Row(f"threads print while load() returns, {log_format}", f"{crashes} of {STARTS} crash", "0", crashes > 0)


def panics(folder: Path) -> Iterator[Row]:
    """Send events whose dataclass raises a BaseException."""

    async def send(url: str) -> Counter[str]:
        codes: Counter[str] = Counter()
        async with connect(url) as session:
            for _ in range(100):
                try:
                    await session.send("move", to={"x": 1})
                except EventError as error:
                    codes[error.code] += 1
        return codes

    with serving(write_project(folder, MODEL)) as server:
        engine = server.engine
        codes = asyncio.run(send(server.url))
        fault = codes != {"internal_error": 100} or server.engine != engine
        yield Row("100 events that panic when they are checked", f"{codes['internal_error']} refused", "100", fault)


def orphans(folder: Path) -> Iterator[Row]:
    """Kill a process of a server whose model has child processes, and count the processes that are left."""
    victims: dict[str, Callable[[RunningServer], int]] = {
        "server": lambda server: server.process.pid,
        "engine": lambda server: server.engine,
        "subreaper": lambda server: descendants(server.process.pid)[0],
    }
    for name, victim in victims.items():
        with started(write_project(folder / name, MODEL)) as server:
            server.wait_for("ready in")
            engine = server.engine
            asyncio.run(_send(server.url, "have_children"))
            # The function is called in this turn of the loop.
            server.until(lambda: len(descendants(engine)) >= 1, "children")  # noqa: B023
            deadline = time.monotonic() + PATIENCE_S
            while len(every := descendants(server.process.pid)) < 3 + CHILDREN and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(victim(server), signal.SIGKILL)
            seconds = _until(lambda: not [pid for pid in every if alive(pid)], 10.0)
            left = [pid for pid in every if alive(pid)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        yield Row(f"{name} killed, {len(every)} processes", f"{len(left)} left, {seconds:.1f} s", "0", bool(left))


def events(folder: Path) -> Iterator[Row]:
    """Send 600 events a second whose handler takes 3 ms."""

    async def flood(url: str) -> tuple[int, int]:
        async with connect(url) as session:
            await session.frame()
            sending = asyncio.create_task(_notify(session, "slow", 600, 6.0))
            await asyncio.sleep(1.0)
            frames, until = 0, time.monotonic() + 5.0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + 5.0):
                    async for _ in session.frames(decode=False):
                        frames += time.monotonic() < until
            return frames, await sending

    with serving(write_project(folder, MODEL)) as server:
        frames, sent = asyncio.run(flood(server.url))
    yield Row(f"{sent} events in 6 s, of 3 ms each", f"{frames} frames in 5 s", "at least 25", frames < 25)


def idle_emitter(folder: Path) -> Iterator[Row]:
    """Emit while no client is connected."""
    with serving(write_project(folder, EMITTER)) as server:
        before = cpu_of(server.engine)
        time.sleep(5.0)
        share = (cpu_of(server.engine) - before) / 5.0
    yield Row("emit() without a client", f"{100 * share:.0f} % of a core", "at most 10 %", share > 0.1)


def uploads(folder: Path) -> Iterator[Row]:
    """Send 150 files to an engine that is stopped."""

    async def send(server: RunningServer) -> tuple[Counter[int], float]:
        async with controlling(server.url) as controller:
            key = _key(controller)
            before = resident_mib(server.process.pid)
            os.kill(server.engine, signal.SIGSTOP)
            try:
                with ThreadPoolExecutor(MOST_AT_ONCE + 4) as senders:
                    jobs = [senders.submit(_post, server.port, key) for _ in range(UPLOADS)]
                    refused = UPLOADS - MOST_AT_ONCE
                    await asyncio.to_thread(_until, lambda: sum(job.done() for job in jobs) >= refused, 60.0)
                    grown_mib = resident_mib(server.process.pid) - before
                    stopped = Counter(job.result() for job in jobs if job.done())
                    os.kill(server.engine, signal.SIGCONT)
            finally:
                os.kill(server.engine, signal.SIGCONT)
            return stopped, grown_mib

    with serving(write_project(folder, MODEL)) as server:
        answers, grown_mib = asyncio.run(send(server))
    taken, refused = answers[201], answers[429]
    fault = taken > 0 or refused < UPLOADS - MOST_AT_ONCE or grown_mib > 64
    figure = f"{taken} taken, {refused} refused"
    yield Row(f"{UPLOADS} files, engine stopped: {grown_mib:.0f} MiB more", figure, "0 taken, 64 MiB", fault)


def closed_pipe(folder: Path) -> Iterator[Row]:
    """Print 100,000 lines in a handler, with JSON logs into a closed pipe."""
    project = write_project(folder, MODEL)
    command = [sys.executable, "-P", "-m", "reactor_cli", "run", str(project), "--port", "0", "--log-format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
    assert process.stdout is not None, "stdout is a pipe"
    url = ""
    for line in process.stdout:
        if found := re.search(rb"127\.0\.0\.1:(\d+)", line):
            url = f"ws://127.0.0.1:{found[1].decode()}/ws"
        if b"ready in" in line:
            break
    process.stdout.close()
    try:
        began = time.monotonic()
        asyncio.run(_send(url, "talk", lines=PRINTS))
        seconds = time.monotonic() - began
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
    yield Row(f"{PRINTS} prints, JSON logs, closed pipe", f"reply after {seconds:.1f} s", "at most 60 s", seconds > 60)


ATTACKS = (printing_threads, panics, orphans, events, idle_emitter, uploads, closed_pipe)


async def _send(url: str, event: str, **values: object) -> None:
    async with asyncio.timeout(PATIENCE_S), connect(url) as session:
        await session.send(event, **values)


async def _notify(session: Session, event: str, per_s: int, seconds: float) -> int:
    """Send an event at a fixed rate; return how many were sent."""
    began, sent = time.monotonic(), 0
    while (elapsed_s := time.monotonic() - began) < seconds:
        while sent < elapsed_s * per_s:
            session.notify(event)
            sent += 1
        await asyncio.sleep(0.005)
    return sent


def _key(controller: WireClient) -> str:
    (welcome,) = [text["data"] for text in controller.texts if text["type"] == "reactor.welcome"]
    return str(welcome["upload_key"])


def _post(port: int, key: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST", f"/uploads?{urlencode({'key': key})}", bytes(UPLOAD_BYTES))
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status != 201 or json.loads(body)["upload"], "an accepted file has an id"
        return answer.status
    finally:
        connection.close()


def _until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait until a condition is true, at most `seconds`; return how long that took."""
    began = time.monotonic()
    while not condition() and time.monotonic() - began < seconds:
        time.sleep(0.02)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
