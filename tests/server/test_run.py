"""The server within this process, so that blocking its loop is an error."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from reactor_runtime import manifest
from reactor_runtime.errors import LoadError
from reactor_runtime.server.backend import EngineBackend
from reactor_runtime.server.options import (
    LoadingProgress,
    ReloadReport,
    ServeOptions,
    ServerListening,
    ServerReady,
    ServerStatistics,
)
from reactor_runtime.server.run import Service
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.slot import SlotSettings
from tests.server.client import client, controlling
from tests.server.running import write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def load(self, config):
        if config.get("fail"):
            raise OSError("disk on fire")

    def inference(self):
        while True:
            yield gray(self.state.level)
"""


@pytest.fixture(autouse=True)
def unblocked() -> Iterator[BlockBuster]:
    """Make blocking calls of the server an error, except when it starts: itself, or a process."""
    with blockbuster_ctx("reactor_runtime.server") as blockbuster:
        for function in blockbuster.functions.values():
            function.can_block_in("reactor_runtime/ipc/process.py", "__init__")
            # As log lines do.
            function.can_block_in("reactor_runtime/server/workers/engine_output.py", "catch_up")
            function.can_block_in("reactor_runtime/server/routes/pages.py", "page_routes")
            function.can_block_in("reactor_runtime/server/routes/pages.py", "file_routes")
            function.can_block_in("reactor_runtime/server/routes/docs_page.py", "docs_route")
            function.can_block_in("reactor_runtime/server/security/middleware.py", "__init__")
        yield blockbuster


class Serving:
    """A service on this loop, and its operator."""

    def __init__(self, project: Path, config: dict[str, Any]) -> None:
        self.listening: list[ServerListening] = []
        self.ready = asyncio.Event()
        options = ServeOptions(manifest=manifest.load(project), config=config)
        sock = socket.create_server(("127.0.0.1", 0))
        self.task = asyncio.create_task(self._run(Service(EngineBackend(SlotSettings.of(options), self), self), sock))

    def on_listening(self, listening: ServerListening) -> None:
        self.listening.append(listening)

    def on_loading(self, loading: LoadingProgress) -> None:
        pass

    def on_ready(self, ready: ServerReady) -> None:  # noqa: ARG002  (the first engine is the only one)
        self.ready.set()

    def on_reload(self, report: ReloadReport) -> None: ...

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None:
        pass

    def on_exit(self) -> None:
        pass

    async def _run(self, service: Service[EngineSlot], sock: socket.socket) -> None:
        with sock:
            await service.run(sock)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.listening[0].port}/ws"

    async def until_ready(self) -> None:
        ready = asyncio.create_task(self.ready.wait())
        await asyncio.wait([ready, self.task], timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            self.task.result()

    async def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(self.task, TIMEOUT_S)


async def test_nothing_blocks_the_server_s_loop(tmp_path: Path) -> None:
    serving = Serving(write_project(tmp_path, MODEL), {})
    await serving.until_ready()
    async with controlling(serving.url) as controller, client(serving.url, role="viewer") as viewer:
        assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
        frames = await asyncio.gather(controller.frame(applied=1), viewer.frame(applied=1))
        assert all(abs(frame.level - 200) < 3 for frame in frames)
        await controller.data("reactor.stats")
    await serving.stop()


async def test_stopping_ends_every_task_and_restores_the_signal_handlers(tmp_path: Path) -> None:
    tasks, handler = len(asyncio.all_tasks()), signal.getsignal(signal.SIGTERM)
    serving = Serving(write_project(tmp_path, MODEL), {})
    await serving.until_ready()
    async with controlling(serving.url) as controller:
        await serving.stop()
        assert (await controller.closed())[0] == 1001
    assert (len(asyncio.all_tasks()), signal.getsignal(signal.SIGTERM)) == (tasks, handler)


async def test_the_reason_why_the_model_cannot_be_served_is_raised(tmp_path: Path) -> None:
    serving = Serving(write_project(tmp_path, MODEL), {"fail": True})
    with pytest.raises(LoadError, match="disk on fire") as raised:
        await asyncio.wait_for(serving.task, TIMEOUT_S)
    assert raised.value.where is not None
    assert 'raise OSError("disk on fire")' in raised.value.where.text
