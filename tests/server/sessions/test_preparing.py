"""How far the model is with the first frame of a session, as its clients get it."""

from __future__ import annotations

from typing import Any

from reactor_runtime.ipc.messages import Preparing
from reactor_runtime.server.delivery.client import Client, Role
from tests.server.admission_fixture import AdmissionFixture, told


async def progress(client: Client) -> list[dict[str, Any]]:
    """Return what a client was sent of the progress since the last call."""
    return [data for _, data in await told(client) if data.get("phase") == "preparing"]


def preparing(detail: str = "", progress: float | None = None) -> dict[str, Any]:
    return {"phase": "preparing", "detail": detail, "progress": progress}


async def test_the_newest_progress_is_sent_once_and_its_end(services: AdmissionFixture) -> None:
    services.load()
    controller = services.come()
    session = services.begin()
    viewer = services.come(Role.VIEWER)
    services.say(Preparing(session, "reading", 0.25))
    services.say(Preparing(session, "compiling", 0.5))
    for _ in range(2):
        services.slot.send_progress()
    assert await progress(controller) == await progress(viewer) == [preparing("compiling", 0.5)]
    services.say(Preparing(session))
    for _ in range(2):
        services.slot.send_progress()
    assert await progress(controller) == await progress(viewer) == [preparing()]


async def test_a_client_that_comes_gets_the_progress_until_the_first_frame(services: AdmissionFixture) -> None:
    services.load()
    services.come()
    session = services.begin()
    services.say(Preparing(session, "reading"))
    assert await progress(services.come(Role.VIEWER)) == [preparing("reading")]
    services.say(Preparing(session))
    assert await progress(services.come(Role.VIEWER)) == []


async def test_a_session_without_progress_sends_none(services: AdmissionFixture) -> None:
    services.load()
    controller = services.come()
    services.begin()
    services.slot.send_progress()
    assert await progress(controller) == []
