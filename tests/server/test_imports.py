"""Server and engine import nothing once the model is ready: an import needs descriptors, which may be short by then."""

from __future__ import annotations

import json
from pathlib import Path

from reactor_runtime.server import preload
from tests.server.client import client, controlling
from tests.server.running import serving, write_project
from tests.server.stream import asked

MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    @event(name="take")
    def take(self, file: UploadedFile):
        file.read()

    @event(name="fail")
    def fail(self):
        raise ValueError("of the author's")

    def inference(self):
        while True:
            yield gray(self.state.level)
"""


async def test_nothing_is_imported_once_the_model_is_ready(tmp_path: Path) -> None:
    # Each process writes a line for each module.
    variables = {"PYTHONPROFILEIMPORTTIME": "1"}
    with serving(write_project(tmp_path, MODEL), variables=variables) as server:
        server.wait_for(rf"^import time:.*{preload.MODULES[-1]}$")
        before = len(server.log)
        async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
            await controller.ask("set_level", {"level": 200})
            await controller.frame(applied=1)
            await viewer.frame()
            await controller.data("reactor.stats")
            await controller.send("set_level", {"level": "high"}, "wrong")
            await controller.data("reactor.error")
            await controller.send("no_such_event", {}, "unknown")
            await controller.data("reactor.error")
            await controller.socket.send("{")
            await controller.data("reactor.error")
            for path in ("/", "/docs", "/metrics", "/health", "/ready", "/schema", "/nothing"):
                server.get(path)
            for path in ("/snapshot/main_video.jpg", "/stream/main_video.mjpg"):
                async with asked(server.port, path) as answer:
                    assert answer.status == 200
            await controller.send("fail", {}, "fail")
            await controller.data("reactor.error")
        server.wait_for_health("ready")
        imported = [
            line.rpartition("|")[2].strip()
            for line in server.log[before:].splitlines()
            if line.startswith("import time:")
        ]
    assert imported == [], json.dumps(imported)
