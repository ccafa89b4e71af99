"""A client that vanishes at any moment: the next one is served, and finds everything fresh."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import WireClient, client, controlling
from tests.server.pauses import STYLES, Watch, finds_everything_fresh, go_on, stop_at, vanish, write_moments
from tests.server.running import RunningServer, listening, serving

STOPPING = ["connected", "held connected", "first", "held first", "read", "handler", "held handler"]


@pytest.fixture(scope="module", params=STYLES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_moments(tmp_path_factory.mktemp("moments"), request.param)) as server:
        yield server


@pytest.fixture
def project(server: RunningServer) -> Path:
    """The project of a server that is free."""
    server.wait_for_health("ready")
    return server.output.parent


async def served_next(visitor: WireClient, server: RunningServer) -> None:
    await finds_everything_fresh(visitor)
    await visitor.socket.close()
    server.wait_for_health("ready")


@pytest.mark.parametrize("point", STOPPING)
async def test_while_the_model_is_at(server: RunningServer, project: Path, point: str) -> None:
    stop_at(project, point)
    watch = Watch(server, point)
    async with controlling(server.url) as first, client(server.url) as second:
        await second.data("reactor.queue")
        await first.send("set_level", {"level": 250})
        if point.endswith("handler"):
            await first.frame()
            await first.send("handle")
        watch.wait()
        stop_at(project, "")
        await vanish(first)
        if point.startswith("held"):
            server.wait_for_health("stopping")
            go_on(project)
        await served_next(second, server)


async def test_while_the_model_waits_in_a_full_queue(server: RunningServer, project: Path) -> None:
    stop_at(project, "emit")
    async with controlling(server.url) as first, client(server.url) as second:
        await second.data("reactor.queue")
        await first.send("set_level", {"level": 250})
        assert (await first.frame()).header.seq == 0  # of a batch of 600, with room for four
        stop_at(project, "")
        await vanish(first)
        await served_next(second, server)


async def test_at_once(server: RunningServer, project: Path) -> None:
    stop_at(project, "")
    for _ in range(10):
        async with client(server.url) as first:
            await vanish(first)
    async with client(server.url) as second:
        await served_next(second, server)


@pytest.mark.parametrize("point", ["disconnected", "held disconnected"])
async def test_while_the_model_parts_from_the_one_before(server: RunningServer, project: Path, point: str) -> None:
    stop_at(project, point)
    watch = Watch(server, point)
    async with controlling(server.url) as first, client(server.url) as second, client(server.url) as third:
        await third.data("reactor.queue", position=2)
        await first.frame()
        await vanish(first)
        watch.wait()
        stop_at(project, "")
        assert server.health()[1]["status"] == "stopping"
        await vanish(second)
        await third.data("reactor.queue", position=1)
        go_on(project)
        await served_next(third, server)


async def test_while_it_waits_in_line(server: RunningServer, project: Path) -> None:
    stop_at(project, "")
    async with controlling(server.url) as first, client(server.url) as second, client(server.url) as third:
        await third.data("reactor.queue", position=2)
        await vanish(second)
        await third.data("reactor.queue", position=1)
        await first.ask("set_level", {"level": 250})
        await first.socket.close()
        await served_next(third, server)


async def test_while_it_watches(server: RunningServer, project: Path) -> None:
    stop_at(project, "")
    async with client(server.url, role="viewer") as viewer, client(server.url) as visitor:
        await viewer.frame()
        await vanish(viewer)
        await served_next(visitor, server)
    server.until(lambda: server.health()[1]["viewers"] == 0, "viewer gone")


@pytest.mark.parametrize("style", STYLES)
async def test_while_the_model_loads(style: str, tmp_path: Path) -> None:
    project = write_moments(tmp_path, style)
    with listening(project, "--set", "mode=held load") as server:
        server.wait_for("at load")
        async with client(server.url) as first, client(server.url) as second:
            await second.data("reactor.queue", position=2)
            await vanish(first)
            await second.data("reactor.queue", position=1)
            go_on(project)
            await served_next(second, server)
        server.stop()


async def test_without_a_word(tmp_path: Path) -> None:
    """Whoever answers no ping is let go, controlling or waiting; both styles at once, for it takes 25 s."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(serving(write_moments(tmp_path / style, style))) for style in ("pipeline", "loop")
        ]
        await asyncio.gather(*(silent_ones_are_let_go(server) for server in servers))


async def silent_ones_are_let_go(server: RunningServer) -> None:
    async with controlling(server.url) as first, client(server.url) as second, client(server.url) as third:
        await third.data("reactor.queue", position=2)
        for silent in (first, second):
            await silent.next()
            silent.socket.transport.pause_reading()
        keeping = asyncio.create_task(keep_asking(third))
        await third.data("reactor.queue", position=1)
        await third.data("reactor.session", phase="started")
        keeping.cancel()
        for silent in (first, second):
            silent.socket.transport.abort()


async def keep_asking(visitor: WireClient) -> None:
    """Have something to read once a second: a test waits for each message only so long."""
    while True:
        await visitor.send("reactor.ping", {"t": 0})
        await asyncio.sleep(1)
