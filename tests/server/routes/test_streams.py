"""Video over plain HTTP, requested by a plain socket."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.server.client import client, controlling, parse_frame
from tests.server.running import RunningServer, serving, started, write_project
from tests.server.stream import HEAD, asked

STREAM = "/stream/main_video.mjpg"
SNAPSHOT = "/snapshot/main_video.jpg"
BROWSER = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
HELD = 2
MODEL = """
NOISE = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)


class MyState(InputState):
    level: int = -1
    moving: bool = False


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def inference(self):
        shown = -1
        while True:
            if self.state.moving:
                yield MyOutput(main_video=NOISE)
            elif self.state.level == shown:
                yield Idle
            else:
                shown = self.state.level
                yield MyOutput(main_video=gray(shown))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("watched"), MODEL), "--max-viewers", "2") as server:
        yield server


async def test_a_snapshot_is_the_latest_frame(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        for n, level in enumerate((40, 200), start=1):
            await controller.ask("set_level", {"level": level})
            await controller.frame(applied=n)
            async with asked(server.port, SNAPSHOT) as answer:
                assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
                assert answer.headers["cache-control"] == "no-store"
                body = await answer.exactly(int(answer.headers["content-length"]))
            with Image.open(io.BytesIO(body)) as image:
                assert (image.format, image.size) == ("JPEG", (48, 32))
            assert abs(parse_frame(body).level - level) < 3
        async with asked(server.port, SNAPSHOT, method="HEAD") as answer:
            assert (answer.status, answer.headers["content-length"]) == (200, str(len(body)))


async def test_before_the_first_frame_a_snapshot_is_not_found(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url):
        assert server.get(SNAPSHOT) == (
            404,
            "there is no frame on main_video yet: frames come when a client controls the model\n",
        )


@pytest.mark.parametrize("path", ["/snapshot/nope.jpg", "/stream/nope.mjpg", "/stream/..%2Fhealth.mjpg"])
def test_a_missing_track_is_answered_with_those_that_exist(server: RunningServer, path: str) -> None:
    status, text = server.get(path)
    assert status == 404
    assert "no video track" in text or text == "Not Found"


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_stream_begins_with_the_latest_frame(server: RunningServer, version: str) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        await controller.ask("set_level", {"level": 40})
        await controller.frame(applied=1)
        async with asked(server.port, STREAM, version=version) as stream:
            assert stream.headers["content-type"] == "multipart/x-mixed-replace; boundary=frame"
            assert stream.headers["cache-control"] == "no-store"
            held = await stream.frame()
            assert held.header.flags & HELD
            assert abs(held.level - 40) < 3
            for n, level in enumerate((90, 200), start=2):
                await controller.ask("set_level", {"level": level})
                frame = await stream.frame()
                assert frame.header.applied == n
                assert abs(frame.level - level) < 3


async def test_a_browser_gets_the_headers_of_the_next_part_with_each_frame(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        await controller.ask("set_level", {"level": 40})
        await controller.frame(applied=1)
        async with asked(server.port, STREAM, accept=BROWSER) as stream:
            assert await stream.until(HEAD + b"\r\n") == b""
            assert abs(parse_frame(await stream.until(b"\r\n" + HEAD + b"\r\n")).level - 40) < 3


async def test_a_stream_continues_with_the_next_session(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with asked(server.port, STREAM) as stream:
        for level in (60, 200):
            async with controlling(server.url) as controller:
                await controller.ask("set_level", {"level": level})
                frame = await stream.frame()
                while frame.header.flags & HELD or abs(frame.level - level) > 3:  # the black end of the one before
                    frame = await stream.frame()
            server.wait_for_health("ready")


async def test_a_stream_counts_as_a_viewer(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with client(server.url, role="viewer") as viewer, asked(server.port, STREAM):
        await viewer.data("reactor.welcome")
        assert server.health()[1]["viewers"] == 2
        async with asked(server.port, STREAM) as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert b"2 viewers are watching already" in await refused.until(b"\n")
        async with asked(server.port, STREAM, method="HEAD") as head:
            assert head.status == 200
    server.until(lambda: server.health()[1]["viewers"] == 0, "viewers that leave")


async def test_the_frames_of_a_stream_are_counted(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        server.wait_for_health("ready")
        async with controlling(server.url) as controller:
            await controller.ask("set_level", {"level": 40})
            await controller.frame(applied=1)
            async with asked(server.port, STREAM) as stream:
                await stream.frame()
            sent = 'reactor_frames_sent_total{encoding="jpeg",rung="0",track="main_video"} 2.0\n'
            server.until(lambda: sent in server.get("/metrics")[1], "figures of both")


async def test_fps_limits_the_rate_of_a_stream(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        await controller.send("set_moving", {"moving": True})
        async with asked(server.port, f"{STREAM}?fps=6") as stream:
            first, *_, last = [(await stream.frame()).header.pts_us for _ in range(5)]
            # Four gaps of a sixth of a second, but for the time until the model's next frame.
            assert last - first >= 500_000


@pytest.mark.parametrize("fps", ["0", "-1", "nan", "inf", "many", ""])
def test_a_wrong_fps_is_refused_with_the_reason(server: RunningServer, fps: str) -> None:
    status, text = server.get(f"{STREAM}?fps={fps}")
    assert (status, text) == (400, "fps is the most frames a second, a number from 0.01 up\n")


async def test_a_slow_reader_gets_the_newest_frame(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        await controller.send("set_moving", {"moving": True})
        async with asked(server.port, STREAM) as stream:
            first = (await stream.frame()).header.seq
            newest = first
            while newest < first + 60:
                newest = (await controller.frame()).header.seq
            late = [(await stream.frame()).header.seq for _ in range(3)]
    assert late[-1] >= newest, "more than two frames waited in buffers"


async def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL)) as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            await controller.send("set_moving", {"moving": True})
            async with asked(server.port, STREAM) as reading, asked(server.port, STREAM) as stuck:
                await reading.frame()
                await stuck.frame()
                server.interrupt()
                await reading.rest()
                assert server.ended() == 0
        assert "Traceback" not in server.log
        assert "error" not in server.log
