"""`asgi`: a model in a web application that a plain Uvicorn serves, by ASGI's messages only."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from reactor_runtime import asgi
from reactor_runtime.errors import UsageError
from reactor_runtime.options.run_options import RunKeywords
from reactor_runtime.serving import ModelApp
from tests.processes import descendants
from tests.server.client import client, controlling
from tests.server.running import PRELUDE
from tests.server.stream import asked
from tests.test_serving import imported
from tests.timeouts import TIMEOUT_S

MODEL = (
    PRELUDE
    + """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        if config.get("fail"):
            raise OSError("disk on fire")

    def inference(self):
        while True:
            yield gray(self.state.level)
"""
)


@contextlib.asynccontextmanager
async def mounted(model: ModelApp) -> AsyncIterator[int]:
    """Serve an application with the model below /demo on this loop; yield the port."""
    routes = [Route("/", lambda _: PlainTextResponse("mine")), Mount("/demo", model)]
    config = uvicorn.Config(
        Starlette(routes=routes, lifespan=model.lifespan),
        port=0,
        ws="websockets-sansio",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]  # those of pytest stay
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not server.started:
                assert not serving.done()
                await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def until_answer(port: int, path: str, text: str) -> httpx.Response:
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as http,
        asyncio.timeout(TIMEOUT_S),
    ):
        # Nothing announces that the server is ready.
        while text not in (answer := await http.get(path)).text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return answer


@pytest.mark.process
async def test_a_mounted_model_has_its_page_socket_and_streams_below_the_mount(tmp_path: Path) -> None:
    # Other tests of this process may have left processes that serve more tests.
    others = set(descendants(os.getpid()))
    with imported(tmp_path, "served_mounted", MODEL) as model:
        async with mounted(asgi(model, max_viewers=3)) as port:
            await until_answer(port, "/", "mine")
            page = await until_answer(port, "/demo/", "static/main.js")
            assert "default-src 'none'" in page.headers["Content-Security-Policy"]
            async with controlling(f"ws://127.0.0.1:{port}/demo/ws") as controller:
                assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
                assert abs((await controller.frame(applied=1)).level - 200) < 3
                async with asked(port, "/demo/stream/main_video.mjpg") as stream:
                    assert abs((await stream.frame()).level - 200) < 3
                async with client(f"ws://127.0.0.1:{port}/demo/ws", role="viewer") as viewer:
                    await viewer.socket.send(bytes(5000))
                    assert (await viewer.closed())[0] == 1009
                assert (await controller.ask("set_level", {"level": "x"}))["type"] == "reactor.error"
            started = set(descendants(os.getpid())) - others
            assert started
        assert not started & set(descendants(os.getpid())), "its processes end with the lifespan"


@pytest.mark.process
async def test_a_model_that_fails_to_load_leaves_the_application_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with imported(tmp_path, "served_failing", MODEL) as model:
        async with mounted(asgi(model, set={"fail": True})) as port:
            answer = await until_answer(port, "/demo/", "the model can't be served")
            assert answer.status_code == 503
            assert (await until_answer(port, "/", "mine")).status_code == 200
    assert "load() failed: OSError: disk on fire" in caplog.text


async def test_without_its_lifespan_it_answers_what_is_missing(tmp_path: Path) -> None:
    with imported(tmp_path, "served_unstarted", MODEL) as model:
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/demo", asgi(model))]))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.get("/demo/")
    assert answer.status_code == 503
    assert "FastAPI(lifespan=model_app.lifespan)" in answer.text


async def status_of(app: ModelApp) -> int:
    """Return the status of the page: 503 where the model isn't started."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        return (await http.get("/")).status_code


@pytest.mark.process
async def test_a_lifespan_that_is_entered_twice_ends_with_its_last_exit(tmp_path: Path) -> None:
    others = set(descendants(os.getpid()))
    with imported(tmp_path, "served_twice", MODEL) as model:
        app = asgi(model)
        first, second = app.lifespan(), app.lifespan()
        await first.__aenter__()
        await second.__aenter__()
        assert await status_of(app) == 200
        await first.__aexit__(None, None, None)
        assert await status_of(app) == 200
        last = asyncio.create_task(second.__aexit__(None, None, None))
        await asyncio.sleep(0)
        async with app.lifespan():
            await last
            assert await status_of(app) == 200
        assert await status_of(app) == 503
    assert not set(descendants(os.getpid())) - others


class BrokenService:
    async def run_mounted(self) -> None:
        raise RuntimeError("a bug")


async def test_a_bug_of_the_service_is_logged_and_leaves_the_application_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with imported(tmp_path, "served_broken", MODEL) as model:
        app = asgi(model)
    app._app = PlainTextResponse("the model")
    await app._run(BrokenService(), app._app)  # type: ignore[arg-type]  # it needs no more of a service
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        answer = await http.get("/")
    assert (answer.status_code, "the model can't be served" in answer.text) == (503, True)
    assert "RuntimeError: a bug" in caplog.text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"port": 9000}, "does not take port"),
        ({"max_viewer": 3}, "no option max_viewer"),
        ({"allow_host": "http://a"}, "is not a host name"),
    ],
    ids=["of the server", "unknown", "wrong value"],
)
def test_a_wrong_option_is_an_error_at_once(tmp_path: Path, options: RunKeywords, error: str) -> None:
    with imported(tmp_path, "served_wrong", MODEL) as model, pytest.raises(UsageError, match=error):
        asgi(model, **options)
