"""The gate of a release: no flood of requests may take frames or pings from a client of another address.

Two servers run on this machine, and only one is flooded. A client of each, at 30 fps with a ping every 100 ms, shows
what the machine's load costs and what the server's fault is: a row is the difference. Exits with 1 if a flood leaves
fewer than 97 % of the frames of the control, or adds 10 ms to one ping in a hundred. `requests` shows how strong the
flood was, and the row "no flood" what the machine alone adds. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hostile.floods import OF_TLS, ROUTES, WAYS
from benchmarks.hostile.victims import Seen, Victims
from tests.processes import ended_after
from tests.server.running import RunningServer, write_project

LEAST_FRAMES = 0.97
MOST_PING_S = 0.010
RAMP_S = 1.0
SECONDS, SHORT_S = 8.0, 5.0
# Between two floods, so that neither connections nor budgets of one are in the way of the next.
REST_S = 1.0
FEW, MANY = 1, 4
MODEL = """
class MyState(InputState):
    level: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    output: MyOutput
    fps = 30

    def inference(self):
        image = np.random.default_rng(1).integers(0, 255, (180, 320, 3), np.uint8)
        while True:
            yield MyOutput(main_video=image)
"""
# The key whose signatures take longest.
OPENSSL = ["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "2", "-subj", "/CN=localhost"]


@dataclass(frozen=True, slots=True)
class Attack:
    """A flood of a route from a number of addresses, over TLS if `tls`; from none, it shows what the machine adds."""

    route: str
    way: str
    addresses: int = FEW
    tls: bool = False

    @property
    def name(self) -> str:
        if not self.addresses:
            return f"no flood{' tls' if self.tls else ''}"
        return f"{self.route} {self.way}{' tls' if self.tls else ''} {self.addresses}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what a flood took from the client of the attacked server, beside the client of the control."""

    requests_per_s: int
    attacked: Seen
    control: Seen

    @property
    def frames(self) -> float:
        return self.attacked.frames / max(1, self.control.frames)

    def later_s(self, share: float) -> float:
        return self.attacked.ping_s(share) - self.control.ping_s(share)

    @property
    def faults(self) -> list[str]:
        frames = [f"{self.frames:.0%} of the frames"] * (self.frames < LEAST_FRAMES)
        pings = [f"pings {1e3 * self.later_s(0.99):+.0f} ms"] * (self.later_s(0.99) > MOST_PING_S)
        return frames + pings + ["the connection was lost"] * (self.attacked.lost > 0)


OVER_TLS = {"live": ("handshakes", "connections", "chunks", "records"), "schema": ("keep-alive",)}
TLS = [
    Attack(route, way, addresses, tls=True)
    for addresses in (FEW, MANY)
    for route, ways in OVER_TLS.items()
    for way in ways
]
PLAIN = [
    Attack(route, way, addresses) for addresses in (FEW, MANY) for way in WAYS for route in ROUTES if way not in OF_TLS
]
SHORT = [
    *(Attack(route, "chunks") for route in ("live", "upload", "missing")),
    *(Attack(route, "keep-alive") for route in ("schema", "docs", "page", "metrics", "ready", "upload")),
    Attack("page", "headers"),
    Attack("live", "pipelines"),
    Attack("schema", "pipelines"),
    Attack("live", "connections"),
    Attack("live", "chunks", MANY),
    Attack("schema", "keep-alive", MANY),
    Attack("live", "connections", MANY),
    Attack("live", "handshakes", FEW, tls=True),
    Attack("live", "records", FEW, tls=True),
    Attack("schema", "keep-alive", FEW, tls=True),
    Attack("live", "handshakes", MANY, tls=True),
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help='only attacks with these words, such as "schema tls"')
    parser.add_argument("--short", action="store_true", help="the worst attacks alone, in about three minutes")
    parser.add_argument("--python", default=sys.executable, help="serve with the Reactor of this interpreter")
    options = parser.parse_args(arguments)
    attacks = SHORT if options.short else [*PLAIN, *TLS]
    attacks = [each for each in attacks if all(set(name.split()) <= set(each.name.split()) for name in options.names)]
    _say(f"{'flood':<34}{'requests/s':>11}{'frames %':>10}{'p50 ms':>9}{'p99 ms':>9}{'control p99':>13}")
    failed = 0
    for tls in (False, True):
        chosen = [each for each in attacks if each.tls is tls]
        if chosen:
            failed += _attack_all(chosen, options.python, SHORT_S if options.short else SECONDS)
    _say("no fault" if not failed else f"{failed} of {len(attacks)} floods have a fault")
    return bool(failed)


