"""The clients of requests behind proxies, and the time that an application takes."""

from __future__ import annotations

import asyncio
import time

import pytest

from reactor_runtime.server.net.application import Application, Peer, on_thread
from reactor_runtime.server.net.http_reader import Request
from reactor_runtime.server.net.shares import Accounts
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from tests.timeouts import TIMEOUT_S

PROXY = Peer("10.0.0.1", 4711, secure=False)
TRUSTED = ("10.0.0.0/8", "192.0.2.99")


async def _app(*_: object) -> None: ...


def application(*trusted: str) -> Application:
    proxies = Proxies(trusted)
    return Application(_app, LabelledCounter(), proxies, Accounts(exempt=proxies))


def request(**headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request("GET", b"/", "1.1", pairs)


@pytest.mark.parametrize(
    ("trusted", "headers", "address", "secure"),
    [
        (TRUSTED, {}, "10.0.0.1", False),
        (TRUSTED, {"x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https"}, "192.0.2.7", True),
        (TRUSTED, {"x_forwarded_for": "203.0.113.5, 192.0.2.7, 192.0.2.99"}, "192.0.2.7", False),
        (TRUSTED, {"x_forwarded_for": "10.0.0.3, 10.0.0.2"}, "10.0.0.3", False),
        (TRUSTED, {"x_forwarded_for": ""}, "10.0.0.1", False),
        (TRUSTED, {"x_forwarded_proto": "wss"}, "10.0.0.1", True),
        (("*",), {"x_forwarded_for": "203.0.113.5, 192.0.2.7"}, "203.0.113.5", False),
        ((), {"x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https"}, "10.0.0.1", False),
        (("192.0.2.99",), {"x_forwarded_for": "192.0.2.7"}, "10.0.0.1", False),
    ],
    ids=["none", "one", "a forged one first", "all are proxies", "empty", "the scheme only", "all are trusted",
         "not a proxy", "another is a proxy"],
)  # fmt: skip
def test_the_client_is_the_last_address_that_no_proxy_has(
    trusted: tuple[str, ...], headers: dict[str, str], address: str, secure: bool
) -> None:
    client = application(*trusted).client_of(PROXY, request(**headers))
    assert (client.address, client.secure) == (address, secure)


def test_the_scope_of_a_request_has_its_path_decoded_and_its_query_not() -> None:
    app = application()
    asked = Request("GET", b"/a%20b/\xff?c=%20", "1.1", [(b"host", b"x")])
    connection = {1}
    scope = app.scope("websocket", asked, Peer("192.0.2.7", 1, secure=True), ("127.0.0.1", 8080), connection)
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b/ÿ", b"/a%20b/\xff", b"c=%20")
    assert (scope["scheme"], scope["client"], scope["server"]) == ("wss", ("192.0.2.7", 1), ("127.0.0.1", 8080))


def _work(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


@pytest.mark.usefixtures("counted_calls")
async def test_the_steps_of_a_task_are_charged_and_its_waits_are_not() -> None:
    app, steps = application(), list[str]()
    share = app.accounts.of("192.0.2.7", time.monotonic())
    failing = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        _work(0.005)
        await asyncio.sleep(0.05)
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.to_thread(_work, 0.02)
        try:
            await failing
        except RuntimeError:
            steps.append("failed")
        _work(0.005)
        steps.append("ended")

    app.start(serve(), share)
    (task,) = app.tasks
    failing.set_exception(RuntimeError("thrown into it"))
    await task
    assert steps == ["failed", "ended"]
    assert 0.01 <= share.spent_s < 0.02
    await asyncio.sleep(0)
    assert not app.tasks


async def test_a_task_that_is_cancelled_ends_its_steps() -> None:
    app, ended = application(), asyncio.Event()

    async def serve() -> None:
        try:
            await asyncio.sleep(TIMEOUT_S)
        finally:
            ended.set()

    app.start(serve(), app.accounts.of("192.0.2.7", time.monotonic()))
    (task,) = app.tasks
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_on_a_thread_returns_its_result_with_another_server_too() -> None:
    assert await on_thread({"type": "http"}, lambda number: number + 1, 1) == 2
