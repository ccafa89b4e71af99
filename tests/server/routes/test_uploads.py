"""Uploads, as any HTTP client sends them."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from starlette.applications import Starlette

from reactor_runtime.ipc.messages import UploadedBytes
from reactor_runtime.server.routes.uploads import MOST_AT_ONCE, UploadRoute
from tests.fakes import settle
from tests.processes import stopped
from tests.server.admission_fixture import AdmissionFixture
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, serving, started, write_project
from tests.timeouts import TIMEOUT_S

SMALL = b"small but mine"
LARGE = os.urandom(3 << 20)
MODEL = """
import hashlib


class Got(ModelMessage):
    name: str
    content_type: str
    size_bytes: int
    sha256: str
    piece: str


class MyState(InputState):
    image: UploadedFile | None = None


def got(file):
    with file.open() as opened:
        opened.seek(-5, 2)
        piece = opened.read(3).hex()
    return Got(file.name, file.content_type, file.size_bytes, hashlib.sha256(file.read()).hexdigest(), piece)


class MyModel(ReactorPipeline):
    state: MyState

    @event(name="take")
    def take(self, file: UploadedFile, times: int = 1) -> Got:
        return got(file)

    @event(name="look")
    def look(self) -> Got:
        return got(self.state.image)

    @event(name="crash")
    def crash(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def inference(self):
        while True:
            yield gray(40)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("spool")))
        with serving(write_project(tmp_path_factory.mktemp("uploads"), MODEL)) as server:
            yield server
        assert list(Path(os.environ["TMPDIR"]).iterdir()) == []


def post(server: RunningServer, body: bytes, content_type: str = "image/png", **query: str) -> tuple[int, str]:
    """Send a file; return the status, and the id or the text of the refusal."""
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    try:
        client.request("POST", f"/uploads?{urlencode(query)}", body, {"Content-Type": content_type})
        answer = client.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text)["upload"] if answer.status == 201 else text
    finally:
        client.close()


def spooled() -> list[Path]:
    """Return the files on the disk for the engine."""
    return [path for path in Path(os.environ["TMPDIR"]).rglob("*") if path.is_file()]


def key_of(controller: WireClient) -> str:
    (welcome,) = [text["data"] for text in controller.texts if text["type"] == "reactor.welcome"]
    key: str = welcome["upload_key"]
    return key


@pytest.mark.parametrize("content", [SMALL, LARGE, b""], ids=["small", "large", "empty"])
async def test_an_event_gets_the_file_that_it_refers_to(server: RunningServer, content: bytes) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        padded = content + b"ABCDE"
        status, id = post(server, padded, key=key_of(controller), name="../dir/cat.png")
        assert status == 201
        answer = await controller.ask("take", {"file": {"upload": id}})
        assert answer["data"]["message"]["data"] == {
            "name": "cat.png",
            "content_type": "image/png",
            "size_bytes": len(padded),
            "sha256": hashlib.sha256(padded).hexdigest(),
            "piece": b"ABC".hex(),
        }
        assert spooled() == []


