from __future__ import annotations

from typing import Any

import pytest

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.serve import relays_all_clients
from reactor_runtime.cluster.options import ClusterOptions
from reactor_runtime.server.options import Access, ServeOptions
from tests.cluster.simulation import MANIFEST

BEHIND_PROXY = Access(proxies=("127.0.0.1",))


@pytest.mark.parametrize(
    ("of_server", "of_cluster", "relays"),
    [
        ({}, {}, False),
        ({"host": "0.0.0.0"}, {}, True),
        ({"host": "10.0.0.5"}, {}, True),
        ({"access": BEHIND_PROXY}, {}, True),
        ({"host": "0.0.0.0"}, {"address": "auto"}, False),
        ({"host": "0.0.0.0", "access": BEHIND_PROXY}, {"worker_url": "https://example.org/{port}"}, False),
        ({}, {"address": "auto", "relays_all": True}, True),
    ],
    ids=["this machine", "any address", "an address", "a proxy", "a cluster", "a proxy for workers", "--relay"],
)
def test_clients_of_other_machines_are_relayed_to_workers_on_loopback(
    of_server: dict[str, Any], of_cluster: dict[str, Any], relays: bool
) -> None:
    options = ServeOptions(manifest=MANIFEST, config={}, **of_server)
    cluster = ClusterOptions(name="test", scaling=Scaling(least=1, most=1), **of_cluster)
    assert relays_all_clients(options, cluster) is relays
