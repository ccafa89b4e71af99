"""The client against a real server, with and without an event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reactor_runtime.client import (
    Busy,
    ConnectError,
    EventError,
    Phase,
    Refused,
    Reply,
    Session,
    SessionEnded,
    UploadError,
    connect,
    connection,
    dial,
)
from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.client.fake_server import FakeServer
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyInput(Input):
    camera: Video
    microphone: Audio


class Both(Output):
    main_video: Video
    tone: Audio


class Progress(ModelMessage):
    step: int


class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput
    output: Both
    fps = 30

    @connected
    async def on_connect(self):
        await self.send(Progress(step=-1))

    def inference(self):
        while True:
            seen = self.input.camera.try_read(1)
            heard = self.input.microphone.try_read(1)
            if seen:
                self.state.level = int(seen[0].mean())
            level = int(heard[0].max()) if heard else 7
            yield Both(main_video=gray(self.state.level), tone=np.full((1, 1600), level, np.int16))

    @event(name="count")
    async def count(self, to: int = 3):
        for step in range(to):
            await self.send(Progress(step=step))
        return Progress(step=to)

    @event(name="refuse")
    def refuse(self):
        raise CommandError("too_late", "the show is over")

    @event(name="measure")
    def measure(self, file: UploadedFile):
        return Progress(step=len(file.read()))

    @event(name="crash")
    def crash(self):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("model"), MODEL)
    with serving(project, "--max-waiting", "1", "--max-viewers", "1") as server:
        yield server


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> Iterator[None]:
    """Start and end each test with a free model."""
    server.wait_for_health("ready")
    yield
    server.wait_for_health("ready")


@pytest.fixture
def url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}"


async def test_a_session_describes_the_model(url: str) -> None:
    async with connect(url) as session:
        assert (session.model, session.role, session.status.phase) == ("my-model", "controller", Phase.CONNECTED)
        assert list(session.schema["events"]) == ["set_level", "count", "refuse", "measure", "crash"]
        assert [(track.name, track.kind, track.direction) for track in session.tracks] == [
            ("main_video", "video", "out"),
            ("tone", "audio", "out"),
            ("camera", "video", "in"),
            ("microphone", "audio", "in"),
        ]
        assert session.state == {"level": 100}
        assert session.id == session.status.session is not None
    assert (session.status.phase, session.status.reason) == (Phase.ENDED, "closed")


async def test_the_frame_after_a_reply_shows_the_event(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        reply = await session.send("set_level", level=np.int64(200))
        assert (reply.n, reply.message) == (1, None)
        frame = await session.frame(after=reply)
        assert frame.applied == reply.n
        assert frame.array.shape == (32, 48, 3)
        assert frame.array.mean() == pytest.approx(200, abs=3)
        assert frame.jpeg[:2] == b"\xff\xd8"
        # The clock of the server is known to half a round trip.
        assert session.rtt_ms is not None
        assert -session.rtt_ms / 2 - 1 < frame.delay_ms < 1000 * TIMEOUT_S
        assert session.state == {"level": 200}
        assert session.input_delay_ms is not None


async def test_a_handler_s_return_value_is_the_reply_and_its_sends_are_messages(url: str) -> None:
    async with connect(url) as session:
        reply = await session.send("count", {"to": 2})
        assert reply.message is not None
        assert reply.message.data == {"step": 2}
        messages = session.messages()
        assert [(await anext(messages)).data["step"] for _ in range(3)] == [-1, 0, 1]


async def test_notify_sends_events_without_waiting(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        # The server's error about an unknown event is logged.
        session.notify("set_levle", level=1)
        for level in range(100):
            assert session.notify("set_level", level=level)
        while session.state["level"] != 99:
            await _arrival(session)
        assert (await session.send("set_level", {"level": 1})).n == 101


@pytest.mark.parametrize(
    ("event", "values", "code", "paths"),
    [
        ("set_level", {"level": 256}, "invalid_event", ["set_level.level"]),
        ("set_level", {}, "invalid_event", ["set_level.level"]),
        ("set_levle", {"level": 1}, "unknown_event", []),
        ("refuse", {}, "too_late", []),
    ],
)
async def test_a_refusal_names_the_wrong_fields(
    url: str, event: str, values: dict[str, int], code: str, paths: list[str]
) -> None:
    async with connect(url) as session:
        with pytest.raises(EventError) as refusal:
            await session.send(event, **values)
        assert (refusal.value.code, refusal.value.event) == (code, event)
        assert [field.path for field in refusal.value.fields] == paths
        assert (await session.send("set_level", level=1)).n >= 1


async def test_a_slow_reader_gets_the_newest_frame_and_skips_others(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        seen = []
        async for frame in session.frames("main_video", decode=False):
            seen.append(frame.seq)
            if len(seen) == 4:
                break
            arrived = session.arrived["main_video"]
            while session.arrived["main_video"] < arrived + 2:
                await _arrival(session)
        assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(seen[1:]))


async def _arrival(session: Session) -> None:
    """Wait for the next frame or message."""
    await session.connection.streams.changed.wait()


async def test_frame_returns_the_newest_frame_after_a_pause(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        first = await session.frame()
        while session.arrived["main_video"] < first.seq + 20:
            await _arrival(session)
        assert (await session.frame("main_video")).seq >= first.seq + 19


async def test_waiting_for_a_frame_raises_when_the_session_ends(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        never = asyncio.create_task(session.frame(after=Reply(1000)))
        await _arrival(session)
        await session.aclose()
        with pytest.raises(SessionEnded):
            await never


async def test_sound_arrives_complete_and_in_order(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        pieces = session.sound()
        received = [await anext(pieces) for _ in range(10)]
    first = received[0]
    assert (first.sample_rate, first.array.shape, first.array[0, 0]) == (48_000, (1, 1600), 7)
    assert [piece.seq for piece in received] == list(range(first.seq, first.seq + 10))
    # A busy machine may stall, after which sound starts again.
    gaps = [later.pts_s - earlier.pts_s for earlier, later in itertools.pairwise(received)]
    assert min(gaps) == pytest.approx(1600 / 48_000, abs=0.002)


async def test_published_media_reaches_the_model(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        session.publish("camera", np.full((16, 16, 3), 222, np.uint8))
        async for frame in session.frames():
            if frame.array.mean() > 215:
                break
        session.publish("microphone", np.full(480, 99, np.int16))
        async for piece in session.sound():
            if piece.array.max() == 99:
                break


async def test_an_error_about_published_media_is_raised_by_the_next_publish(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        session.publish("camera", b"\xff\xd8 no picture")
        while not session.connection.streams.protocol.publish_errors:
            await _arrival(session)
        with pytest.raises(EventError) as refusal:
            session.publish("camera", np.zeros((8, 8, 3), np.uint8))
        assert refusal.value.code == "bad_media"
        with pytest.raises(ValueError, match="there are: camera, microphone"):
            session.publish("kamera", np.zeros((8, 8, 3), np.uint8))


async def test_media_above_the_server_s_limit_is_not_published(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        most = session.limits["max_media_bytes"]
        for track, content in (("camera", b"\xff\xd8" + bytes(most)), ("microphone", np.zeros(most, np.int16))):
            with pytest.raises(ValueError, match="bytes at once are too many; at most"):
                session.publish(track, content)
        assert (await session.send("set_level", level=3)).n == 1


async def test_an_uploaded_file_reaches_the_handler(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"12345")
    async with connect(url) as session:
        for content, size in ((tmp_path / "a.png", 5), (b"123", 3)):
            reply = await session.send("measure", file=await session.upload(content))
            assert reply.message is not None
            assert reply.message.data == {"step": size}
        with pytest.raises(FileNotFoundError):
            await session.upload(tmp_path / "none.png")
        with pytest.raises(UploadError) as refusal:
            await session.upload(b"x", name="a\nb")
        assert refusal.value.status == 400


async def test_the_status_has_the_queue_position_and_a_full_queue_is_busy(url: str) -> None:
    async with connect(url) as first, connect(url, wait=False) as second, asyncio.timeout(TIMEOUT_S):
        statuses = second.statuses()
        while (await anext(statuses)).position != 1:
            pass
        assert not second.notify("set_level", level=9)
        with pytest.raises(Busy):
            await connect(url)
        await first.aclose()
        await second.ready()
        assert second.status.phase is Phase.CONNECTED


async def test_a_viewer_watches_and_cannot_send(url: str) -> None:
    async with connect(url) as controller, connect(f"{url}/?role=viewer") as viewer, asyncio.timeout(TIMEOUT_S):
        reply = await controller.send("set_level", level=180)
        assert (await viewer.frame(after=reply)).array.mean() == pytest.approx(180, abs=3)
        with pytest.raises(EventError) as refusal:
            await viewer.send("set_level", level=1)
        assert refusal.value.code == "not_controller"
        assert not viewer.notify("set_level", level=1)
        with pytest.raises(ValueError, match="only the controller"):
            await viewer.upload(b"x")


async def test_a_session_left_at_once_closes_its_socket_normally(
    url: str, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy server answers late.
    for module in (connection, dial):
        monkeypatch.setattr(module, "CLOSING_S", TIMEOUT_S)
    async with connect(url, wait=False) as session:
        socket = session.connection.socket
    assert socket is not None
    assert socket.close_code == 1000
    server.wait_for_health("ready")


async def test_iterators_end_with_the_session(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        frames = session.frames()
        await anext(frames)
        await session.aclose()
        await session.aclose()
        assert len([frame async for frame in frames]) <= 1  # the newest one that had arrived before
        with pytest.raises(SessionEnded):
            await session.send("refuse")


async def test_a_crash_of_the_model_ends_the_session_with_its_reason_and_the_next_one_follows(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        frames = session.frames()
        await anext(frames)
        with pytest.raises(SessionEnded) as ended:
            await session.send("crash")
        assert ended.value.reason == "model_died"
        with pytest.raises(SessionEnded):
            [frame async for frame in frames]
        lost = session.id
        await session.ready()
        assert session.id not in (None, lost)
        await session.send("set_level", level=3)


async def test_an_iterator_acknowledges_its_first_frame_before_it_is_decoded() -> None:
    server = FakeServer(media=attach(MediaHeader("main_video", 0, 0, 0), b"\xff\xd8 cannot be decoded"))
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        with pytest.raises(WireError, match="JPEG"):
            await anext(session.frames())
        await server.received.wait()
        assert server.texts == ["reactor.ack"]


async def test_a_view_limits_the_frames_that_arrive(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        await anext(session.frames())
        session.view(paused=True)
        with pytest.raises(EventError):
            # Its answer comes after the server has applied the view.
            await session.send("refuse")
        before = session.arrived["main_video"]
        for _ in range(2):
            stats = session.stats
            while session.stats is stats:
                await _arrival(session)
        assert session.arrived["main_video"] <= before + 1


async def test_raw_frames_have_the_pixels_of_the_model(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        session.view(codecs=["raw"])
        # Its answer comes after the server has applied the view, and JPEG would change this gray by one.
        reply = await session.send("set_level", level=77)
        frame = await session.frame("main_video", after=reply)
        assert frame.data.startswith(b"\x93NUMPY")
        assert np.array_equal(frame.array, np.full((32, 48, 3), 77, np.uint8))


def test_a_blocking_session_has_the_same_methods(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1234567")
    with connect(url) as session:
        reply = session.send("measure", file=session.upload(tmp_path / "a.bin"))
        assert reply.message is not None
        assert reply.message.data == {"step": 7}
        session.publish("camera", np.full((16, 16, 3), 222, np.uint8))
        for frame in session.frames():
            if frame.array.mean() > 215:
                break
        assert session.frame("main_video", after=reply).applied == reply.n
        assert next(session.messages()).data == {"step": -1}
        assert next(session.sound()).sample_rate == 48_000
        assert next(session.statuses()).phase is Phase.CONNECTED
        with pytest.raises(EventError):
            session.send("refuse")
    assert session.status.phase is Phase.ENDED


def test_an_error_in_the_block_closes_a_blocking_session(url: str) -> None:
    with pytest.raises(ZeroDivisionError), connect(url) as session:
        session.send("set_level", level=1 // 0)
    with pytest.raises(ConnectError), connect("http://127.0.0.1:1"):
        pass


async def test_connecting_fails_with_the_reason(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="has no /ws"):
        await connect(f"{url}/elsewhere")
    with pytest.raises(ConnectError, match="there is no TLS"):
        await connect(url.replace("http", "https"))
    with serving(write_project(tmp_path / "closed", MODEL), "--token", "correct-horse") as closed:
        address = f"http://127.0.0.1:{closed.port}"
        for wrong in (None, "wrong-token"):
            with pytest.raises(Refused) as refusal:
                await connect(address, token=wrong)
            assert refusal.value.status == 401
        async with connect(f"{address}/?token=correct-horse") as session:
            reply = await session.send("measure", file=await session.upload(b"1"))
            assert reply.message is not None
