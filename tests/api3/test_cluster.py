"""Programs for 3.x on a cluster: a front and workers, which are processes of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.api3.test_app import copied, png, shown, upload
from tests.api3.test_sessions import project
from tests.cluster.front import Front, running_front
from tests.server.client import WireClient, client, controlling
from tests.timeouts import TIMEOUT_S


async def until_offered(front: Front) -> None:
    """Wait until the front knows that the controller has left its session."""
    (slot,) = front.slots
    async with asyncio.timeout(TIMEOUT_S):
        while slot.session is None or not any(seat.offered for seat in slot.session.seats.values()):  # noqa: ASYNC110  (no event reports it)
            await asyncio.sleep(0.01)


async def at_worker(front: Front, resume: str = "") -> tuple[str, dict[str, str]]:
    """Return the address and the ticket with which a controller connects to its worker."""
    resuming = {"resume": resume} if resume else {}
    async with client(front.url, redirect="1", **resuming) as waiting:
        redirect = await waiting.data("reactor.redirect")
    return redirect["url"].replace("http", "ws", 1) + "/ws", {"ticket": redirect["ticket"], **resuming}


@pytest.mark.parametrize("is_redirected", [False, True], ids=["relayed", "redirected"])
async def test_a_session_is_kept_for_its_controller(is_redirected: bool, tmp_path: Path) -> None:
    async with running_front(project(tmp_path, "pipeline")) as front:
        url, query = await at_worker(front) if is_redirected else (front.url, {})
        async with client(url, **query) as controller:
            welcome = await controller.data("reactor.welcome", role="controller")
            assert welcome["limits"]["resume_grace_s"] == 60
            await controller.ask("set_level", {"level": 99})
        await until_offered(front)
        resume = welcome["resume"]
        url, query = await at_worker(front, resume) if is_redirected else (front.url, {"resume": resume})
        async with client(url, **query) as again:
            welcome = await again.data("reactor.welcome", role="controller")
            assert (welcome["session"], welcome["state"]) == (front.slots[0].session.id, {"level": 99})  # type: ignore[union-attr]
            assert (await again.data("snapshot"))["level"] == 99
            async with client(front.url) as waiting:
                await waiting.data("reactor.queue", position=1)
                await again.socket.close()
                # It ends for the next controller, which gets a session of its own.
                assert (await waiting.data("reactor.welcome", role="controller"))["state"] == {"level": 50}


async def seed_sent(front: Front, controller: WireClient) -> None:
    image = await asyncio.to_thread(upload, front, controller, png(40), "seed.png")
    assert (await controller.ask("set_seed_image", {"image": image}))["type"] == "reactor.reply"


async def test_an_app_gets_its_files_and_restarts_after_a_crash(tmp_path: Path) -> None:
    async with running_front(copied("seed_app", tmp_path)) as front:
        async with controlling(front.url) as controller:
            await seed_sent(front, controller)
            await shown(controller, 40)
            await controller.ask("set_level", {"level": 60})
            await shown(controller, 100)
            await controller.send("fail", {"where": "output"})
            assert (await controller.data("reactor.error"))["code"] == "model_error"
            assert (await controller.closed())[0] == 1011
        async with controlling(front.url) as controller:
            await seed_sent(front, controller)
            await shown(controller, 40)
