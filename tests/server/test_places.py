"""Places of clients from several addresses: 127.0.0.0/8 is all of this machine, and each address counts alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.server.bare import MODEL
from tests.server.client import connect
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

ONE, OTHER = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("places"), MODEL)
    with serving(project, "--max-waiting", "2", "--max-viewers", "2") as server:
        yield server


@contextlib.asynccontextmanager
async def connected(server: RunningServer, address: str, role: str) -> AsyncIterator[ClientConnection]:
    url = f"{server.url}?role={role}"
    async with connect(url, local_addr=(address, 0), compression=None, max_queue=None) as client:
        yield client


async def message(client: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the data of the next message of a kind."""
    async with asyncio.timeout(TIMEOUT_S):
        async for received in client:
            if isinstance(received, str) and (read := json.loads(received))["type"] == kind:
                data: dict[str, Any] = read["data"]
                return data
    raise AssertionError(f"closed before {kind}")


async def closed(client: ClientConnection) -> tuple[int, str]:
    async with asyncio.timeout(TIMEOUT_S):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await client.recv()
    assert client.close_code is not None
    return client.close_code, client.close_reason or ""


async def test_one_address_keeps_neither_the_queue_nor_the_session_from_another(server: RunningServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        controls = await stack.enter_async_context(connected(server, ONE, "controller"))
        await message(controls, "reactor.welcome")
        waits = [await stack.enter_async_context(connected(server, ONE, "controller")) for _ in range(2)]
        assert (await message(waits[1], "reactor.queue"))["position"] == 2
        assert server.get("/ready")[0] == 200
        other = await stack.enter_async_context(connected(server, OTHER, "controller"))
        place = await message(other, "reactor.queue")
        assert (place["position"], place["length"]) == (1, 2)
        code, reason = await closed(waits[1])
        assert code == 1013
        assert "a client of another address came" in reason
        await controls.close()
        await message(other, "reactor.welcome")


async def test_one_address_has_half_of_the_viewers_while_another_asks(server: RunningServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            viewer = await stack.enter_async_context(connected(server, ONE, "viewer"))
            await message(viewer, "reactor.welcome")
        other = await stack.enter_async_context(connected(server, OTHER, "viewer"))
        await message(other, "reactor.welcome")
        assert (await closed(viewer))[0] == 1013
        third = await stack.enter_async_context(connected(server, OTHER, "viewer"))
        assert (await closed(third))[0] == 1013
