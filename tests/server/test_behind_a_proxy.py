"""A real server behind a reverse proxy: under a path, by another name, and with the proxy's word on who asks."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.typing import Origin

from tests.server.bare import MODEL, SECRET
from tests.server.client import WireClient, connect
from tests.server.proxy import Proxy
from tests.server.running import RunningServer, serving, write_project
from tests.server.stream import asked
from tests.timeouts import TIMEOUT_S

OPTIONS = ("--root-path", "/demo", "--forwarded-allow-ips", "127.0.0.1", "--max-per-address", "2", "--token", SECRET)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("behind"), MODEL), *OPTIONS) as server:
        yield server


async def get(url: str) -> tuple[str, str]:
    """Ask over HTTP; returns the cookie set, if any, and the body."""

    def ask() -> tuple[str, str]:
        request = urllib.request.Request(url, headers={"X-Reactor-Token": SECRET})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return response.headers.get("Set-Cookie", ""), response.read().decode()

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("strips", [True, False], ids=["strips the path", "keeps the path"])
async def test_page_files_schema_and_socket_are_under_the_path(behind: RunningServer, strips: bool) -> None:
    async with Proxy(behind.port, "/demo", strips, "192.0.2.7").running() as port:
        base = f"http://127.0.0.1:{port}/demo"
        cookie, page = await get(f"{base}/?token={SECRET}")
        assert "Path=/demo; " in cookie
        assert "Secure" in cookie
        assert 'src="static/main.js"' in page
        assert "import" in (await get(f"{base}/static/main.js"))[1]
        assert '"./static/client/index.js"' in (await get(f"{base}/reactor.js"))[1]
        assert json.loads((await get(f"{base}/schema"))[1])["servers"] == [{"url": "/demo"}]
        url = f"ws://127.0.0.1:{port}/demo/ws?token={SECRET}"
        async with connect(url, origin=Origin(f"https://127.0.0.1:{port}")) as socket:
            await WireClient(socket).frame()
    assert "from=192.0.2.7" in behind.log


async def test_a_proxy_that_removes_the_upgrade_is_named(behind: RunningServer) -> None:
    async with Proxy(behind.port, "/demo", True, "192.0.2.6").running() as port:
        with pytest.raises(urllib.error.HTTPError) as refusal:
            await get(f"http://127.0.0.1:{port}/demo/ws")
        with refusal.value as answer:
            assert (answer.code, answer.headers["Upgrade"]) == (426, "websocket")
            # the body comes through the proxy, which runs on this loop
            assert b"or a proxy removed it" in await asyncio.to_thread(answer.read)


async def test_clients_behind_the_proxy_are_limited_each_for_itself(behind: RunningServer) -> None:
    others = Proxy(behind.port, "/demo", True, "192.0.2.8")
    async with Proxy(behind.port, "/demo", True, "192.0.2.9").running() as port, others.running() as other:
        url, elsewhere = (f"ws://127.0.0.1:{each}/demo/ws?role=viewer&token={SECRET}" for each in (port, other))
        async with connect(url), connect(url):
            with pytest.raises(Exception, match="HTTP 429"):
                await connect(url)
            async with connect(elsewhere) as socket:
                await WireClient(socket).data("reactor.welcome")


async def test_streams_and_sockets_of_an_address_are_counted_together(behind: RunningServer) -> None:
    path = f"/demo/stream/main_video.mjpg?token={SECRET}"
    async with (
        Proxy(behind.port, "/demo", True, "192.0.2.10").running() as port,
        asked(port, path) as stream,
        connect(f"ws://127.0.0.1:{port}/demo/ws?role=viewer&token={SECRET}"),
        asked(port, path) as refused,
    ):
        assert (stream.status, refused.status) == (200, 429)


async def test_nobody_else_s_word_is_taken(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        async with connect(server.url, additional_headers={"X-Forwarded-For": "192.0.2.7"}) as socket:
            await WireClient(socket).frame()
        assert "192.0.2.7" not in server.log
