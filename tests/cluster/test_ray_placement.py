"""How a placement connects to Ray: with drivers that fail, here without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from reactor_runtime.cluster.placement.driver_messages import DriverConnected, StartWorker, StopWorker, ToDriver
from reactor_runtime.cluster.placement.placement import (
    PlacementConnected,
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
    WorkerEvent,
)
from reactor_runtime.cluster.placement.ray_placement import RayPlacement, RayUnavailable
from reactor_runtime.errors import UsageError

BUSY = RayUnavailable("Ray does not start", hint="try again")
FINAL = UsageError("another version", hint="install the versions of the cluster here")


class ScriptedDriver:
    """A driver with one outcome, which follows workers until `ended` is set."""

    def __init__(self, outcome: DriverConnected | UsageError, secret: str) -> None:
        self.outcome = outcome
        self.secret = secret
        self.sent: list[ToDriver] = []
        self.killed = False
        self.ended = asyncio.Event()

    def connect(self) -> DriverConnected:
        if isinstance(self.outcome, UsageError):
            raise self.outcome
        return self.outcome

    def send(self, message: ToDriver) -> None:
        self.sent.append(message)

    async def follow(self, on_event: Callable[[WorkerEvent], None]) -> str:  # noqa: ARG002  (as declared)
        await self.ended.wait()
        return "it has ended"

    def wait(self, timeout_s: float) -> None: ...

    def kill(self) -> None:
        self.killed = True
        self.ended.set()


class Placed:
    """A placement whose drivers have the given outcomes, one after the other, and the last one from then on."""

    def __init__(self, *outcomes: DriverConnected | UsageError, attempts: int) -> None:
        self.drivers: list[ScriptedDriver] = []
        self.events: asyncio.Queue[PlacementEvent] = asyncio.Queue()
        self._outcomes: Sequence[DriverConnected | UsageError] = outcomes
        self.placement = RayPlacement(
            make_driver=self._make,
            make_job=lambda worker, secret: f"{worker} {secret}",
            attempts=attempts,
            retry_s=0.0,
        )

    def _make(self, secret: str) -> ScriptedDriver:
        number = min(len(self.drivers), len(self._outcomes) - 1)
        self.drivers.append(ScriptedDriver(self._outcomes[number], secret))
        return self.drivers[-1]

    async def run(self) -> None:
        await self.placement.run(self.events.put_nowait)


async def test_a_start_of_ray_that_fails_is_tried_once_more() -> None:
    placed = Placed(BUSY, DriverConnected((), ""), attempts=2)
    running = asyncio.create_task(placed.run())
    event = await placed.events.get()
    assert isinstance(event, PlacementConnected)
    # Without workers of an earlier front the secret is a new one.
    assert len(event.secret) == 64
    placed.placement.start("w-1")
    assert placed.drivers[-1].sent == [StartWorker("w-1", f"w-1 {event.secret}")]
    placed.placement.kill()
    await running

    failing = Placed(BUSY, attempts=2)
    with pytest.raises(UsageError, match="Ray does not start"):
        await failing.run()
    assert len(failing.drivers) == 2


async def test_a_cluster_that_can_not_be_reached_is_awaited_and_the_reason_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    placed = Placed(*[BUSY] * 20, DriverConnected(("w-1",), "secret"), attempts=0)
    running = asyncio.create_task(placed.run())
    assert await placed.events.get() == PlacementConnected(("w-1",), "secret")
    assert [record.getMessage() for record in caplog.records] == [
        "no contact with Ray, trying again: Ray does not start; try again"
    ]
    placed.placement.kill()
    await running


async def test_after_a_loss_any_error_is_awaited_and_the_next_driver_gets_the_orders_to_stop() -> None:
    connected, again = DriverConnected((), "secret"), DriverConnected(("w-1",), "")
    placed = Placed(connected, FINAL, BUSY, BUSY, again, attempts=2)
    running = asyncio.create_task(placed.run())
    await placed.events.get()
    placed.drivers[0].ended.set()
    assert isinstance(await placed.events.get(), PlacementLost)
    placed.placement.stop("w-0")
    placed.placement.start("w-2")
    assert await placed.events.get() == PlacementRestored(("w-1",))
    assert [driver.secret for driver in placed.drivers] == ["", *["secret"] * 4]
    assert placed.drivers[-1].sent == [StopWorker("w-0")]
    placed.placement.kill()
    await running


async def test_an_error_that_another_attempt_has_too_is_final() -> None:
    placed = Placed(BUSY, FINAL, attempts=0)
    with pytest.raises(UsageError, match="another version"):
        await placed.run()


@pytest.mark.parametrize("outcome", [DriverConnected((), ""), BUSY], ids=["connected", "not connected"])
async def test_a_placement_that_is_closed_ends_its_driver_and_starts_no_other(
    outcome: DriverConnected | UsageError,
) -> None:
    placed = Placed(outcome, attempts=0)
    running = asyncio.create_task(placed.run())
    while placed.events.empty() and len(placed.drivers) < 3:  # noqa: ASYNC110  (no event reports an attempt)
        await asyncio.sleep(0)
    await placed.placement.aclose()
    await running
    assert placed.drivers[-1].killed
