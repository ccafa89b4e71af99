"""A front with real workers whose sessions have several seats, and clients that meet in their rooms."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from reactor_runtime.client import Session, connect
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import SessionPhase
from tests.cluster.front import Front, redirected, running_front, socket_of
from tests.server.client import client
from tests.server.running import write_project
from tests.server.test_seats import MODEL, level, until_seats, who
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@contextlib.asynccontextmanager
async def playing(front: Front, count: int, room: str = "") -> AsyncIterator[list[Session]]:
    """Play with so many clients, which come one after the other."""
    url = f"http://127.0.0.1:{front.port}"
    async with asyncio.timeout(TIMEOUT_S), contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(url, room=room)) for _ in range(count)]


@pytest.mark.parametrize("relays_all", [False, True], ids=["redirected", "relayed"])
async def test_clients_of_a_room_are_in_the_seats_of_one_worker(project: Path, relays_all: bool) -> None:
    async with (
        running_front(project, workers=2, relays_all=relays_all) as front,
        playing(front, 2, "duel") as (first, second),
        playing(front, 1) as (other,),
    ):
        assert [(each.seat, each.room) for each in (first, second)] == [(0, "duel"), (1, "duel")]
        assert (first.id == second.id, first.id == other.id, other.seat) == (True, False, 0)
        await second.send("set_move", move=7)
        await level(second, 57)
        await level(first, 0)
        assert await who(second) == {"seat": 1, "log": "+0+1"}
        async with connect(f"http://127.0.0.1:{front.port}", role="viewer", room="duel", seat=1) as viewer:
            await level(viewer, 57)
        async with front.http() as http:
            snapshot = await http.get("/snapshot/main_video.jpg", params={"session": "duel", "seat": 3})
            assert (snapshot.status_code, (await http.get("/health")).json()["status"]) == (200, "busy")


async def test_a_seat_that_is_left_goes_to_the_next_client_and_the_others_play_on(project: Path) -> None:
    async with running_front(project) as front, playing(front, 3) as (first, second, third):
        await second.aclose()
        await until_seats(first, True, False, True, False)
        session = front.slots[0].session
        assert session is not None
        # The front knows it a little later.
        while session.free != [1, 3]:  # noqa: ASYNC110  (no event reports it; `playing` has a limit)
            await asyncio.sleep(0.01)
        async with playing(front, 1) as (fourth,):
            assert (fourth.seat, fourth.id) == (1, first.id)
            assert await who(third) == {"seat": 2, "log": "+0+1+2-1+1"}


@pytest.mark.parametrize("is_relayed", [False, True], ids=["redirected", "relayed"])
async def test_a_client_that_loses_its_connection_resumes_its_seat(project: Path, is_relayed: bool) -> None:
    async with (
        running_front(project, limits=TurnLimits(resume_grace_s=TIMEOUT_S)) as front,
        client(front.url, room="duel") as first,
    ):
        await first.data("reactor.session", phase="started")
        redirect = None if is_relayed else await redirected(front, room="duel")
        url = front.url if redirect is None else socket_of(redirect)
        async with client(url, **({"room": "duel"} if redirect is None else {"ticket": redirect["ticket"]})) as second:
            welcome = await second.data("reactor.welcome")
            assert (welcome["seat"], welcome["room"]) == (1, "duel")
            second.socket.transport.abort()
            await first.data("reactor.seats", away=[1])
        async with client(url, resume=welcome["resume"]) as back:
            assert (await back.data("reactor.welcome"))["seat"] == 1
            assert (await first.data("reactor.seats", away=[]))["clients"][1] is not None


async def test_all_clients_of_a_worker_that_is_killed_meet_again_in_another(project: Path) -> None:
    async with running_front(project, workers=2) as front, contextlib.AsyncExitStack() as stack:
        secrets = []
        for seat in range(2):
            redirect = await redirected(front, room="duel")
            player = await stack.enter_async_context(client(socket_of(redirect), ticket=redirect["ticket"]))
            assert (await player.data("reactor.welcome"))["seat"] == seat
            secrets.append(redirect["returning"])
        (hit,) = [slot for slot in front.slots if slot.session]
        front.kill(hit)
        assert (await player.closed())[0] == 1006
        welcomes = []
        for secret in secrets:
            back = await stack.enter_async_context(client(front.url, returning=secret, room="duel"))
            assert (await back.data("reactor.session", phase="lost"))["message"]
            welcomes.append(await back.data("reactor.welcome"))
        assert [welcome["seat"] for welcome in welcomes] == [0, 1]
        assert len({welcome["session"] for welcome in welcomes}) == 1


async def test_a_ticket_for_a_session_that_ends_is_refused_and_its_client_begins_another(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    waits = f"\n    @disconnected\n    def end(self):\n        while not Path({str(ended)!r}).exists():\n"
    model = MODEL.replace("    def inference", f"{waits}            time.sleep(0.01)\n\n    def inference")
    project = write_project(tmp_path / "ending", f"import time\nfrom pathlib import Path\n{model}")
    async with running_front(project) as front:
        async with client(front.url, room="duel") as first:
            await first.data("reactor.session", phase="started")
            redirect = await redirected(front, room="duel")
        try:
            (slot,) = front.slots
            async with asyncio.timeout(TIMEOUT_S):
                while slot.session is None or slot.session.phase is not SessionPhase.STOPPING:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            with pytest.raises(InvalidStatus):
                async with client(socket_of(redirect), ticket=redirect["ticket"]):
                    pass
        finally:
            ended.touch()
        async with client(front.url, returning=redirect["returning"], room="duel") as second:
            assert (await second.data("reactor.session", phase="lost"))["message"]
            assert (await second.data("reactor.welcome"))["seat"] == 0


async def test_the_end_of_a_turn_limits_no_other_one_when_nobody_else_waits(project: Path) -> None:
    limits = TurnLimits(max_session_s=0.5)
    async with running_front(project, limits=limits) as front, contextlib.AsyncExitStack() as stack:
        players = []
        for _ in range(4):
            player = await stack.enter_async_context(client(front.url))
            await player.data("reactor.session", phase="started")
            players.append(player)
        async with client(front.url) as last:
            assert (await last.data("reactor.welcome"))["seat"] == 0
        for player in players[1:]:
            await player.ask("who")
            assert not [each for each in player.texts if each["data"].get("phase") == "ending"]


async def test_a_viewer_of_a_room_that_opens_sees_no_other_room_of_the_worker(tmp_path: Path) -> None:
    model = MODEL.replace("fps = 30", "fps = 30\n    sessions_per_model = 3")
    async with (
        running_front(write_project(tmp_path / "rooms", model)) as front,
        client(front.url, room="one") as first,
    ):
        await first.data("reactor.session", phase="started")
        redirect = await redirected(front, room="two")
        async with (
            client(front.url, role="viewer", room="two") as viewer,
            front.http() as http,
        ):
            assert (await viewer.data("reactor.welcome"))["session"] is None
            assert (await http.get("/snapshot/main_video.jpg", params={"session": "two"})).status_code == 404
            async with client(socket_of(redirect), ticket=redirect["ticket"]) as second:
                session = (await second.data("reactor.session", phase="started"))["session"]
                assert (await viewer.data("reactor.welcome"))["session"] == session
