"""Which clients a front sends to a worker, and which it relays."""

from __future__ import annotations

import pytest

from reactor_runtime.clock import SystemClock
from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.placement.placement import WorkerPlaced
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions

INTERNET, OFFICE = "203.0.114.7", "10.2.3.4"


@pytest.mark.parametrize(
    ("url", "address", "redirects"),
    [
        ("https://gpu-1.models.example", INTERNET, True),
        ("https://9.9.9.9:8443", INTERNET, True),
        ("http://10.0.0.5:8080", OFFICE, True),
        ("http://127.0.0.1:8080", "127.0.0.1", True),
        ("http://10.0.0.5:8080", INTERNET, False),
        ("https://192.168.1.4:8443", INTERNET, False),
        ("http://[fd00::5]:8080", "2a00:1450::1", False),
        ("http://box.local:8080", INTERNET, False),
        ("http://localhost:8080", INTERNET, False),
    ],
)
def test_clients_of_the_internet_are_relayed_from_private_workers(url: str, address: str, redirects: bool) -> None:
    access = WorkerAccess("w-1", TicketIssuer("secret", "test", "f-1"), relays_all=False)
    access.set_place(WorkerPlaced("w-1", url, url, "node-1"))
    assert (
        access.redirects(Client(Role.CONTROLLER, address, ClientOptions(SystemClock()), follows_redirects=True))
        == redirects
    )


def test_clients_that_follow_no_redirects_are_relayed() -> None:
    access = WorkerAccess("w-1", TicketIssuer("secret", "test", "f-1"), relays_all=False)
    access.set_place(WorkerPlaced("w-1", "https://gpu-1.models.example", "", "node-1"))
    assert not access.redirects(Client(Role.CONTROLLER, INTERNET, ClientOptions(SystemClock())))
