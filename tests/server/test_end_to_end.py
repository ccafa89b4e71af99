"""The whole thing as people use it: one server for all tests here, a bare client, an independent decoder."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.server.client import client, connect, controlling
from tests.server.running import RunningServer

MODEL = """
class Progress(ModelMessage):
    step: int


class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255, description="How bright")
    _secret: int = 7


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            frame = self.output.empty((32, 48, 3))
            frame[:] = self.state.level
            yield frame

    @event(name="darken", description="Half as bright")
    async def darken(self, by: int = InputField(default=2, ge=1)):
        self.state.level //= by
        await self.send(Progress(step=self.state.level))
        return Progress(step=by)

    @event(name="refuse")
    def refuse(self):
        raise CommandError("too_late", "the show is over")

    @event(name="fail")
    def fail(self):
        raise ValueError("a secret")

    @event(name="cut")
    def cut(self):
        self.output_buffer.flush()
"""


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    """Begin each test with a model that is free."""
    server.wait_for_health("ready")


async def test_the_first_message_says_everything_about_the_model(server: RunningServer) -> None:
    async with client(server.url) as controller:
        welcome = await controller.data("reactor.welcome")
    assert len(controller.texts) == 1
    assert (welcome["protocol"], welcome["role"], welcome["model"]) == ("reactor.v1", "controller", "my-model")
    assert welcome["tracks"] == [{"name": "main_video", "kind": "video", "direction": "out"}]
    assert list(welcome["schema"]["events"]) == ["set_level", "darken", "refuse", "fail", "cut"]
    assert welcome["schema"]["events"]["set_level"]["field"] == "level"
    assert welcome["schema"]["messages"]["progress"]["data"]["properties"]["step"] == {"type": "integer"}
    assert welcome["state"] == {"level": 100}
    assert welcome["limits"]["max_text_bytes"] == 262144


async def test_every_binary_message_is_a_picture(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        frames = [await controller.frame() for _ in range(10)]
    assert {frame.size for frame in frames} == {(48, 32)}
    assert all(abs(frame.level - 100) < 3 for frame in frames)
    assert [frame.header.seq for frame in frames] == list(range(frames[0].header.seq, frames[0].header.seq + 10))
    gaps_us = {b.header.pts_us - a.header.pts_us for a, b in itertools.pairwise(frames)}
    assert min(gaps_us) >= 33_332
    assert {frame.header.track for frame in frames} == {"main_video"}


async def test_an_event_takes_effect_on_the_picture_that_says_so(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        reply = await controller.ask("set_level", {"level": 200}, id=1)
        assert (reply["type"], reply["data"]) == ("reactor.reply", {"n": 1})
        frame = await controller.frame(applied=1)
    assert abs(frame.level - 200) < 3
    assert {"type": "reactor.state", "data": {"level": 200}} in controller.texts


async def test_a_handler_s_message_is_its_reply_and_its_sends_come_too(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        reply = await controller.ask("darken", {"by": 4}, id="mine")
        assert reply["data"] == {"n": 1, "message": {"type": "progress", "data": {"step": 4}}}
        if not any(message["type"] == "progress" for message in controller.texts):
            await controller.message("progress")
    assert {"type": "progress", "data": {"step": 25}} in controller.texts


@pytest.mark.parametrize(
    ("event", "data", "error"),
    [
        (
            "set_level",
            {"level": 256},
            {
                "code": "invalid_event",
                "event": "set_level",
                "message": "set_level.level: 256 is above 255",
                "fields": [{"path": "set_level.level", "message": "256 is above 255"}],
            },
        ),
        ("refuse", {}, {"code": "too_late", "event": "refuse", "message": "the show is over"}),
        ("fail", {}, {"code": "internal_error", "event": "fail", "message": "the handler of fail failed"}),
    ],
)
async def test_what_goes_wrong_with_an_event_is_its_answer(
    server: RunningServer, event: str, data: dict[str, int], error: dict[str, object]
) -> None:
    async with controlling(server.url) as controller:
        answer = await controller.ask(event, data, id=5)
        assert (answer["type"], answer["data"]) == ("reactor.error", error)
        assert (await controller.frame()).header.seq >= 0


async def test_an_unknown_event_is_answered_without_an_id_too(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.send("set_levle", {"level": 3})
        error = await controller.data("reactor.error")
    assert error["code"] == "unknown_event"
    assert "set_level" in error["message"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("no json", "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        ('{"type": "set_level", "data": {"level": NaN}}', "invalid_json"),
        ("[]", "invalid_message"),
        ('{"type": "reactor.nonsense"}', "invalid_message"),
        ('{"type": "set_level", "data": 3}', "invalid_message"),
        (b"\xff\xd8\xff\xe0 no track takes this", "unknown_track"),
        (b"", "unknown_track"),
    ],
    ids=["garbage", "deep", "NaN", "list", "reserved", "data", "picture", "empty"],
)
async def test_what_cannot_be_understood_closes_nothing(server: RunningServer, sent: str | bytes, code: str) -> None:
    async with controlling(server.url) as controller:
        await controller.socket.send(sent)
        assert (await controller.data("reactor.error"))["code"] == code
        assert (await controller.ask("darken"))["type"] == "reactor.reply"


@pytest.mark.parametrize(
    "sent",
    ['{"type": "x", "data": {"text": "' + "a" * 262_144 + '"}}', "é" * 200_000, b"\0" * (17 << 20)],
    ids=["text", "text of wide characters", "binary"],
)
async def test_what_is_too_large_closes_the_socket(server: RunningServer, sent: str | bytes) -> None:
    async with controlling(server.url) as controller:
        with contextlib.suppress(ConnectionClosed):  # it may be closed while this is still being sent
            await controller.socket.send(sent)
        assert (await controller.closed())[0] == 1009


async def test_an_unknown_subprotocol_is_refused_before_the_upgrade(server: RunningServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(server.url, subprotocols=["graphql-ws"]):  # type: ignore[list-item]  # a NewType of str
            pass
    assert refused.value.response.status_code == 400
    assert b"reactor.v1" in (refused.value.response.body or b"")


async def test_ours_is_chosen_among_others(server: RunningServer) -> None:
    async with connect(server.url, subprotocols=["graphql-ws", "reactor.v1"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "reactor.v1"


async def test_an_unknown_role_is_refused(server: RunningServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with client(server.url, role="admin"):
            pass
    assert refused.value.response.status_code == 400


async def test_the_second_controller_waits_and_gets_a_fresh_state(server: RunningServer) -> None:
    async with controlling(server.url) as first, client(server.url) as second:
        assert await second.place() == {"position": 1, "length": 1}
        async with client(server.url) as third:
            assert await third.place() == {"position": 2, "length": 2}
            assert await second.place() == {"position": 1, "length": 2}
            await first.ask("set_level", {"level": 10})
            answer = await second.ask("set_level", {"level": 20})
            assert answer["data"]["code"] == "not_controller"
            await first.socket.close()
            assert (await second.data("reactor.welcome"))["state"] == {"level": 100}
            assert await third.place() == {"position": 1, "length": 1}
            frame = await second.frame()
            assert (frame.header.seq, frame.header.applied) == (0, 0)
            assert abs(frame.level - 100) < 3


async def test_a_viewer_sees_what_the_controller_sees_and_changes_nothing(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        async with client(server.url, role="viewer") as viewer:
            welcome = await viewer.data("reactor.welcome")
            assert (welcome["role"], welcome["state"]) == ("viewer", {"level": 100})
            held = await viewer.frame()
            assert held.header.flags & 2
            answer = await viewer.ask("set_level", {"level": 3}, id=9)
            assert (answer["data"]["code"], answer["id"]) == ("not_controller", 9)
            await controller.send("set_level", {"level": 200})
            assert await viewer.data("reactor.state") == {"level": 200}
            assert abs((await viewer.frame(applied=1)).level - 200) < 3


@pytest.mark.parametrize("request_type", ["reactor.reload", "reactor.keep"])
async def test_a_server_without_reload_refuses_what_is_for_authors(server: RunningServer, request_type: str) -> None:
    async with controlling(server.url) as controller:
        answer = await controller.ask(request_type, id=5)
    assert (answer["type"], answer["data"]["code"]) == ("reactor.error", "invalid_message")


async def test_a_viewer_keeps_watching_the_next_session(server: RunningServer) -> None:
    async with client(server.url, role="viewer") as viewer:
        assert (await viewer.data("reactor.welcome"))["session"] is None
        sessions = []
        for _ in range(2):
            async with controlling(server.url):
                sessions.append((await viewer.data("reactor.session", phase="started"))["session"])
                await viewer.frame()
            assert (await viewer.data("reactor.session", phase="ended"))["reason"] == "left"
        assert len(set(sessions)) == 2


async def test_nobody_sees_a_frame_of_the_session_before(server: RunningServer) -> None:
    for _ in range(10):
        async with client(server.url) as first, client(server.url) as second:
            await first.data("reactor.session", phase="started")
            await first.send("set_level", {"level": 255})
            await first.frame(applied=1)
            await first.socket.close()
            await second.data("reactor.welcome")
            frames = [await second.frame() for _ in range(3)]
        assert [frame.header.seq for frame in frames] == [0, 1, 2]
        assert all(abs(frame.level - 100) < 3 for frame in frames)


async def test_a_flush_shows_black_at_once_and_says_so(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        await controller.send("cut", id=1)
        frame = await controller.frame()
        while not frame.header.flags & 1:
            frame = await controller.frame()
        assert frame.level < 3
        assert (await controller.frame()).level > 90


async def test_a_burst_of_events_is_answered_whole_and_in_order(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        for number in range(400):
            await controller.send("set_level", {"level": number % 200}, id=number)
        replies = [await controller.data("reactor.reply") for _ in range(400)]
        assert [reply["n"] for reply in replies] == list(range(1, 401))
        assert abs((await controller.frame(applied=400)).level - 199) < 3


async def test_a_thousand_messages_at_once_are_all_taken(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        # With the next one as many as may wait.
        for _ in range(999):
            await controller.send("set_level", {"level": 7})
        assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1000}
        assert abs((await controller.frame(applied=1000)).level - 200) < 3


async def test_a_client_that_acknowledges_is_told_its_round_trip(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        while True:
            received = await controller.next()
            if isinstance(received, dict):
                if received["type"] == "reactor.stats" and received["data"]["rtt_ms"] is not None:
                    break
            else:
                seq = int.from_bytes(received[16:20], "big")
                await controller.send("reactor.ack", {"track": "main_video", "seq": seq})
    statistics = received["data"]
    assert statistics["window"]["main_video"] >= 1
    assert statistics["sent"] <= statistics["emitted"]
    assert set(statistics) >= {"fps", "skipped", "queue", "step_ms", "encode_ms"}
    assert [statistics[name] for name in ("rung", "quality", "scale", "why")] == [0, 85, 1.0, "full"]


async def test_a_client_that_never_acknowledges_is_sent_every_frame(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        first = await controller.frame()
        for _ in range(40):
            last = await controller.frame()
    assert last.header.seq - first.header.seq == 40


async def test_a_paused_client_gets_messages_and_no_pictures(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        await controller.send("reactor.view", {"paused": True})
        await controller.ask("darken")
        frames = controller.frames
        await controller.data("reactor.stats")
        await controller.data("reactor.stats")
        assert controller.frames - frames <= 1
        await controller.send("reactor.view", {"paused": False})
        await controller.frame()


async def test_a_ping_is_answered_with_its_own_words(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.send("reactor.ping", {"t": 12.5})
        pong = await controller.data("reactor.pong")
    assert pong["t"] == 12.5
    assert pong["server_us"] > 1_700_000_000_000_000


async def test_health_says_busy_and_who_is_there(server: RunningServer) -> None:
    async with controlling(server.url), client(server.url) as waiting, client(server.url, role="viewer") as viewer:
        await asyncio.gather(waiting.data("reactor.queue"), viewer.data("reactor.welcome"))
        status, body = server.health()
    assert (status, body["status"], body["waiting"], body["viewers"]) == (200, "busy", 1, 1)
    assert body["model"] == "my-model"


def test_the_page_and_the_probes_answer(server: RunningServer) -> None:
    assert server.get("/live") == (200, "ok\n")
    assert server.get("/ready") == (200, "ready\n")
    status, page = server.get("/")
    assert (status, "<html" in page) == (200, True)
    assert server.get("/static/client/connection.js")[0] == 200
    assert server.get("/static/client/reactor.d.ts")[0] == 200
    assert server.get("/reactor.js") == (200, 'export * from "./static/client/index.js";\n')
    assert server.get("/static/../run.py")[0] == 404
    assert server.get("/static/client/../../run.py")[0] == 404
    assert server.get("/static/nothing.js")[0] == 404


def test_a_handler_s_failure_is_in_the_log_whole(server: RunningServer) -> None:
    assert "ValueError: a secret" in server.log
    assert Path("pipeline.py").name in server.log
