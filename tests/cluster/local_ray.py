"""The start of a Ray on this machine, which takes long on a busy one, and may fail."""

from __future__ import annotations

import re

import pytest

from reactor_runtime.cluster.front.serve import LOCAL_STARTS
from reactor_runtime.cluster.placement.ray_placement import CONNECT_S
from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

# On a busy machine Ray takes half a minute for each of the tries to load a model.
RAY_S = 4 * TIMEOUT_S
NOT_STARTED = "Ray can't be started on this machine: "


def wait_for_local_ray(server: RunningServer) -> None:
    """Wait until a front has started Ray; skip the test if Ray has not started in time, each time that it was tried."""
    server.until(
        lambda: (
            re.search(r"worker placed|worker gone|^loading", server.log, re.MULTILINE)
            or server.log.count(NOT_STARTED) == LOCAL_STARTS
        ),
        "start of Ray",
        timeout_s=LOCAL_STARTS * CONNECT_S + TIMEOUT_S,
    )
    if server.log.count(NOT_STARTED) == LOCAL_STARTS:
        pytest.skip(f"this machine is too busy for Ray: {server.log.rpartition(NOT_STARTED)[2]}")
