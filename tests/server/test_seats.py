"""Several controllers in one session, as clients see it: seats, rooms, who waits, who resumes, and the recording."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from reactor_runtime.client import Session, SessionEnded, connect
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import replay
from tests.cli.command import reactor
from tests.openapi import strict, validator
from tests.server.client import Frame, Sound, WireClient, client, parse_frame
from tests.server.running import RunningServer, listening, write_project
from tests.template_projects import own_modules
from tests.timeouts import TIMEOUT_S

MODEL = """
class World(InputState):
    speed: int = InputField(default=1, ge=1, le=9)
    note: str = InputField(default="", shared=True)


class Player(InputState):
    move: int = InputField(default=0, ge=0, le=100)


class Who(ModelMessage):
    seat: int
    log: str


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player
    seats = 4
    fps = 30

    @connected
    def begin(self):
        self.log = ""

    @joined
    def on_joined(self, seat):
        self.log += f"+{seat}"

    @left
    def on_left(self, seat):
        self.log += f"-{seat}"

    @event(name="who")
    def who(self, client: ClientInfo) -> Who:
        return Who(seat=client.seat, log=self.log)

    def inference(self):
        while True:
            yield [MyOutput(main_video=gray(50 * each.number + each.state.move)) for each in self.seats]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("seats"), MODEL)
    with listening(project, "--resume-grace", "20", "--sessions", "2", "--max-waiting", "2") as server:
        server.wait_for("ready 2 of 2 in")
        yield server
        server.stop()


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: all(each["status"] == "ready" for each in server.health()[1]["engines"]), "both ready")


@contextlib.asynccontextmanager
async def playing(server: RunningServer, count: int, room: str = "") -> AsyncIterator[list[Session]]:
    """Play with so many clients, which come one after the other."""
    async with asyncio.timeout(TIMEOUT_S), contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(server.url, room=room)) for _ in range(count)]


async def level(session: Session, wanted: float, track: str = "main_video") -> None:
    """Wait for a frame of this gray."""
    async for frame in session.frames(track):
        if abs(float(frame.array.mean()) - wanted) < 3:
            return


async def until_seats(session: Session, *taken: bool) -> None:
    """Wait until these seats are taken; each frame comes after a while."""
    async for _ in session.frames(decode=False):
        if tuple(client is not None for client in session.seats) == taken:
            return


async def who(session: Session) -> dict[str, object]:
    reply = await session.send("who")
    assert reply.message is not None
    return dict(reply.message.data)


async def test_each_client_sets_the_state_of_its_seat_and_sees_it(server: RunningServer) -> None:
    async with playing(server, 4) as players:
        assert [each.seat for each in players] == [0, 1, 2, 3]
        assert len({each.id for each in players}) == 1
        for each in players:
            reply = await each.send("set_move", move=10 * each.seat)
            assert reply.n == 1
        for each in players:
            await level(each, 60 * each.seat)
            assert each.state == {"speed": 1, "note": "", "move": 10 * each.seat}


async def test_applied_counts_the_events_of_a_seat(server: RunningServer) -> None:
    async with playing(server, 2) as (first, second):
        for move in range(5):
            await first.send("set_move", move=move)
        reply = await second.send("set_move", move=30)
        assert reply.n == 1
        assert abs(float((await second.frame(after=reply)).array.mean()) - 80) < 3


async def test_the_host_alone_sets_the_state_of_all(server: RunningServer) -> None:
    async with playing(server, 2) as (host, guest):
        with pytest.raises(Exception, match="only the host"):
            await guest.send("set_speed", speed=3)
        await guest.send("set_note", note="from the guest")
        await host.send("set_speed", speed=4)
        assert (await who(guest))["seat"] == 1
        assert guest.state == {"speed": 4, "note": "from the guest", "move": 0}
        await host.send("who")
        assert host.state["note"] == "from the guest"


async def test_a_room_is_found_by_its_code(server: RunningServer) -> None:
    async with playing(server, 2) as (first, second), playing(server, 2, "Friends-7") as (third, fourth):
        assert second.id == first.id
        assert third.id == fourth.id != first.id
        assert (third.room, third.seat, fourth.seat) == ("friends-7", 0, 1)
        assert len(first.room or "") == 6
        async with connect(server.url, room=first.room, seat=3) as invited:
            assert (invited.id, invited.seat) == (first.id, 3)
            for each in (first, second, invited):
                await until_seats(each, True, True, False, True)
            assert first.seats == second.seats == invited.seats
        # A room that was opened with a code is for those who have the code.
        async with playing(server, 2) as (fifth, sixth):
            assert (fifth.id, sixth.id) == (first.id, first.id)
            async with client(server.url) as seventh:
                await seventh.message("reactor.queue", position=1)


