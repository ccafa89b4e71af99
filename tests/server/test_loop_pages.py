"""Every construct of the pages on loops and inputs, as they are written, over real sockets."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.server.client import Client, client, controlling
from tests.server.running import RunningServer, serving
from tests.testing import pages


def write(directory: Path, program: str) -> Path:
    (directory / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n")
    (directory / "config.yml").write_text("checkpoint: weights\n")
    (directory / "pipeline.py").write_text(program)
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write(tmp_path_factory.mktemp("loop"), pages.LOOP)) as server:
        yield server


@pytest.fixture(autouse=True)
def _settled(request: pytest.FixtureRequest) -> None:
    """Begin with a model that is free and does what it does at first."""
    if "server" in request.fixturenames:
        request.getfixturevalue("server").wait_for_health("ready")


async def go(visitor: Client, how: str) -> None:
    """Have the loop go on in another way, and wait for the first frame made since."""
    answer = await visitor.ask("go", {"how": how})
    await visitor.frame(applied=answer["data"]["n"])


@pytest.mark.parametrize("how", ["single", "batch"])
async def test_frames_come_evenly_one_by_one_or_in_batches(server: RunningServer, how: str) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, how)
        frames = [await visitor.frame() for _ in range(12)]
    assert {frame.size for frame in frames} == {(48, 32)}
    assert [b.header.seq - a.header.seq for a, b in itertools.pairwise(frames)] == [1] * 11
    assert min(b.header.pts_us - a.header.pts_us for a, b in itertools.pairwise(frames)) >= 33_332


async def test_an_event_is_handled_while_the_loop_waits_in_emit(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, "single")
        await visitor.frame()
        n = (await visitor.ask("set_level", {"level": 200}))["data"]["n"]
        shown = await visitor.frame(applied=n)
        assert abs(shown.level - 200) < 3
        await visitor.ask("set_level", {"level": 100})


async def test_messages_of_run_come_with_its_frames(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, "single")
        for _ in range(10):
            await visitor.frame()
    steps = [message["data"]["step"] for message in visitor.texts if message["type"] == "progress"]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert len(steps) >= 10


async def test_drop_skips_numbers_and_the_rate_stays(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, "drop")
        frames = [await visitor.frame() for _ in range(20)]
        await go(visitor, "single")
    assert frames[-1].header.seq - frames[0].header.seq > 40
    assert min(b.header.pts_us - a.header.pts_us for a, b in itertools.pairwise(frames)) >= 33_332


async def test_compute_time_and_set_fps_change_the_rate(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, "adaptive")
        await gap_becomes(visitor, 50_000)
        await go(visitor, "single")
        await visitor.ask("set_rate", {"fps": 10.0})
        await gap_becomes(visitor, 100_000)


async def gap_becomes(visitor: Client, gap_us: int) -> None:
    before = await visitor.frame()
    while True:
        frame = await visitor.frame()
        if abs(frame.header.pts_us - before.header.pts_us - gap_us) < 100 and frame.header.seq == before.header.seq + 1:
            return
        before = frame


async def test_a_flush_shows_black_and_a_wrong_payload_ends_nothing(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await go(visitor, "batch")
        await visitor.send("cut")
        while not (await visitor.frame()).level < 3:
            pass
        await visitor.ask("go", {"how": "wrong"})
        assert (await visitor.ask("go", {"how": "single"}))["type"] == "reactor.reply"
        assert (await visitor.frame()).size == (48, 32)


async def test_a_model_without_run_lives_in_its_handlers(tmp_path: Path) -> None:
    with serving(write(tmp_path, pages.EVENTS)) as server:
        for _ in range(3):
            async with controlling(server.url) as visitor:
                answer = await visitor.ask("draw", {"level": 200})
                assert answer["data"]["message"] == {"type": "progress", "data": {"step": 200}}
            async with controlling(server.url) as visitor:
                await visitor.send("draw", {"level": 200})
                frame = await visitor.frame()
                assert (frame.header.seq, abs(frame.level - 200) < 3) == (0, True)


def picture(level: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (48, 32), (level, level, level)).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.mark.parametrize("program", [pages.POLLING, pages.READING, pages.FOUR], ids=["try_read", "read", "four"])
async def test_pictures_are_read_as_the_page_says(tmp_path: Path, program: str) -> None:
    with serving(write(tmp_path, program)) as server:
        for _ in range(3):
            async with controlling(server.url) as visitor:
                for level in (10, 20, 30, 40):
                    await visitor.socket.send(picture(level))
                levels = [(await visitor.frame()).level for _ in range(4 if program == pages.FOUR else 1)]
                if program != pages.FOUR:  # the newest at the time; which that is depends on who is faster
                    while abs(levels[-1] - 215) > 4:
                        levels.append((await visitor.frame()).level)
                assert abs(levels[-1] - 215) < 4
                for _ in range(3):
                    await visitor.socket.send(picture(99))


async def test_video_to_video(tmp_path: Path) -> None:
    with serving(write(tmp_path, pages.V2V)) as server:
        for _ in range(3):
            async with client(server.url) as visitor:
                welcome = await visitor.data("reactor.welcome")
                assert welcome["schema"]["events"]["set_style"]["parameters"]["properties"]["style"]["enum"] == [
                    "none",
                    "oil_paint",
                    "sketch",
                ]
                await visitor.data("reactor.session", phase="started")
                await visitor.socket.send(picture(40))
                assert abs((await visitor.frame()).level - 40) < 4
                await visitor.ask("set_style", {"style": "sketch"})
                await visitor.socket.send(picture(40))
                assert abs((await visitor.frame(applied=1)).level - 215) < 4
                error = await visitor.ask("set_style", {"style": "watercolour"})
                assert error["data"]["code"] == "invalid_event"
