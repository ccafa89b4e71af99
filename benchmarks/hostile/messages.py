"""`python -m benchmarks.hostile.messages`: messages that cost the server more than the client that sends them.

For each attack a controller measures its frames and pings for a few seconds without and then with the attack.
Prints a row for each attack; exits with 1 when frames are fewer by 3 %, one in a hundred pings takes 10 ms, or the
server needs more memory than the attack may cost. Run it on an otherwise idle machine.

The attacker runs on this machine, on Linux at idle priority: it uses a core only while nothing else does, so that a row
shows the work of the server and not the competition for cores. Ignore rows whose values without the attack are bad.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from websockets.frames import Frame, Opcode

from benchmarks.client_process import ClientGroup, Report, client_processes, measure_all
from benchmarks.server_process import resident_mib
from tests.server.running import RunningServer, listening, write_project

MODEL = """
class MyState(InputState):
    level: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        image = np.random.default_rng(1).integers(0, 255, (360, 640, 3), np.uint8)
        while True:
            yield image
"""
SESSIONS = 2
SECONDS = 8.0
RAMP_S = 2.0
VICTIM = ClientGroup(role="controller", count=1, pings=True)
LEAST_FRAMES = 0.97
MOST_PING_S = 0.010
AGAIN_S = 0.2
NICE = 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Attack:
    """Clients that send the same message repeatedly; `most_mib` is the memory that they may cost the server."""

    about: str
    clients: int
    message: Callable[[], bytes]
    query: str = "role=viewer"
    reads: bool = True
    once: bool = False
    most_mib: float = 40.0


def _text(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=True)


def _array(size: int) -> bytes:
    numbers = ",".join("1" for _ in range((size - 40) // 2))
    return _text(f'{{"type":"a","data":{{"x":[{numbers}]}}}}')


def _names() -> bytes:
    names = ",".join('"a"' for _ in range(65_000))
    return _text(f'{{"type":"reactor.view","data":{{"tracks":[{names}]}}}}')


def _image() -> bytes:
    return Frame(Opcode.BINARY, b"\xff\xd8" + bytes(16 * MIB - 2)).serialize(mask=True)


def _echoed() -> bytes:
    return _text(f'{{"type":"{"é" * 128}","id":"{"é" * 128}"}}') * 200


CONTROLS = "role=controller"
ATTACKS = {
    "text": Attack("10 viewers send arrays of 4 KB", 10, lambda: _array(4000) * 16),
    "small": Attack("10 viewers send small events", 10, lambda: _text('{"type":"a"}') * 200),
    "large-text": Attack("10 viewers send arrays of 260 KB", 10, lambda: _array(260_000)),
    "media": Attack("10 viewers send 16 MiB", 10, _image),
    "view": Attack("10 viewers select 65,000 tracks", 10, _names),
    "other-text": Attack("another session's controller sends arrays of 256 KiB", 1, lambda: _array(262_000), CONTROLS),
    "other-media": Attack("another session's controller sends 16 MiB", 1, _image, CONTROLS, most_mib=120.0),
    "other-view": Attack("another session's controller selects 65,000 tracks", 1, _names, CONTROLS),
    "waiting-text": Attack("10 waiting controllers send arrays of 256 KiB", 11, lambda: _array(262_000), CONTROLS),
    "waiting-media": Attack("10 waiting controllers send 16 MiB", 11, _image, CONTROLS, most_mib=120.0),
    "unfinished": Attack("60 viewers send 16 MiB but for a byte", 60, lambda: _image()[:-1], once=True),
    "unfinished-text": Attack("60 viewers send text but for a byte", 60, lambda: _array(4000)[:-1], once=True),
    "unread": Attack("10 viewers read no replies", 10, _echoed, reads=False, most_mib=80.0),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile.messages", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ATTACKS], help=f"of {', '.join(ATTACKS)}; none: all")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to repeat the attacks (once)")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or list(ATTACKS)
    if arguments.port is not None:
        asyncio.run(_attack(arguments.port, ATTACKS[names[0]]))
    until = time.monotonic() + 60 * arguments.minutes
    faults = 0
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as server:
        _say(f"{'attack':<54}{'frames/s':>16}{'ping p99 ms':>16}{'MiB':>14}")
        while True:
            faults += sum(_row(server, name) for name in names)
            if time.monotonic() > until:
                break
        server.stop()
        if "Traceback" in server.log:
            _say("FAULT a traceback in the log")
            faults += 1
    _say(f"{faults} faults" if faults else "no fault")
    return bool(faults)


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[RunningServer]:
    project = write_project(folder, MODEL)
    with listening(project, "--sessions", str(SESSIONS), "--log-level", "warning") as server:
        server.wait_for(rf"^ready {SESSIONS} of {SESSIONS} in")
        yield server


def _row(server: RunningServer, name: str) -> bool:
    """Measure without and with an attack; return whether it affected the controller or the memory."""
    attack = ATTACKS[name]
    with client_processes(server.port, VICTIM) as started:
        (quiet,), _ = measure_all(started, SECONDS, ())
    before = resident_mib(server.process.pid)
    with client_processes(server.port, VICTIM) as started, _attacking(server, name):
        time.sleep(RAMP_S)
        (during,), _ = measure_all(started, SECONDS, ())
        grown = resident_mib(server.process.pid) - before
    frames = _frames_per_s(quiet), _frames_per_s(during)
    pings = _ping_p99_s(quiet), _ping_p99_s(during)
    wrong = [
        what
        for what, is_wrong in (
            ("frames", frames[1] < LEAST_FRAMES * frames[0]),
            ("ping", pings[1] > MOST_PING_S),
            ("memory", grown > attack.most_mib),
        )
        if is_wrong
    ]
    _say(
        f"{attack.about:<54}{frames[0]:>7.2f} → {frames[1]:>5.2f}{1e3 * pings[0]:>9.1f} → {1e3 * pings[1]:>5.1f}"
        f"{grown:>6.0f} of {attack.most_mib:>3.0f}" + (f"  FAULT {', '.join(wrong)}" if wrong else "")
    )
    return bool(wrong)


def _frames_per_s(report: Report) -> float:
    (ats,) = report.ats
    return (len(ats) - 1) / (ats[-1] - ats[0])


def _ping_p99_s(report: Report) -> float:
    pings = sorted(report.pings_s)
    return pings[int(len(pings) * 0.99)]


@contextlib.contextmanager
def _attacking(server: RunningServer, name: str) -> Iterator[None]:
    command = [sys.executable, "-m", __spec__.name, name, "--port", str(server.port)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def _attack(port: int, attack: Attack) -> None:
    _yield_the_cores()
    message = attack.message()
    async with asyncio.TaskGroup() as group:
        for _ in range(attack.clients):
            group.create_task(_attack_again(port, attack, message))


def _yield_the_cores() -> None:
    """Run only on a core that is idle, because a real attacker has a machine of its own."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(NICE)


async def _attack_again(port: int, attack: Attack, message: bytes) -> None:
    while True:
        with contextlib.suppress(OSError):
            await _attack_once(port, attack, message)
        await asyncio.sleep(AGAIN_S)


async def _attack_once(port: int, attack: Attack, message: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /ws?{attack.query} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.create_task(_read(reader)) if attack.reads else None
    try:
        while not writer.is_closing():
            writer.write(message)
            await writer.drain()
            if attack.once:
                await _read(reader)
                return
            await asyncio.sleep(0)
    finally:
        if reading is not None:
            reading.cancel()
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(MIB):
        pass


def _say(line: str) -> None:
    sys.stdout.write(f"{line}{os.linesep}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