async def test_a_field_keeps_its_file_and_clients_get_its_id(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        _, id = post(server, SMALL, key=key_of(controller))
        await controller.send("set_image", {"image": {"upload": id}})
        assert await controller.data("reactor.state") == {"image": {"upload": id}}
        answer = await controller.ask("look")
        assert answer["data"]["message"]["data"]["size_bytes"] == len(SMALL)
        await controller.send("set_image", {"image": None})
        assert await controller.data("reactor.state") == {"image": None}


async def test_a_file_is_removed_with_its_session(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        key = key_of(controller)
        _, id = post(server, LARGE, key=key)
    server.wait_for_health("ready")
    assert post(server, SMALL, key=key)[0] == 403
    async with controlling(server.url) as controller:
        assert key_of(controller) != key
        answer = await controller.ask("take", {"file": {"upload": id}})
        assert answer["data"]["code"] == "unresolved_upload"
        assert answer["data"]["fields"] == [
            {"path": "take.file", "message": f'there is no file "{id}" in this session; send it to /uploads first'}
        ]
        assert post(server, SMALL, key=key)[0] == 403


async def test_other_wrong_values_beside_an_unresolved_file_are_an_invalid_event(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        answer = await controller.ask("take", {"file": {"upload": "u-1"}, "times": "many"})
        assert answer["data"]["code"] == "invalid_event"
        assert [field["path"] for field in answer["data"]["fields"]] == ["take.file", "take.times"]
        answer = await controller.ask("take", {"file": "cat.png"})
        assert answer["data"]["fields"] == [{"path": "take.file", "message": '"cat.png" is not an object'}]


async def test_an_upload_without_the_key_is_refused(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url), client(server.url, role="viewer") as viewer:
        assert (await viewer.data("reactor.welcome"))["upload_key"] is None
        for key in ("", "guess", "é"):
            status, text = post(server, SMALL, key=key)
            assert status == 403
            assert "upload_key" in text


@pytest.mark.parametrize(
    ("query", "content_type", "status", "words"),
    [
        ({"name": "x" * 300}, "image/png", 400, "no longer than 255"),
        ({"name": "a\nb"}, "image/png", 400, "printable"),
        ({}, "multipart/form-data; boundary=x", 415, "--data-binary"),
    ],
    ids=["long name", "two lines", "form"],
)
async def test_a_refused_upload_is_answered_with_the_reason(
    server: RunningServer, query: dict[str, str], content_type: str, status: int, words: str
) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        answer = post(server, SMALL, content_type, key=key_of(controller), **query)
    assert answer[0] == status
    assert words in answer[1]


async def test_a_file_above_the_limit_is_refused_at_its_header(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
        client.putrequest("POST", f"/uploads?key={key_of(controller)}")
        client.putheader("Content-Length", str((256 << 20) + 1))
        client.endheaders(b"the beginning")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (413, b"a file may have 256 MiB\n")
        client.close()


async def test_an_interrupted_upload_leaves_no_file(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
        client.putrequest("POST", f"/uploads?key={key_of(controller)}")
        client.putheader("Content-Length", str(2 * len(LARGE)))
        client.endheaders(LARGE)
        server.until(lambda: spooled() != [], "a file that grows")
        (file,) = spooled()
        assert file.parent.stat().st_mode & 0o077 == 0, "others of the machine may not look"
        client.close()
        server.until(lambda: spooled() == [], "its end")


async def test_files_that_the_engine_has_not_received_are_limited(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        key = key_of(controller)
        with ThreadPoolExecutor(2 * MOST_AT_ONCE) as senders:
            with stopped(server.engine):
                contents = [SMALL, LARGE] * MOST_AT_ONCE
                answers = [senders.submit(post, server, content, key=key) for content in contents]
                server.until(lambda: sum(answer.done() for answer in answers) == MOST_AT_ONCE, "refusals")
                assert {answer.result()[0] for answer in answers if answer.done()} == {429}
            assert sorted(answer.result()[0] for answer in answers) == [201] * 4 + [429] * 4
        assert post(server, SMALL, key=key)[0] == 201
        assert spooled() == []


async def test_a_crash_of_the_model_invalidates_the_key(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        key = key_of(controller)
        await controller.send("crash")
        await controller.closed()
    assert post(server, LARGE, key=key)[0] == 403
    server.wait_for_health("ready")
    async with controlling(server.url) as controller:
        assert post(server, LARGE, key=key_of(controller))[0] == 201


async def test_the_next_server_removes_the_files_of_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setenv("TMPDIR", str(spool))
    with started(write_project(tmp_path / "first", MODEL)) as killed:
        killed.wait_for("ready in")
        async with controlling(killed.url) as controller:
            assert post(killed, LARGE, key=key_of(controller))[0] == 201
            killed.process.kill()
            await controller.closed()
    (abandoned,) = spool.iterdir()
    with serving(write_project(tmp_path / "second", MODEL)) as following:
        following.wait_for(f"removed the uploads of a server that was killed folder={abandoned}")
        assert list(spool.iterdir()) == []


@pytest.mark.parametrize("moment", ["before the file", "within the file", "before the engine has taken the file"])
async def test_a_file_for_a_session_that_ends_is_refused(services: AdmissionFixture, moment: str) -> None:
    controller, route = services.come(), UploadRoute(services.admission)
    services.begin()
    assert services.slot.session is not None
    path = f"/uploads?key={services.slot.session.uploads.key_of(controller.id)}"

    async def content() -> AsyncIterator[bytes]:
        yield SMALL
        if moment == "within the file":
            services.admission.detach(controller)
        yield SMALL

    if moment == "before the file":
        services.admission.detach(controller)
    transport = httpx.ASGITransport(Starlette(routes=[route.route()]))
    async with asyncio.timeout(TIMEOUT_S), httpx.AsyncClient(transport=transport, base_url="http://server") as sender:
        answer = asyncio.create_task(sender.post(path, content=content()))
        if moment == "before the engine has taken the file":
            while not services.engine.of(UploadedBytes):
                await settle()
            services.end()
        assert ((await answer).status_code, (await answer).text) == (410, "the session is over\n")
    await route.aclose()
