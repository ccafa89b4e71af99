from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from pathlib import Path

import pytest

from reactor_runtime import manifest
from reactor_runtime.clock import SystemClock
from reactor_runtime.ipc.messages import Load
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.ipc.shortage import EXIT_SHORTAGE
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.workers.engine import EngineCallbacks, EnginePhase
from reactor_runtime.server.workers.supervisor import Supervisor
from tests.server.running import write_project
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).parents[3]
MODEL = """
class MyModel(ReactorPipeline):
    state: InputState

    def inference(self):
        yield gray(0)
"""
# Python imports this first: the first process ends as one that can't fork.
FIRST_ENDS = f"""
import os
try:
    os.unlink(os.path.join(os.path.dirname(__file__), "first"))
except FileNotFoundError:
    pass
else:
    os._exit({EXIT_SHORTAGE})
"""


async def test_an_engine_that_ends_for_lack_of_resources_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    customized = tmp_path / "customized"
    customized.mkdir()
    (customized / "sitecustomize.py").write_text(FIRST_ENDS)
    (customized / "first").touch()
    project = manifest.load(write_project(tmp_path, MODEL))
    ready: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    supervisor = Supervisor(
        Load(str(project.project), project.module, project.class_name, {}, "info", "text"),
        SystemClock(),
        ServeOptions(manifest=project, config={}),
        loading=asyncio.Lock(),
        start=partial(EngineProcess, (None, None), {"PYTHONPATH": os.pathsep.join((str(customized), str(ROOT)))}),
    )
    callbacks = EngineCallbacks(
        on_ready=lambda load_s, _: ready.set_result(load_s),
        on_bundle=[lambda _, __: None],
        on_message=[lambda _: None],
        on_lost=lambda how: pytest.fail(how),
    )
    running = asyncio.create_task(supervisor.run(callbacks))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            load_s = await ready
        assert (supervisor.phase, supervisor.failed_loads) == (EnginePhase.READY, 0)
        assert supervisor.loading_s == load_s
    finally:
        await supervisor.stop()
        await running
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message.startswith("the model's process can't be started, the next try is in 0.5 s: no memory,")
    caplog.clear()
