"""Clients that a front relays, whose connection to the worker breaks, or whose worker stops."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

from reactor_runtime.cluster.front import worker_engine
from reactor_runtime.cluster.front.relay import Relay
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.protocol import MAX_VIEWER_BYTES
from tests.cluster.front import MODEL, running_front, socket_of
from tests.cluster.test_worker_socket import worker
from tests.server.client import client, controlling, picture
from tests.server.running import reserved_port, write_project
from tests.timeouts import TIMEOUT_S

NOISE = """
class MyState(InputState): ...


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield np.random.default_rng().integers(0, 255, (256, 256, 3), np.uint8)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


def break_relay(relay: Relay | None) -> None:
    """Break the connection to the worker, as a network does."""
    assert relay is not None
    relay._socket.abort()


def break_controllers(slot: WorkerSlot) -> None:
    assert slot.session is not None
    break_relay(slot.session.seats[0].relay)


async def test_a_session_goes_on_when_the_connection_to_its_worker_breaks(project: Path) -> None:
    limits = TurnLimits(resume_grace_s=TIMEOUT_S)
    async with running_front(project, limits=limits) as front, controlling(front.url) as controller:
        await controller.ask("set_level", {"level": 50})
        break_controllers(front.slots[0])
        assert (await controller.data("reactor.welcome"))["state"] == {"level": 50}
        await controller.data("reactor.session", phase="resumed")
        assert abs((await controller.frame(applied=1)).level - 50) < 3


async def test_a_session_that_can_not_be_resumed_ends_at_once_at_its_worker(project: Path) -> None:
    limits = TurnLimits(resume_grace_s=TIMEOUT_S)
    async with running_front(project, limits=limits) as front, controlling(front.url) as controller:
        (slot,) = front.slots
        with reserved_port() as closed:
            address, slot._access.address = slot._access.address, f"http://127.0.0.1:{closed}"
            break_controllers(slot)
            await controller.data("reactor.session", phase="lost")
        slot._access.address = address
        await controller.data("reactor.session", phase="started")
        assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
        assert (slot.losses, slot.failed_in_a_row) == (0, 1)


