"""What sessions and servers leave behind: no thread, no task, no open file, no process."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reactor_runtime.server.encoding.encoder import MOST_THREADS
from tests.processes import PROC, children, descriptors, threads
from tests.server.client import WireClient, client, picture
from tests.server.pauses import STYLES, finds_everything_fresh, stop_at, vanish, write_moments
from tests.server.running import RunningServer, serving, started
from tests.server.test_run import Serving
from tests.timeouts import TIMEOUT_S

SESSIONS = 10


@pytest.fixture(scope="module", params=STYLES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_moments(tmp_path_factory.mktemp("moments"), request.param)) as server:
        yield server


async def session(url: str, ending: str) -> None:
    """Do everything there is to do in a session, with somebody watching and somebody in line."""
    async with client(url) as visitor, client(url, role="viewer") as viewer, client(url) as waiting:
        await finds_everything_fresh(visitor)
        for _ in range(5):
            await visitor.socket.send(picture(250))
        await viewer.frame()
        await waiting.data("reactor.queue")
        for each in (waiting, viewer, visitor):
            if ending == "vanish":
                await vanish(each)
            else:
                await each.socket.close()


def held(server: RunningServer) -> tuple[int, ...]:
    """What server and engine hold: descriptors and threads, and the engine."""
    pids = server.process.pid, server.engine
    return tuple(count(pid) for pid in pids for count in (descriptors, threads))


def no_more(now: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Compare one by one; an encoder thread that was not needed before is fine, one a session is not."""
    spare = (0, MOST_THREADS, 0, 0)
    return all(count <= first + more for count, first, more in zip(now, before, spare, strict=True))


async def alive(visitor: WireClient) -> dict[str, int]:
    """Ask the model what is alive in its process."""
    told: dict[str, int] = (await visitor.ask("count"))["data"]["message"]["data"]
    return told


def more_than(first: dict[str, int], now: dict[str, int]) -> bool:
    return any(now[name] > first[name] for name in first)


@pytest.mark.parametrize("ending", ["leave", "vanish"])
async def test_as_much_is_held_after_many_sessions_as_after_one(server: RunningServer, ending: str) -> None:
    await session(server.url, ending)
    async with client(server.url) as visitor:
        await visitor.data("reactor.session", phase="started")
        first = await alive(visitor)
    server.wait_for_health("ready")
    before = held(server)
    for _ in range(SESSIONS):
        await session(server.url, ending)
    server.wait_for_health("ready")
    server.until(lambda: no_more(held(server), before), f"{before}, but {held(server)}")
    deadline = time.monotonic() + TIMEOUT_S
    async with client(server.url) as visitor:
        await visitor.data("reactor.session", phase="started")
        # The session before it may not have released everything yet, as when `first` was asked.
        while more_than(first, now := await alive(visitor)) and time.monotonic() < deadline:  # noqa: ASYNC110  (of another process)
            await asyncio.sleep(0.05)
    assert not more_than(first, now), (now, first)
    server.wait_for_health("ready")


async def test_the_process_of_the_server_keeps_no_task_of_a_session(tmp_path: Path) -> None:
    serving = Serving(write_moments(tmp_path, "loop"), {})
    await serving.until_ready()
    await session(serving.url, "leave")
    tasks = len(asyncio.all_tasks())
    for number in range(SESSIONS):
        await session(serving.url, ("leave", "vanish")[number % 2])
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    await serving.stop()


async def test_a_server_that_has_stopped_leaves_nothing_in_its_process(tmp_path: Path) -> None:
    async def engine_run(name: str) -> None:
        serving = Serving(write_moments(tmp_path / name, "pipeline"), {})
        await serving.until_ready()
        await session(serving.url, "vanish")
        await serving.stop()

    others = children(os.getpid())
    await engine_run("first")  # what is made once stays
    gc.collect()
    files = descriptors(os.getpid())
    await until(lambda: not encoders())
    await engine_run("second")
    gc.collect()
    await until(lambda: descriptors(os.getpid()) <= files and not encoders())
    assert children(os.getpid()) == others


@pytest.mark.parametrize("style", ["pipeline", "loop"])
@pytest.mark.parametrize("point", ["connected", "held first", "read", "emit"])
async def test_a_server_that_is_stopped_leaves_no_process(tmp_path: Path, point: str, style: str) -> None:
    project = write_moments(tmp_path, style)
    stop_at(project, point)
    with started(project) as server:
        server.wait_for("ready in")
        group = server.process.pid
        async with client(server.url) as visitor:
            await (visitor.frame() if point == "emit" else visitor.data("reactor.session", phase="started"))
            if point != "emit":
                server.wait_for(f"at {point.removeprefix('held ')}")
            server.interrupt()
            assert (await visitor.closed())[0] == 1001
        assert server.ended() == 0, server.log
        assert not [pid for pid in processes() if group_of(pid) == group]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  (of other processes and threads)
            await asyncio.sleep(0.005)


def encoders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reactor-")]


def processes() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
