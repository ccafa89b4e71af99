"""What those in line see of the session that is running, and what of their own when it is their turn."""

from __future__ import annotations

import json

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import FrameFlag
from reactor_runtime.wire.messages import Event
from tests.fakes import jpeg_frame
from tests.server.admission_fixture import AdmissionFixture, drain, told


async def seen(client: Client) -> list[tuple[int, bool]]:
    """Take what waits for a client, and tell number and mark of each picture among it."""
    headers = [detach(item)[0] for item in await drain(client.outbox) if isinstance(item, bytes)]
    return [(header.seq, bool(header.flags & FrameFlag.HELD)) for header in headers if header is not None]


async def roles(client: Client) -> list[tuple[str, str]]:
    """Tell as what a client was welcomed, and what it heard of sessions."""
    spoken = {"reactor.welcome": "role", "reactor.session": "phase"}
    return [(kind, data[spoken[kind]]) for kind, data in await told(client) if kind in spoken]


async def test_who_waits_sees_what_is_on_screen_and_all_that_follows(services: AdmissionFixture) -> None:
    services.come()
    services.begin(level=3)
    services.subscribers.show_frame(jpeg_frame(1))
    waiting = services.come(watches=True)
    assert await seen(waiting) == [(1, True)]
    services.subscribers.show_frame(jpeg_frame(2))
    services.say(ipc.StateChanged(services.session, {"level": 4}))
    services.say(ipc.MessageSent(services.session, "progress", {"step": 1}))
    *_, (kind, state), said = await told(waiting)
    assert (kind, state, said) == ("reactor.state", {"level": 4}, ("progress", {"step": 1}))
    (_, welcome) = (await told(services.come(watches=True)))[-1]
    assert (welcome["role"], welcome["session"], welcome["state"]) == ("viewer", services.session, {"level": 4})


async def test_who_waits_without_watching_is_told_its_place_and_nothing_of_the_others(
    services: AdmissionFixture,
) -> None:
    services.come()
    services.begin()
    waiting = services.come()
    services.subscribers.show_frame(jpeg_frame(1))
    services.say(ipc.MessageSent(services.session, "progress", {"step": 1}))
    services.slot.send_statistics(services.clock.now())
    services.end()
    assert [item if isinstance(item, bytes) else json.loads(item)["type"] for item in await drain(waiting.outbox)] == [
        "reactor.queue"
    ]


async def test_who_waits_is_welcomed_as_viewer_and_as_controller_when_it_is_its_turn(
    services: AdmissionFixture,
) -> None:
    first = services.come()
    services.begin()
    second, third = services.come(watches=True), services.come(watches=True)
    assert await roles(second) == [("reactor.welcome", "viewer")]
    assert await roles(third) == [("reactor.welcome", "viewer")]
    services.admission.detach(first)
    services.end()
    services.begin()
    assert await roles(second) == [("reactor.welcome", "controller"), ("reactor.session", "started")]
    assert await roles(third) == [("reactor.welcome", "viewer")]
    assert services.slot.session is not None
    assert services.slot.session.controller is second


async def test_a_session_that_ends_or_fails_is_no_news_to_who_waits(services: AdmissionFixture) -> None:
    services.come()
    waiting, last = services.come(watches=True), services.come(watches=True)
    services.begin()
    await told(waiting), await told(last)
    services.end("KeyError: 'x'")
    assert [kind for kind, _ in await told(waiting)] == []
    assert [kind for kind, _ in await told(last)] == ["reactor.queue"]


async def test_the_last_picture_of_the_session_watched_does_not_come_in_one_s_own(services: AdmissionFixture) -> None:
    first, second, viewer = services.come(), services.come(watches=True), services.come(Role.VIEWER)
    services.begin()
    services.subscribers.show_frame(jpeg_frame(9))
    services.admission.detach(first)
    services.end()
    services.begin()
    services.subscribers.show_frame(jpeg_frame(0))
    assert await seen(second) == [(0, False)]
    assert await seen(viewer) == [(0, False)]


async def test_who_waits_sends_nothing_to_the_model(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    waiting = services.come()
    services.inbound.route_event(waiting, Event("set_level", "{}", 5))
    (kind, error) = (await told(waiting))[-1]
    assert (kind, error["code"]) == ("reactor.error", "not_controller")
    assert "your turn" in error["message"]


async def test_who_leaves_the_line_sees_nothing_more(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    waiting = services.come(watches=True)
    assert waiting in services.subscribers
    services.admission.detach(waiting)
    assert waiting not in services.subscribers
