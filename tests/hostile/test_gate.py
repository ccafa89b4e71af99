"""The gate of a release in `benchmarks/hostile`: what is a fault, and that a flood reaches a server."""

from __future__ import annotations

import time

import pytest

from benchmarks.hostile.floods import ROUTES, WAYS, Flood
from benchmarks.hostile.gate import PLAIN, SHORT, TLS, Outcome
from benchmarks.hostile.victims import Seen
from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

CONTROL = Seen(frames=200, pings_s=[0.001] * 99 + [0.02])


@pytest.mark.parametrize(
    ("seen", "faults"),
    [
        (Seen(194, [0.001] * 99 + [0.029]), []),
        (Seen(193, [0.001] * 99 + [0.02]), ["96% of the frames"]),
        (Seen(200, [0.001] * 99 + [0.031]), ["pings +11 ms"]),
        (Seen(0, [5.0], lost=1), ["0% of the frames", "pings +4980 ms", "the connection was lost"]),
    ],
    ids=["within the limits", "frames", "pings", "lost"],
)
def test_a_fault_is_what_the_attacked_server_has_beyond_its_control(seen: Seen, faults: list[str]) -> None:
    assert Outcome(1000, seen, CONTROL).faults == faults


def test_every_attack_has_a_name_of_its_own() -> None:
    for attacks in (SHORT, [*PLAIN, *TLS]):
        assert len({attack.name for attack in attacks}) == len(attacks)


@pytest.mark.parametrize("way", WAYS)
def test_a_flood_is_received_and_answered(server: RunningServer, way: str) -> None:
    before = server.get("/live")
    send = WAYS[way](ROUTES["live"])
    deadline, sent = time.monotonic() + TIMEOUT_S, 0
    # A busy machine may take longer for the start of the threads.
    while not sent:
        assert time.monotonic() < deadline
        sent = Flood(server.port, send, time.monotonic() + 0.3, None).run(["127.0.0.9"])
    assert server.get("/live") == before
