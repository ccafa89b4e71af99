"""Three clients in a row: each finds everything as the first one found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.client import WireClient, client, picture
from tests.server.pauses import STYLES, finds_everything_fresh, write_moments
from tests.server.running import RunningServer, serving


@pytest.fixture(scope="module", params=STYLES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_moments(tmp_path_factory.mktemp("moments"), request.param)) as server:
        yield server


async def leave_traces(visitor: WireClient) -> None:
    """Change what can be changed, and leave pictures nobody has read and events nobody has handled."""
    await finds_everything_fresh(visitor)
    for _ in range(20):
        await visitor.socket.send(picture(250))
        await visitor.send("set_level", {"level": 250})


async def test_three_clients_one_after_the_other(server: RunningServer) -> None:
    for _ in range(3):
        async with client(server.url) as visitor:
            await leave_traces(visitor)
        server.wait_for_health("ready")


async def test_three_clients_in_line(server: RunningServer) -> None:
    async with client(server.url) as first, client(server.url) as second, client(server.url) as third:
        for visitor in (first, second, third):
            await leave_traces(visitor)
            await visitor.socket.close()
    server.wait_for_health("ready")


async def test_a_viewer_of_all_three_sees_each_begin_anew(server: RunningServer) -> None:
    async with client(server.url, role="viewer") as viewer:
        for _ in range(3):
            async with client(server.url) as visitor:
                await leave_traces(visitor)
                await viewer.data("reactor.session", phase="started")
                first = await viewer.frame()
                while first.header.flags & 2:  # the picture that was on screen when the viewer came
                    first = await viewer.frame()
                assert (first.header.seq, first.header.applied) == (0, 0)
            await viewer.data("reactor.session", phase="ended")
    server.wait_for_health("ready")
