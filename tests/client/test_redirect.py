"""A front redirects the client to a real server: for the program it is one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reactor_runtime.client import Phase, connect
from reactor_runtime.client.status import Status
from tests.client.cable import Cable
from tests.clients.fake_front import LOST, FakeFront
from tests.clients.model import MODEL
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("worker"), MODEL)) as server:
        yield server


async def test_a_program_goes_on_at_the_worker_and_at_the_next_one_after_its_loss(server: RunningServer) -> None:
    seen: list[Status] = []
    cable = Cable(server.port)
    with FakeFront() as front:
        async with asyncio.timeout(TIMEOUT_S), cable.laid() as worker, connect(front.url, wait=False) as session:

            async def follow(phase: Phase) -> None:
                async for status in session.statuses():
                    seen.append(status)
                    if status.phase is phase:
                        return

            front.workers.put(worker)
            await follow(Phase.CONNECTED)
            assert {status.phase for status in seen} <= {Phase.CONNECTING, Phase.WAITING, Phase.CONNECTED}
            await anext(session.frames())
            reply = await session.send("measure", file=await session.upload(b"hello", name="note.txt"))
            assert reply.message is not None
            assert reply.message.data == {"words": "note.txt hello"}
            cable.cut()
            while session.status.reason != "lost" or session.status.phase is not Phase.WAITING:
                await follow(Phase.WAITING)
            assert str(session.status).endswith(LOST)
            front.workers.put(worker)
            await session.ready()
            await anext(session.frames())
    assert front.queries == [{"role": "controller", "redirect": "1"}] * 2
    assert front.secrets == [[], ["t-1.secret"]]
