"""One server for all that is thrown at it, which goes on serving others and keeps its log clean of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.processes import descriptors
from tests.server.bare import MODEL
from tests.server.client import client
from tests.server.running import RunningServer, serving, write_project


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("model"), MODEL)) as server:
        yield server


@pytest.fixture(scope="module")
def server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """Whatever is done to it, others are served then, and nothing of it is held, or logged as a fault of ours."""
    asyncio.run(_is_served(shared_server))
    before, held = len(shared_server.log), descriptors(shared_server.process.pid)
    yield shared_server
    asyncio.run(_is_served(shared_server))
    shared_server.until(lambda: descriptors(shared_server.process.pid) <= held, "end of its connections")
    log = shared_server.log[before:]
    assert "Traceback (most recent call last)" not in log
    assert not re.search(r"^\S+ error ", log, re.MULTILINE)


async def _is_served(server: RunningServer) -> None:
    async with client(server.url, role="viewer") as viewer:
        await viewer.send("reactor.ping", {"t": 1})
        await viewer.data("reactor.pong", t=1)
