"""Every construct of the pages on loops and inputs, as they are written, over real sockets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reactor_runtime.client import EventError, Message, Session
from tests.server.client import controlling, picture
from tests.server.running import RunningServer, serving
from tests.server.session_client import level, several, visiting
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


async def go(session: Session, how: str) -> None:
    """Have the loop go on in another way, and wait for a frame made since."""
    await session.frame(after=await session.send("go", how=how))


@pytest.mark.parametrize("how", ["single", "batch"])
async def test_frames_come_evenly_one_by_one_or_in_batches(server: RunningServer, how: str) -> None:
    async with controlling(server.url) as visitor:
        n = (await visitor.ask("go", {"how": how}))["data"]["n"]
        frames = [await visitor.frame(applied=n) for _ in range(12)]
    assert {frame.size for frame in frames} == {(48, 32)}
    assert [b.header.seq - a.header.seq for a, b in itertools.pairwise(frames)] == [1] * 11
    assert min(b.header.pts_us - a.header.pts_us for a, b in itertools.pairwise(frames)) >= 33_332


async def test_an_event_is_handled_while_the_loop_waits_in_emit(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await go(session, "single")
        shown = await session.frame(after=await session.send("set_level", level=200))
        assert abs(level(shown) - 200) < 3
        await session.send("set_level", level=100)


async def test_messages_of_run_come_with_its_frames(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await go(session, "single")
        steps = [message.data["step"] for message in await several(session.messages(), 10)]
    assert steps == list(range(steps[0], steps[0] + 10))


async def test_drop_skips_numbers_and_the_rate_stays(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await go(session, "drop")
        frames = await several(session.frames(), 20)
        await go(session, "single")
    assert frames[-1].seq - frames[0].seq > 40
    assert min(b.pts_s - a.pts_s for a, b in itertools.pairwise(frames)) > 0.0333


async def test_compute_time_and_set_fps_change_the_rate(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await go(session, "adaptive")
        await gap_becomes(session, 0.05)
        await go(session, "single")
        await session.send("set_rate", fps=10.0)
        await gap_becomes(session, 0.1)


async def gap_becomes(session: Session, gap_s: float) -> None:
    before = await session.frame()
    async for frame in session.frames():
        if abs(frame.pts_s - before.pts_s - gap_s) < 0.0001 and frame.seq == before.seq + 1:
            return
        before = frame


async def test_a_flush_shows_black_and_a_wrong_payload_ends_nothing(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.ask("go", {"how": "batch"})
        await visitor.send("cut")
        while not (await visitor.frame()).level < 3:
            pass
        await visitor.ask("go", {"how": "wrong"})
        assert (await visitor.ask("go", {"how": "single"}))["type"] == "reactor.reply"
        assert (await visitor.frame()).size == (48, 32)


async def test_a_model_without_run_lives_in_its_handlers(tmp_path: Path) -> None:
    with serving(write(tmp_path, pages.EVENTS)) as server:
        for _ in range(3):
            async with visiting(server.url) as session:
                reply = await session.send("draw", level=200)
                assert reply.message == Message("progress", {"step": 200})
                frame = await session.frame()  # drawn by the handler, so before the event was applied
                assert (frame.seq, abs(level(frame) - 200) < 3) == (0, True)


@pytest.mark.parametrize("program", [pages.POLLING, pages.READING, pages.FOUR], ids=["try_read", "read", "four"])
async def test_pictures_are_read_as_the_page_says(tmp_path: Path, program: str) -> None:
    with serving(write(tmp_path, program)) as server:
        for _ in range(3):
            async with controlling(server.url) as visitor:
                for sent in (10, 20, 30, 40):
                    await visitor.socket.send(picture(sent))
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
            async with visiting(server.url) as session:
                styles = session.schema["events"]["set_style"]["parameters"]["properties"]["style"]["enum"]
                assert styles == ["none", "oil_paint", "sketch"]
                session.publish("camera", np.full((32, 48, 3), 40, np.uint8))
                assert abs(level(await session.frame()) - 40) < 4
                reply = await session.send("set_style", style="sketch")
                session.publish("camera", np.full((32, 48, 3), 40, np.uint8))
                assert abs(level(await session.frame(after=reply)) - 215) < 4
                with pytest.raises(EventError) as refusal:
                    await session.send("set_style", style="watercolour")
                assert refusal.value.code == "invalid_event"
