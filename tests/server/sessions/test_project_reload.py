"""Reloads of a project: the newest files are applied last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from reactor_runtime import manifest
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.options import ReloadOptions, ServeOptions
from reactor_runtime.server.sessions.engine_pool import EnginePool
from reactor_runtime.server.sessions.project_reload import ProjectReload
from tests.fakes import settle


class Engines:
    """Collect the configs that are applied."""

    def __init__(self) -> None:
        self.configs: list[dict[str, Any]] = []

    def reload(self, _: Manifest, config: dict[str, Any], **_options: object) -> None:
        self.configs.append(config)


class NewestFirst(ThreadPoolExecutor):
    """Run each call at once, and return the results of the newest calls first."""

    def __init__(self) -> None:
        super().__init__()
        self._results: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._results.append((future, fn(*args, **kwargs)))
        return future

    async def return_all(self) -> None:
        while self._results:
            future, result = self._results.pop()
            future.set_result(result)
            await settle()


async def test_a_reload_that_begins_later_applies_its_files_last(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: model:Model\nname: model\nconfig: config.yml\n")
    (tmp_path / "model.py").write_text("")
    config = tmp_path / "config.yml"
    config.write_text("level: 0")
    engines, threads = Engines(), NewestFirst()
    options = ServeOptions(manifest=manifest.load(tmp_path), config={})
    project = ProjectReload(options, ReloadOptions(), cast("EnginePool", engines))
    asyncio.get_running_loop().set_default_executor(threads)
    async with asyncio.TaskGroup() as reloads:
        for level in (1, 2):
            config.write_text(f"level: {level}")
            reloads.create_task(project.reload())
            await settle()
        await threads.return_all()
    assert engines.configs == [{"level": 1}, {"level": 2}]
