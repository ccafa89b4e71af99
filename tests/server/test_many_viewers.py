"""Many viewers: joins and leaves at a high rate, viewers that never read, and what a viewer that joins receives."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack
from pathlib import Path

from reactor_runtime.server.delivery.client import Client
from tests.processes import descriptors
from tests.server.bare import MODEL, bare, handshake
from tests.server.client import WireClient, client, controlling
from tests.server.pauses import vanish
from tests.server.running import RunningServer, serving, write_project
from tests.server.test_leftovers import until
from tests.server.test_run import Serving

CROWD = 25
ROUNDS = 4
HELD = 2
NOISE = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        noise = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)
        while True:
            yield noise
"""
IDLE = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        yield gray(self.state.level)
        while True:
            yield Idle
"""


async def _come_and_go(url: str, number: int) -> None:
    """Be one of a storm: gone before the handshake's end, at once, after a picture, or without a word."""
    if number % 4 == 0:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        writer.transport.abort()
        return
    async with client(url, role="viewer") as viewer:
        if number % 4 == 2:
            await viewer.frame()
        elif number % 4 == 3:
            await viewer.message("reactor.welcome")
            await vanish(viewer)


async def _storms(url: str) -> None:
    for _ in range(ROUNDS):
        await asyncio.gather(*(_come_and_go(url, number) for number in range(CROWD)))


async def _newer(controller: WireClient) -> int:
    """Read two frames, the second one younger than this call; gives its number."""
    first = (await controller.frame()).header.seq
    while (seq := (await controller.frame()).header.seq) <= first:
        pass
    return seq


async def test_storms_of_joins_and_leaves_leave_nothing_behind(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await _storms(server.url)  # what is made once stays
        server.until(lambda: server.health()[1]["viewers"] == 0, "viewer left")
        pids = server.process.pid, server.engine
        before = [descriptors(pid) for pid in pids]
        await _storms(server.url)
        server.until(lambda: server.health()[1]["viewers"] == 0, "viewer left")
        server.until(lambda: [descriptors(pid) for pid in pids] <= before, f"{before} descriptors")
        await controller.send("set_level", {"level": 200}, "after the storms")
        await controller.message("reactor.reply")
        await _newer(controller)
    assert "Traceback" not in server.log


def _clients() -> list[Client]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Client]


async def test_storms_leave_no_task_and_no_connection(tmp_path: Path) -> None:
    running = Serving(write_project(tmp_path / "viewers", MODEL), {})
    await running.until_ready()
    tasks = len(asyncio.all_tasks())
    async with controlling(running.url) as controller:
        await _storms(running.url)
        await _newer(controller)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    # The loop may still have callbacks of the last connections.
    await until(lambda: not _clients())
    await running.stop()


async def test_viewers_that_never_read_stop_nobody(tmp_path: Path) -> None:
    with serving(write_project(tmp_path / "noise", NOISE)) as server:
        async with controlling(server.url) as controller, AsyncExitStack() as stack:
            for _ in range(CROWD):
                reader, writer = await stack.enter_async_context(bare(server))
                reader._transport.pause_reading()  # type: ignore[attr-defined]  # or it would read ahead
                writer.write(handshake(server))
            server.until(lambda: server.health()[1]["viewers"] == CROWD, f"{CROWD} viewers")
            server.until(
                lambda: 'skipped_total{reason="socket"} 0.0' not in server.get("/metrics")[1], "skipped frames"
            )
            viewer = await stack.enter_async_context(client(server.url, role="viewer"))
            for level in (40, 90, 140):
                n = (await controller.ask("set_level", {"level": level}, id=level))["data"]["n"]
                await controller.frame(applied=n)
                await viewer.frame(applied=n)
            await viewer.send("reactor.ping", {"t": 1})
            await viewer.message("reactor.pong")
        server.until(lambda: server.health()[1]["viewers"] == 0, "viewer left")


async def test_who_joins_has_the_picture_on_screen_at_once_though_the_model_makes_none(tmp_path: Path) -> None:
    with serving(write_project(tmp_path / "idle", IDLE)) as server:
        async with controlling(server.url) as controller:
            shown = await controller.frame()
            async with AsyncExitStack() as stack:
                limiter = [await stack.enter_async_context(client(server.url, role="viewer")) for _ in range(CROWD)]
                pictures = await asyncio.gather(*(viewer.frame() for viewer in limiter))
            assert {(each.header.seq, each.header.flags & HELD) for each in pictures} == {(shown.header.seq, HELD)}
            assert {each.level for each in pictures} == {shown.level}


async def test_a_hundred_of_one_address_may_watch_and_each_has_every_picture_or_a_newer_one(tmp_path: Path) -> None:
    project = write_project(tmp_path / "hundred", MODEL.replace("fps = 30", "fps = 10"))
    with serving(project, "--max-per-address", "110") as server:
        async with controlling(server.url) as controller, AsyncExitStack() as stack:
            limiter = [await stack.enter_async_context(client(server.url, role="viewer")) for _ in range(100)]
            reply = await controller.ask("set_level", {"level": 200})
            n = reply["data"]["n"]
            pictures = await asyncio.gather(*(viewer.frame(applied=n) for viewer in limiter))
            assert {each.header.applied for each in pictures} == {n}
            assert (await controller.frame(applied=n)).header.applied == n
            assert server.health()[1]["viewers"] == 100


async def test_frames_of_each_viewer_are_in_order_and_counted(server: RunningServer) -> None:
    async with controlling(server.url), AsyncExitStack() as stack:
        limiter = [await stack.enter_async_context(client(server.url, role="viewer")) for _ in range(CROWD)]
        for viewer in limiter:
            seqs = [(await viewer.frame()).header.seq for _ in range(10)]
            assert seqs == sorted(set(seqs))
