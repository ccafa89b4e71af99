"""What the tests of the server share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.server.admission_fixture import AdmissionFixture
from tests.server.counted_calls import counted_calls as counted_calls
from tests.server.running import RunningServer, serving, write_project


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of the test module's `MODEL`, for all its tests that bring none of their own."""
    with serving(write_project(tmp_path_factory.mktemp("model"), request.module.MODEL)) as server:
        yield server


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture()
    yield services
    os.close(services.memory)