async def test_a_worker_that_accepts_and_breaks_again_at_once_is_not_tried_forever(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_engine, "RELAY_PAUSE_S", TIMEOUT_S)
    connections = 0

    async def accept_and_break(connection: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        connection.transport.abort()

    limits = TurnLimits(resume_grace_s=TIMEOUT_S)
    async with running_front(project, limits=limits) as front, controlling(front.url) as controller:
        (slot,) = front.slots
        async with worker(accept_and_break) as url:
            slot._access.address = url.removesuffix("/ws").replace("ws", "http", 1)
            break_controllers(slot)
            await controller.data("reactor.session", phase="lost")
            assert connections == 1


async def test_a_client_whose_worker_begins_to_stop_when_it_comes_gets_another_session(project: Path) -> None:
    async with running_front(project) as front:
        (slot,) = front.slots
        address = slot._access.address

        async def refuse(connection: ServerConnection) -> None:
            slot._access.address = address
            await connection.close(1001, "the server is stopping")

        async with worker(refuse) as url:
            slot._access.address = url.removesuffix("/ws").replace("ws", "http", 1)
            async with client(front.url) as controller:
                await controller.data("reactor.session", phase="lost")
                await controller.data("reactor.session", phase="started")


async def test_a_client_whose_connection_to_the_worker_breaks_without_a_grace_period_has_another_session(
    project: Path,
) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        break_controllers(front.slots[0])
        await controller.data("reactor.session", phase="lost")
        await controller.data("reactor.session", phase="started")
        await controller.frame()


async def test_a_viewer_that_loses_its_connection_to_the_worker_affects_nobody_else(project: Path) -> None:
    async with (
        running_front(project) as front,
        controlling(front.url) as controller,
        client(front.url, role="viewer") as viewer,
    ):
        await viewer.frame()
        (slot,) = front.slots
        (relay,) = slot.subscribers._relays.values()
        break_relay(relay)
        await viewer.data("reactor.welcome")
        assert slot.engine.phase is EnginePhase.READY
        await viewer.frame()
        await controller.frame()


async def test_a_client_that_reads_nothing_skips_frames_and_delays_no_other_of_its_worker(tmp_path: Path) -> None:
    project = write_project(tmp_path / "noise", NOISE)
    async with (
        running_front(project) as front,
        controlling(front.url) as fast,
        client(front.url, role="viewer") as slow,
    ):
        first = (await slow.frame()).header.seq
        slow.socket.transport.pause_reading()
        while (newest := (await fast.frame()).header.seq) < first + 60:
            pass
        slow.socket.transport.resume_reading()
        received = 0
        while (await slow.frame()).header.seq < newest:
            received += 1
        assert received < 30


async def test_a_client_that_paused_while_it_waited_gets_frames_when_it_asks_for_them(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as first, client(front.url) as second:
        await second.data("reactor.queue", position=1)
        await second.send("reactor.view", {"paused": True})
        # The answer to what follows the view.
        await second.ask("set_level", {"level": 1})
        await first.socket.close()
        await second.data("reactor.session", phase="started")
        await second.ask("set_level", {"level": 50})
        assert second.frames == 0
        await second.send("reactor.view", {"paused": False})
        assert abs((await second.frame(applied=1)).level - 50) < 3


async def test_the_view_of_a_client_holds_at_its_next_worker(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        await controller.send("reactor.view", {"paused": True})
        await controller.ask("set_level", {"level": 50})
        front.kill(front.slots[0])
        await controller.data("reactor.session", phase="lost")
        before = controller.frames
        await controller.data("reactor.session", phase="started")
        await controller.ask("set_level", {"level": 50})
        assert controller.frames == before


async def test_a_client_that_watches_while_it_waits_sends_nothing_to_the_model(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as first, client(front.url, watch="1") as second:
        await second.frame()
        large = "x" * (MAX_VIEWER_BYTES + 1)
        for message in (picture(1) + bytes(MAX_VIEWER_BYTES), json.dumps({"type": "say", "data": {"text": large}})):
            await second.socket.send(message)
            assert (await second.data("reactor.error"))["message"] == "wait for your turn: the message was dropped"
        refused = await second.ask("set_level", {"level": 1})
        assert refused["data"]["message"] == "wait for your turn: set_level changed nothing"
        await second.send("reactor.ping", {"t": 1})
        assert "server_us" in await second.data("reactor.pong", t=1)
        await first.socket.close()
        await second.data("reactor.session", phase="started")
        assert (await second.ask("set_level", {"level": 50}))["data"] == {"n": 1}


async def test_a_client_that_may_not_watch_while_it_waits_keeps_its_position(project: Path) -> None:
    async with (
        running_front(project, max_viewers=1) as front,
        controlling(front.url) as first,
        client(front.url, role="viewer", redirect="1") as viewer,
    ):
        redirect = await viewer.data("reactor.redirect")
        async with client(socket_of(redirect), ticket=redirect["ticket"]) as watching:
            await watching.frame()
            async with client(front.url, watch="1") as second:
                await second.data("reactor.queue", position=1)
                (slot,) = front.slots
                async with asyncio.timeout(TIMEOUT_S):
                    while slot.subscribers.clients:  # noqa: ASYNC110  (no event reports it)
                        await asyncio.sleep(0.01)
                await first.socket.close()
                await second.data("reactor.session", phase="started")
                await second.frame()


async def test_a_client_is_closed_after_its_session_though_its_connection_to_the_worker_stays(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        (slot,) = front.slots
        async with asyncio.timeout(TIMEOUT_S):
            while slot.status is None or slot.status.session is None:  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.01)
        slot.on_status(replace(slot.status, session=None), (), has_returned=False)
        assert await controller.closed() == (1000, "the session is over")


async def test_a_worker_gets_no_more_waiting_clients_than_viewers(project: Path) -> None:
    async with (
        running_front(project, max_viewers=1) as front,
        controlling(front.url),
        client(front.url, watch="1") as second,
        client(front.url, watch="1") as third,
    ):
        await second.frame()
        await third.data("reactor.queue", position=2)
        assert len(front.slots[0].subscribers.clients) == 1
        await second.socket.close()
        await third.data("reactor.queue", position=1)


async def test_a_client_that_waits_gets_no_start_and_no_end_of_the_sessions_of_others(project: Path) -> None:
    async with (
        running_front(project) as front,
        controlling(front.url) as first,
        client(front.url) as second,
        client(front.url, watch="1") as third,
    ):
        await third.place(position=2)
        before = await third.data("reactor.welcome")
        await third.frame()
        await first.socket.close()
        after = await third.data("reactor.welcome")
        assert after["session"] == (await second.data("reactor.session", phase="started"))["session"]
        assert before["session"] not in (None, after["session"])
        await third.frame()
        await second.socket.close()
        own = await third.data("reactor.session")
        assert (own["phase"], own["session"] in (before["session"], after["session"])) == ("started", False)
        welcomes = [text["data"]["role"] for text in third.texts if text["type"] == "reactor.welcome"]
        assert welcomes == ["viewer", "viewer", "controller"]
        assert [text["type"] for text in third.texts].count("reactor.session") == 1


async def test_a_client_that_waits_keeps_its_connection_when_the_front_learns_late_of_the_start(project: Path) -> None:
    async with (
        running_front(project, max_viewers=1) as front,
        controlling(front.url),
        client(front.url, watch="1") as second,
    ):
        await second.frame()
        (slot,) = front.slots
        (watching,) = slot.subscribers.clients
        relay = watching.upstream
        assert relay is not None
        async with asyncio.timeout(TIMEOUT_S):
            while not slot.has_started:  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.01)
        assert slot.status is not None
        slot.on_status(slot.status, (), has_returned=True)
        assert watching.upstream is relay


async def test_viewers_go_on_with_the_next_worker_when_theirs_stops(project: Path) -> None:
    async with running_front(project) as front, client(front.url, role="viewer") as viewer:
        await viewer.data("reactor.welcome")
        front.placement.processes[front.slots[0].worker].send_signal(signal.SIGINT)
        await viewer.data("reactor.welcome")
        async with controlling(front.url):
            await viewer.frame()


async def test_a_session_that_goes_on_at_its_worker_has_no_controller_at_the_front(project: Path) -> None:
    limits = TurnLimits(resume_grace_s=TIMEOUT_S)
    async with running_front(project, limits=limits) as front, client(front.url) as controller:
        secret = (await controller.data("reactor.welcome"))["resume"]
        await controller.data("reactor.session", phase="started")
        async with client(front.url, resume=secret, redirect="1") as back:
            await back.data("reactor.redirect")
            session = front.slots[0].session
            assert session is not None
            assert (session.seats[0].relay, session.controllers) == (None, [])
            assert (await controller.closed())[1] == "the session goes on over another connection"
