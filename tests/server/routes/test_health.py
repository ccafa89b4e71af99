"""`/health` and `/ready` in each state of a server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reactor_runtime.server.routes.health import SERVING, health_status, why_not_ready
from reactor_runtime.server.workers.engine import EnginePhase
from tests.server.admission_fixture import AdmissionFixture


def loading(services: AdmissionFixture) -> None:
    services.engine.phase = EnginePhase.LOADING


def ready(services: AdmissionFixture) -> None:
    """Do nothing: the server is in this state."""


def busy(services: AdmissionFixture) -> None:
    services.come()
    services.begin()


def full(services: AdmissionFixture) -> None:
    busy(services)
    for host in range(2):
        services.come(address=f"10.0.0.{host}")


def full_of_one_address(services: AdmissionFixture) -> None:
    busy(services)
    for _ in range(2):
        services.come()


def letting_go(services: AdmissionFixture) -> None:
    controller = services.come()
    services.begin()
    services.admission.detach(controller)


def draining(services: AdmissionFixture) -> None:
    busy(services)
    services.admission.drain(10.0)


def restarting(services: AdmissionFixture) -> None:
    busy(services)
    services.crash()


def failing_to_load_again(services: AdmissionFixture) -> None:
    restarting(services)
    services.engine.failed_loads = 1


def failing(services: AdmissionFixture) -> None:
    for _ in range(3):
        services.come()
        services.begin()
        services.end("no")


def failed_but_in_use(services: AdmissionFixture) -> None:
    failing(services)
    busy(services)


def given_up(services: AdmissionFixture) -> None:
    services.engine.phase = EnginePhase.FAILED


@pytest.mark.parametrize(
    ("come_about", "health", "answer"),
    [
        (loading, "loading", "loading"),
        (ready, "ready", ""),
        (busy, "busy", ""),
        (full, "busy", "full"),
        (full_of_one_address, "busy", ""),
        (letting_go, "stopping", "stopping"),
        (draining, "stopping", "stopping"),
        (restarting, "loading", "loading"),
        (failing_to_load_again, "failed", "failed"),
        (failing, "failed", "failed"),
        (failed_but_in_use, "busy", ""),
        (given_up, "failed", "failed"),
    ],
)
async def test_each_state_has_its_health_and_readiness(
    come_about: Callable[[AdmissionFixture], None], health: str, answer: str
) -> None:
    services = AdmissionFixture()
    come_about(services)
    assert health_status(services.admission) == health
    assert why_not_ready(services.admission) == answer
    assert (health in SERVING) == (answer in ("", "full"))


async def test_a_busy_model_without_a_wait_queue_is_not_ready() -> None:
    services = AdmissionFixture(most_waiting=0)
    assert not why_not_ready(services.admission)
    busy(services)
    assert why_not_ready(services.admission) == "full"


async def test_a_model_is_ready_after_it_was_loaded_again() -> None:
    services = AdmissionFixture()
    failing_to_load_again(services)
    services.engine.failed_loads = 0
    services.engine.phase = EnginePhase.READY
    assert health_status(services.admission) == "ready"
