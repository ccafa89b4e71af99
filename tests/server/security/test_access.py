"""A real server and requests that it refuses: without the token, by another host name, from another site."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from tests.server.bare import MODEL, SECRET, bare, handshake
from tests.server.client import WireClient, client, connect
from tests.server.running import RunningServer, serving, write_project
from tests.server.security.test_certificate import make_certificate
from tests.server.stream import asked


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("open"), MODEL)) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("guarded"), MODEL)
    with serving(project, "--token", SECRET, "--log-level", "debug") as server:
        yield server
        assert SECRET not in server.log.partition("ready in")[2]


async def refused(url: str, **options: object) -> tuple[int, str]:
    """Try to connect; return the status and the text of the refusal."""
    with pytest.raises(InvalidStatus) as raised:
        async with connect(url, **options):  # type: ignore[arg-type]  # any of its options
            pass
    response = raised.value.response
    return response.status_code, bytes(response.body or b"").decode()


async def test_a_client_without_the_token_is_refused_with_the_reason(guarded: RunningServer) -> None:
    assert await refused(guarded.url) == (401, "this server requires a token\n")
    assert await refused(f"{guarded.url}?token=wrong") == (401, "the token is wrong\n")
    headers = {"Authorization": "Bearer wrong"}
    assert await refused(guarded.url, additional_headers=headers) == (401, "the token is wrong\n")


async def test_a_client_with_the_token_is_served(guarded: RunningServer) -> None:
    async with client(guarded.url, token=SECRET) as controller:
        await controller.frame()
    for headers in ({"Authorization": f"Bearer {SECRET}"}, {"X-Reactor-Token": SECRET}):
        async with connect(f"{guarded.url}?role=viewer", additional_headers=headers) as socket:
            await WireClient(socket).data("reactor.welcome")


def test_health_without_the_token_returns_only_the_status(guarded: RunningServer) -> None:
    guarded.wait_for_health("ready")
    assert guarded.health() == (200, {"status": "ready"})
    assert json.loads(guarded.get(f"/health?token={SECRET}")[1])["model"] == "my-model"
    assert guarded.get("/live")[0] == 200
    assert guarded.get("/schema")[0] == 401
    assert guarded.get(f"/schema?token={SECRET}")[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/snapshot/main_video.jpg"), ("GET", "/stream/main_video.mjpg"), ("POST", "/uploads?key=x")],
)
async def test_images_and_uploads_need_the_token(guarded: RunningServer, method: str, path: str) -> None:
    async with asked(guarded.port, path, method=method) as answer:
        assert answer.status == 401
    async with asked(guarded.port, f"{path}{'&' if '?' in path else '?'}token={SECRET}", method=method) as answer:
        assert answer.status != 401


async def test_a_page_of_another_site_may_not_upload(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        headers = "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\nConnection: close\r\n"
        writer.write(f"POST /uploads?key=x HTTP/1.1\r\n{headers}\r\n".encode())
        answer = (await reader.read()).decode()
    assert answer.startswith("HTTP/1.1 403 ")
    assert "--allow-origin http://evil.example " in answer


async def test_a_socket_of_a_page_of_another_site_is_refused(open_server: RunningServer) -> None:
    status, words = await refused(open_server.url, origin="http://evil.example")
    assert (status, "--allow-origin http://evil.example " in words) == (403, True)
    async with connect(
        f"{open_server.url}?role=viewer", origin=Origin(f"http://127.0.0.1:{open_server.port}")
    ) as socket:
        await WireClient(socket).data("reactor.welcome")


async def test_an_allowed_site_may_connect_and_read(tmp_path: Path) -> None:
    site = "https://a.example"
    with serving(write_project(tmp_path, MODEL), "--allow-origin", site, "--token", SECRET) as server:
        async with connect(f"{server.url}?token={SECRET}", origin=Origin(site)) as socket:
            await WireClient(socket).data("reactor.welcome")
        for origin, method, token, status in (
            (site, "OPTIONS", "", 200),
            (site, "GET", f"?token={SECRET}", 200),
            (site, "GET", "", 401),
            ("https://b.example", "OPTIONS", "", 400),
        ):
            async with bare(server) as (reader, writer):
                asking = f"Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n"
                writer.write(f"{method} /schema{token} HTTP/1.1\r\nHost: localhost\r\n{asking}\r\n".encode())
                answer = (await reader.read()).decode()
            assert answer.startswith(f"HTTP/1.1 {status} ")
            assert (f"access-control-allow-origin: {site}\r\n" in answer) is (origin == site)


async def test_another_host_name_is_refused(open_server: RunningServer) -> None:
    async with bare(open_server) as (reader, writer):
        writer.write(handshake(open_server, Host="evil.example:80", Origin="http://evil.example:80"))
        answer = (await reader.read()).decode()
    assert answer.startswith("HTTP/1.1 421 ")
    assert "--allow-host evil.example " in answer


async def test_the_server_serves_over_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    own = write_project(tmp_path / "model", MODEL)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with serving(own, "--ssl-certfile", str(certificate), "--ssl-keyfile", str(key), "--token", SECRET) as server:
        port = server.port
        assert f"https://127.0.0.1:{port}/?token={SECRET}\n" in server.log
        async with connect(f"wss://127.0.0.1:{port}/ws?token={SECRET}", ssl=trusting, max_size=None) as socket:
            controller = WireClient(socket)
            await controller.data("reactor.session", phase="started")
            assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
            assert abs((await controller.frame(applied=1)).level - 200) < 3
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(f"GET /?token={SECRET} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        page = (await reader.read()).decode()
        assert "Secure" in page.partition("set-cookie: ")[2].partition("\r\n")[0]
        writer.close()


@pytest.mark.parametrize("arguments", [("--dev",), ("--allow-host", "demo.example"), ("--root-path", "/demo"), ()])
async def test_messages_of_exceptions_are_sent_on_this_machine_and_with_dev(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    failing = MODEL.replace("yield gray(self.state.level)", "yield gray(1); raise OSError('/home/me/secret')")
    told = arguments in ((), ("--dev",))
    dev = ("--allow-host", "demo.example") if arguments == ("--dev",) else ()
    with serving(write_project(tmp_path, failing), *arguments, *dev) as server:
        async with client(server.url) as controller:
            error = await controller.data("reactor.error", code="model_error")
            ended = await controller.data("reactor.session", phase="ended")
            code, reason = await controller.closed()
    for words in (error["message"], ended["message"], reason):
        assert ("secret" in words) is told
        assert "Traceback" not in words
        assert ("(pipeline.py:" in words) is told
        assert str(tmp_path) not in words
    assert code == 1011
