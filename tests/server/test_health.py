"""What `/health` and `/ready` say in each state a server can be in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reactor_runtime.server.health import SERVING, health_status, why_not_ready
from reactor_runtime.server.lobby import drain
from reactor_runtime.server.supervisor import EnginePhase
from tests.server.house import House


def loading(house: House) -> None:
    house.engine.phase = EnginePhase.LOADING


def ready(house: House) -> None:
    """Do nothing: it is."""


def busy(house: House) -> None:
    house.come()
    house.begin()


def full(house: House) -> None:
    busy(house)
    for _ in range(2):
        house.come()


def letting_go(house: House) -> None:
    controller = house.come()
    house.begin()
    house.lobby.detach(controller)


def draining(house: House) -> None:
    busy(house)
    drain(house.lobby, 10.0)


def restarting(house: House) -> None:
    busy(house)
    house.engine.restarts.after_serving(60.0)
    house.crash()


def failing_to_load_again(house: House) -> None:
    restarting(house)
    house.engine.restarts.after_failed_load()


def failing(house: House) -> None:
    for _ in range(3):
        house.come()
        house.begin()
        house.end("no")


def failed_but_in_use(house: House) -> None:
    failing(house)
    busy(house)


def given_up(house: House) -> None:
    house.engine.phase = EnginePhase.FAILED


@pytest.mark.parametrize(
    ("come_about", "health", "answer"),
    [
        (loading, "loading", "loading"),
        (ready, "ready", ""),
        (busy, "busy", ""),
        (full, "busy", "full"),
        (letting_go, "stopping", "stopping"),
        (draining, "stopping", "stopping"),
        (restarting, "loading", "loading"),
        (failing_to_load_again, "failed", "failed"),
        (failing, "failed", "failed"),
        (failed_but_in_use, "busy", ""),
        (given_up, "failed", "failed"),
    ],
)
async def test_each_state_is_told(come_about: Callable[[House], None], health: str, answer: str) -> None:
    house = House()
    come_about(house)
    assert health_status(house.lobby) == health
    assert why_not_ready(house.lobby) == answer
    assert (health in SERVING) == (answer in ("", "full"))


async def test_where_nobody_may_wait_a_busy_model_is_not_ready() -> None:
    house = House(most_waiting=0)
    assert not why_not_ready(house.lobby)
    busy(house)
    assert why_not_ready(house.lobby) == "full"


async def test_a_model_that_has_been_loaded_again_is_ready() -> None:
    house = House()
    failing_to_load_again(house)
    house.engine.restarts.loaded()
    house.engine.phase = EnginePhase.READY
    assert health_status(house.lobby) == "ready"