def _attack_all(attacks: Sequence[Attack], python: str, seconds: float) -> int:
    """Measure attacks on one pair of servers; return how many have a fault."""
    failed = 0
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_serving(python, tls=attacks[0].tls)) for _ in range(2)]
        scheme = "wss" if attacks[0].tls else "ws"
        urls = [f"{scheme}://127.0.0.1:{server.port}/ws" for server in servers]
        victims = stack.enter_context(Victims.connected(*urls))
        nothing = replace(attacks[0], addresses=0)
        _report(nothing, _measure(nothing, servers[0].port, victims, seconds, 0))
        for number, attack in enumerate(attacks):
            outcome = _measure(attack, servers[0].port, victims, seconds, number)
            if outcome.faults:
                # The machine may have been busy for a moment.
                time.sleep(REST_S)
                outcome = min(outcome, _measure(attack, servers[0].port, victims, seconds, number), key=_badness)
            failed += bool(outcome.faults)
            _report(attack, outcome)
            time.sleep(REST_S)
    return failed


def _measure(attack: Attack, port: int, victims: Victims, seconds: float, number: int) -> Outcome:
    # Each flood comes from addresses of its own: the server may remember the others.
    addresses = [f"127.0.{1 + number}.{1 + host}" for host in range(attack.addresses)]
    arguments = [str(port), attack.route, attack.way, str(RAMP_S + seconds), "tls" if attack.tls else "plain"]
    command = [sys.executable, "-m", "benchmarks.hostile.floods", *arguments, *addresses]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flood:
        time.sleep(RAMP_S)
        victims.begin(seconds)
        attacked, control = victims.seen()
        assert flood.stdout is not None, "it is a pipe"
        return Outcome(int(flood.stdout.read()), attacked, control)


@contextlib.contextmanager
def _serving(python: str, *, tls: bool) -> Iterator[RunningServer]:
    """Run a server that is ready."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = write_project(folder / "model", MODEL)
        arguments: list[str] = []
        if tls:
            certificate, key = folder / "own.pem", folder / "own.key"
            subprocess.run([*OPENSSL, "-out", certificate, "-keyout", key], check=True, capture_output=True)
            arguments = ["--ssl-certfile", str(certificate), "--ssl-keyfile", str(key)]
        command = [python, "-m", "reactor_cli", "run", str(project), "--port", "0", *arguments]
        output = folder / "output.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder, start_new_session=True
            )
        with ended_after(process):
            server = RunningServer(process, output)
            server.wait_for("ready in")
            yield server


def _badness(outcome: Outcome) -> tuple[int, float]:
    return len(outcome.faults), -outcome.frames


def _report(attack: Attack, outcome: Outcome) -> None:
    pings = [1e3 * outcome.later_s(share) for share in (0.5, 0.99)]
    control = 1e3 * outcome.control.ping_s(0.99)
    faults = f"   FAULT {', '.join(outcome.faults)}" if outcome.faults else ""
    _say(
        f"{attack.name:<34}{outcome.requests_per_s:>11}{100 * outcome.frames:>10.0f}"
        f"{pings[0]:>+9.1f}{pings[1]:>+9.1f}{control:>13.1f}{faults}"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