async def test_a_client_waits_for_the_seat_that_it_wants(server: RunningServer) -> None:
    async with playing(server, 2) as (first, second):
        wish = {"room": str(first.room), "seat": "1"}
        async with client(server.url, seat="1") as third, client(server.url, **wish) as fourth:
            # There is a second model: a client that names no room gets the seat there.
            assert (await third.data("reactor.welcome", role="controller"))["session"] != first.id
            await fourth.message("reactor.queue", position=1)
            await second.aclose()
            welcome = await fourth.data("reactor.welcome", role="controller")
            assert (welcome["session"], welcome["seat"], welcome["seats"]) == (first.id, 1, 4)


async def test_a_viewer_watches_a_seat_of_its_choice(server: RunningServer) -> None:
    async with playing(server, 2) as (first, second):
        await second.send("set_move", move=20)
        async with connect(server.url, role="viewer", room=first.room, seat=1) as viewer:
            await level(viewer, 70)
            assert (viewer.seat, viewer.state["move"]) == (1, 20)
            viewer.view(seat=0)
            await level(viewer, 0)
            assert (viewer.seat, viewer.state["move"]) == (0, 0)
            with pytest.raises(Exception, match="viewers send nothing"):
                await viewer.send("set_move", move=1)


def snapshot(server: RunningServer, query: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/snapshot/main_video.jpg?{query}") as answer:
        return bytes(answer.read())


async def test_the_latest_frame_of_a_free_seat_is_there_for_one_that_comes(server: RunningServer) -> None:
    async with playing(server, 1) as (first,):
        await level(first, 0)
        image = await asyncio.to_thread(snapshot, server, f"session={first.room}&seat=2")
        assert parse_frame(image).level == pytest.approx(100, abs=3)
        async with connect(server.url, role="viewer", room=first.room, seat=3) as viewer:
            await level(viewer, 150)


async def test_a_seat_is_free_when_its_client_has_left(server: RunningServer) -> None:
    async with playing(server, 3) as (first, second, third):
        await second.send("set_move", move=40)
        await second.aclose()
        await until_seats(first, True, False, True, False)
        async with connect(server.url) as fourth:
            assert (fourth.seat, fourth.state["move"]) == (1, 0)
            assert await who(third) == {"seat": 2, "log": "+0+1+2-1+1"}
        # The host leaves, and the others go on.
        await first.aclose()
        await until_seats(third, False, False, True, False)
        async with connect(server.url) as host:
            assert host.seat == 0
            await host.send("set_speed", speed=2)


async def drop(connection: WireClient) -> None:
    """Break a connection without a close frame."""
    connection.socket.transport.abort()
    await connection.socket.wait_closed()


async def test_a_seat_is_kept_for_a_client_that_has_lost_its_connection(server: RunningServer) -> None:
    async with playing(server, 1) as (first,), client(server.url) as second:
        welcome = await second.data("reactor.welcome", role="controller")
        await second.ask("set_move", {"move": 33})
        await drop(second)
        # The other one plays on, and the seat is not given to anybody else.
        await first.send("set_move", move=5)
        await level(first, 5)
        async with connect(server.url) as third:
            assert third.seat == 2
            async with client(server.url, resume=welcome["resume"]) as again:
                resumed = await again.data("reactor.welcome", role="controller")
                assert (resumed["seat"], resumed["state"]["move"]) == (1, 33)
                answer = await again.ask("who", {})
                assert answer["data"]["message"]["data"] == {"seat": 1, "log": "+0+1+2"}
                assert answer["data"]["n"] == 2


async def test_a_session_pauses_while_all_are_away_and_ends_after_them(server: RunningServer) -> None:
    async with client(server.url) as first:
        welcome = await first.data("reactor.welcome", role="controller")
        await drop(first)
    async with client(server.url, resume=welcome["resume"]) as again:
        resumed = await again.data("reactor.welcome", role="controller")
        assert resumed["session"] == welcome["session"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"seat": "4"}, "there is no seat 4: a session of this model has the seats 0 to 3"),
        ({"seat": "x"}, "unknown seat 'x'"),
        ({"room": "a_b"}, "a room has a code"),
        (
            {"generation": "stepped"},
            "has 4 seats, and a stepped one has one controller: connect without generation=stepped, or step",
        ),
    ],
)
async def test_a_wrong_wish_is_refused(server: RunningServer, query: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await client(server.url, **query).__aenter__()
    assert why in (refused.value.response.body or b"").decode()


async def test_all_messages_are_as_described(server: RunningServer) -> None:
    async with client(server.url) as first, client(server.url) as second:
        await second.message("reactor.seats")
        await second.ask("set_speed", {"speed": 3})
        await second.socket.close()
        seats = await first.message("reactor.seats")
        while seats["data"]["clients"][1] is not None or len(first.texts) < 4:
            seats = await first.message("reactor.seats")
        said = [*first.texts, *second.texts]
    schema = validator(strict(json.loads(server.get("/schema")[1])), "ServerMessage")
    assert [error.message for message in said for error in schema.iter_errors(message)] == []


async def test_four_scripted_clients_are_replayed_bit_for_bit(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    with listening(project, "--resume-grace", "20", "--record", str(folder)) as server:
        server.wait_for("ready in")
        async with playing(server, 3) as (first, second, third), client(server.url) as fourth:
            welcome = await fourth.data("reactor.welcome", role="controller")
            chance = random.Random(1)
            for number in range(40):
                player = chance.choice([first, second, third])
                await player.frame(after=await player.send("set_move", move=chance.randrange(100)))
                if number % 10 == 0:
                    await first.send("set_speed", speed=1 + number // 10)
            await fourth.ask("set_move", {"move": 77})
            await second.aclose()
            await drop(fourth)
            async with connect(server.url) as fifth:
                assert fifth.seat == 1
                await fifth.send("set_move", move=9)
                async with client(server.url, resume=welcome["resume"]) as again:
                    await again.data("reactor.welcome", role="controller")
                    await again.ask("set_move", {"move": 78})
                    await third.send("set_move", move=1)
        server.until(lambda: server.health()[1]["session"] is None, "the session to end")
        server.stop()
    (file,) = folder.glob("*.mcap")
    with contextlib.chdir(project), own_modules():
        result = replay(file)
    assert (result.total, result.differences) == (0, [])
    assert result.frames > 100


async def play(players: list[Session], chance: random.Random) -> None:
    for _ in range(20):
        player = chance.choice(players)
        await player.frame(after=await player.send("set_move", move=chance.randrange(100)))


async def test_a_crash_ends_the_session_of_all_and_both_sessions_are_replayed(project: Path, tmp_path: Path) -> None:
    folder, chance = tmp_path / "recordings", random.Random(2)
    with listening(project, "--record", str(folder)) as server:
        server.wait_for("ready in")
        async with playing(server, 3) as players:
            await play(players, chance)
            os.kill(server.engine, signal.SIGKILL)
            for player in players:
                with pytest.raises(SessionEnded, match="model"):
                    async for _ in player.frames(decode=False):
                        pass
        async with playing(server, 2) as players:
            await play(players, chance)
        server.until(lambda: server.health()[1]["session"] is None, "the session to end")
        server.stop()
    files = sorted(folder.glob("*.mcap"))
    assert len(files) == 2
    with contextlib.chdir(project), own_modules():
        for file in files:
            result = replay(file)
            assert (result.total, result.differences) == (0, [])
            assert result.frames > 4 * 15


SHARED = """
class World(InputState):
    speed: int = 1


class Player(InputState):
    move: int = InputField(default=0, ge=0, le=100)
    score: int = InputField(default=0, read_only=True)


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player
    fps = 30
    warmup = 1
    sessions_per_model = 2

    def load(self, config):
        self.seats = 2
        self.views = MyOutput.make(extra=Video)

    def inference(self):
        while True:
            for each in self.seats:
                each.state.score = each.state.move // 10
            levels = [60 * each.number + each.state.move for each in self.seats]
            yield [self.views(main_video=gray(9), extra=gray(level)) for level in levels]
"""


async def test_sessions_of_a_shared_model_have_the_seats_and_tracks_of_its_load(tmp_path: Path) -> None:
    project, folder = write_project(tmp_path / "project", SHARED), tmp_path / "recordings"
    with listening(project, "--record", str(folder), "--record-video") as server:
        server.wait_for("ready in")
        async with playing(server, 2) as players, playing(server, 2, "other") as others:
            everyone = [*players, *others]
            assert [each.seat for each in everyone] == [0, 1, 0, 1]
            for number, each in enumerate(everyone):
                await each.send("set_move", move=10 * number)
            for number, each in enumerate(everyone):
                await level(each, 60 * (number % 2) + 10 * number, track="extra")
                assert each.state == {"speed": 1, "move": 10 * number, "score": number}
        server.until(lambda: server.health()[1]["session"] is None, "the sessions to end")
        server.stop()
    files = list(folder.glob("*.mcap"))
    replays = [reactor("replay", str(file), cwd=project) for file in files]
    assert [replayed.code for replayed in replays] == [0, 0], [replayed.out for replayed in replays]
    tracks = {frame.track for file in files for frame in read_recording(file).frames()}
    assert tracks == {"main_video@0", "main_video@1", "extra@0", "extra@1"}


async def test_a_seat_is_kept_in_a_model_that_knows_all_clients(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", MODEL.replace("@connected", "@session_started"))
    with listening(project, "--resume-grace", "20") as server:
        server.wait_for("ready in")
        async with client(server.url) as host, client(server.url, role="viewer"):
            welcome = await host.data("reactor.welcome", role="controller")
            async with playing(server, 1) as (guest,):
                assert guest.seat == 1
                await drop(host)
                assert await who(guest) == {"seat": 1, "log": "+0+1"}
                async with client(server.url, resume=welcome["resume"]) as again:
                    answer = await again.ask("who", {})
                    assert answer["data"]["message"]["data"] == {"seat": 0, "log": "+0+1"}


UNEVEN = """
class Both(Output):
    main_video: Video
    main_audio: Audio


class Player(InputState):
    move: int = 0


class MyModel(ReactorPipeline):
    seat_state: Player
    seats = 2
    fps = 30

    def inference(self):
        for step in itertools.count():
            own = Both(main_video=gray(step % 200), main_audio=np.zeros((1, 1600), np.int16))
            yield own if step % 10 == 0 else [own, own if step % 3 == 0 else None]
"""


@pytest.mark.parametrize("receive", [WireClient.frame, WireClient.sound], ids=["frames", "sound"])
async def test_what_a_seat_gets_is_numbered_without_gaps(
    tmp_path: Path, receive: Callable[[WireClient], Awaitable[Frame | Sound]]
) -> None:
    model = "import itertools\n" + UNEVEN
    with listening(write_project(tmp_path / "project", model)) as server:
        server.wait_for("ready in")
        async with client(server.url) as host, client(server.url) as guest:
            of_guest = {each.header.pts_us: each.header.seq for each in [await receive(guest) for _ in range(30)]}
            of_host = {-1: -1}
            while max(of_host) < max(of_guest):
                header = (await receive(host)).header
                of_host[header.pts_us] = header.seq
        server.stop()
    both = [(of_host[at], seq) for at, seq in of_guest.items() if at in of_host]
    assert both
    assert [seq for _, seq in both] == [sum(not n % 10 or not n % 3 for n in range(step)) for step, _ in both]


STILL = """
class MyModel(ReactorPipeline):
    state: InputState
    seats = 2
    fps = 30

    def inference(self):
        yield [MyOutput(main_video=gray(100 + 50 * each.number)) for each in self.seats]
        while True:
            yield None
"""


async def test_each_client_gets_the_latest_frame_of_its_seat_while_the_scene_stands_still(tmp_path: Path) -> None:
    with listening(write_project(tmp_path / "project", STILL)) as server:
        server.wait_for("ready in")
        async with client(server.url) as host:
            shown = await host.frame()
            assert shown.header.seq == 0
            assert shown.level == pytest.approx(100, abs=3)
            for view in ({}, {"codecs": ["raw"]}, {"codecs": ["h264"]}):
                async with client(server.url, seat="1") as guest:
                    await guest.send("reactor.view", view)
                    latest = await guest.frame()
                    assert latest.header.seq == 0
                    assert latest.level == pytest.approx(150, abs=3)
            async with client(server.url, role="viewer", seat="1") as viewer:
                await viewer.send("reactor.view", {"codecs": ["raw"]})
                for seat in (1, 0, 1):
                    await viewer.send("reactor.view", {"seat": seat})
                    await viewer.data("reactor.welcome", seat=seat)
                    assert (await viewer.frame()).level == pytest.approx(100 + 50 * seat, abs=3)
            async with playing(server, 1) as (session,):
                frame = await session.frame()
                assert (frame.seq, frame.held, session.seat) == (0, True, 1)
            async with asyncio.timeout(TIMEOUT_S), connect(server.url, role="viewer") as session:
                for seat in (0, 1, 0):
                    session.view(seat=seat)
                    await level(session, 100 + 50 * seat)
        server.stop()
