"""How many frames of an input track a model wants, and which clients get that number."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client import Session, connect
from reactor_runtime.ipc.messages import InputsTaken
from reactor_runtime.server.delivery.client import Role
from reactor_runtime.server.sessions.input_demand import InputDemand
from tests.server.admission_fixture import AdmissionFixture, told
from tests.server.running import serving, write_project
from tests.timeouts import TIMEOUT_S


def counts(
    at: float, came: int, taken: int, missed: int = 0, *, session: str = "s-1", track: str = "camera"
) -> InputsTaken:
    return InputsTaken(session, track, at, came, taken, missed)


@pytest.mark.parametrize(
    ("came", "taken", "missed", "wanted"),
    [(30, 8, 0, 14.0), (30, 0, 0, 4.0), (30, 24, 0, 34.0), (14, 14, 14, None), (14, 9, 3, None), (30, 8, 2, 14.0)],
    ids=["slow", "not reading", "nearly all", "waiting for each", "just became faster", "slow with jitter"],
)
def test_slightly_more_is_wanted_than_is_taken_and_all_where_the_model_waits(
    came: int, taken: int, missed: int, wanted: float | None
) -> None:
    demand = InputDemand()
    demand.record(counts(10.0, 1, 0))
    demand.record(counts(11.0, 1 + came, taken, missed))
    assert demand.rates() == {"camera": {"came": came, "taken": taken, "wanted": wanted}}


def test_rates_are_those_since_the_last_call_by_the_engine_s_clock() -> None:
    demand = InputDemand()
    demand.record(counts(10.0, 1, 0))
    demand.record(counts(10.8, 25, 8))
    assert demand.rates()["camera"]["came"] == 30.0
    demand.record(counts(11.1, 31, 12))
    demand.record(counts(12.05, 56, 18))
    assert demand.rates() == {"camera": {"came": 24.8, "taken": 8.0, "wanted": 14.0}}


def test_a_track_without_reports_has_no_rates_and_starts_again() -> None:
    demand = InputDemand()
    demand.record(counts(10.0, 1, 0))
    assert demand.rates() == {}
    demand.record(counts(10.3, 10, 3))
    assert demand.rates()["camera"]["taken"] == 10.0
    assert demand.rates() == {}
    demand.record(counts(70.0, 11, 3))
    assert demand.rates() == {}
    demand.record(counts(70.5, 26, 5))
    assert demand.rates() == {"camera": {"came": 30.0, "taken": 4.0, "wanted": 9.0}}


def test_each_track_has_its_own_rates() -> None:
    demand = InputDemand()
    for at, came in ((10.0, 1), (11.0, 11)):
        demand.record(counts(at, came, 0))
        demand.record(counts(at, 2 * came, came, track="depth"))
    assert {track: each["taken"] for track, each in demand.rates().items()} == {"camera": 0.0, "depth": 10.0}


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture()
    yield services
    os.close(services.memory)


@pytest.mark.parametrize("shared", [False, True])
async def test_clients_that_may_send_get_the_rates_and_only_while_frames_come(
    shared: bool, services: AdmissionFixture
) -> None:
    assert services.engine.contract is not None
    services.engine.contract |= {"shared": shared}
    controller, viewer = services.come(), services.come(Role.VIEWER)
    session = services.begin()
    services.say(counts(10.0, 1, 0, session=session))
    services.say(counts(11.0, 31, 8, session=session))
    for _ in range(2):
        services.slot.send_statistics(services.clock.now())
    metrics = [
        [data.get("inputs") for kind, data in await told(each) if kind == "reactor.stats"]
        for each in (controller, viewer)
    ]
    rates = {"camera": {"came": 30.0, "taken": 8.0, "wanted": 14.0}}
    assert metrics == [[rates, None], [rates if shared else None, None]]


MODEL = """
class Eyes(Input):
    camera: Video


class MyState(InputState):
    step_s: float = 0.25


class MyModel(ReactorPipeline):
    state: MyState
    input: Eyes
    output: MyOutput
    fps = 60

    async def inference(self):
        while True:
            [picture] = await self.input.camera.read()
            time.sleep(self.state.step_s)
            yield gray(100)
"""


async def wanted(session: Session, *, everything: bool) -> dict[str, Any]:
    """Send 40 frames a second until the server wants all of them, or fewer; return its rates."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        session.publish("camera", np.full((16, 16, 3), 90, np.uint8))
        await asyncio.sleep(0.025)
        metrics: dict[str, Any] = session.stats.get("inputs", {}).get("camera", {})
        if metrics and (metrics["wanted"] is None) is everything:
            return metrics
    raise AssertionError(f"the last statistics are {session.stats}")


async def test_a_slow_model_wants_few_frames_and_all_as_soon_as_it_is_fast(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        server.wait_for_health("ready")
        async with connect(f"http://127.0.0.1:{server.port}") as session:
            slow = await wanted(session, everything=False)
            assert slow["taken"] < slow["wanted"] <= 1.25 * slow["taken"] + 4.1
            await session.send("set_step_s", step_s=0)
            await wanted(session, everything=True)
