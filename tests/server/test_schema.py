"""What a running server says, held against the document it gives of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.server.encoding.encodings import encoding_names
from tests.cli.command import reactor
from tests.openapi import Document, flaws, strict, validator
from tests.server.client import WireClient, client
from tests.server.running import RunningServer, listening, write_project

# tests/server/test_reload.py compares them with their descriptions.
SAID_ONLY_WITH_RELOAD = {"reactor.contract", "reactor.keep", "reactor.reload"}
SAID_ONLY_BY_A_FRONT = {"reactor.redirect"}
# tests/client/test_steps.py requests steps.
SAID_ONLY_WITH_SEATS = {"reactor.seats"}
SAID_ONLY_WHEN_STEPPED = {"reactor.stepped"}

MODEL = """
class Progress(ModelMessage):
    step: int


class Painted(ModelMessage):
    strokes: int = MessageField(default=1, description="How many")


class MyState(InputState):
    level: int = InputField(default=40, ge=0, le=255, description="How bright")
    caption: str | None = None


class MyModel(ReactorPipeline):
    state: MyState

    @event(name="paint", description="Draw something")
    def paint(self, strokes: int = 1) -> Painted:
        return Painted(strokes)

    @event(name="say it")
    async def say(self):
        await self.send(Progress(3))

    @event(name="refuse")
    def refuse(self):
        raise CommandError("too_late", "the picture is done")

    @event(name="fail")
    def fail(self):
        self.failing = True

    failing = False

    def inference(self):
        while True:
            if self.failing:
                self.failing = False
                raise RuntimeError("as asked")
            yield gray(self.state.level)
"""
SLOW = """
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
"""


@pytest.fixture
def document(server: RunningServer) -> Document:
    status, body = server.get("/schema")
    assert status == 200
    found: Document = json.loads(body)
    return found


def test_the_server_gives_the_document_that_the_command_prints(server: RunningServer, document: Document) -> None:
    assert flaws(document) == []
    printed = json.loads(reactor("schema", cwd=server.output.parent).out)
    assert printed["servers"] == [{"url": "http://127.0.0.1:8080"}]
    # Of the server, not of the model.
    assert document["x-reactor"].pop("encodings") == encoding_names("auto")
    assert document == {**printed, "servers": [{"url": "/"}]}


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/live", "/metrics", "/ready", "/schema"])
def test_every_route_answers_as_described(server: RunningServer, document: Document, path: str) -> None:
    status, body = server.get(path)
    content = document["paths"][path]["get"]["responses"][str(status)]["content"]
    if "application/json" not in content:
        assert list(content) == ["text/html" if path in ("/", "/docs") else "text/plain"]
        begins = {
            "/": "<!doctype html>",
            "/docs": "<!doctype html>",
            "/live": "ok",
            "/metrics": "# HELP ",
            "/ready": "ready",
        }
        assert body.startswith(begins[path])
        return
    found = strict(document)
    found["components"]["schemas"]["Answer"] = content["application/json"]["schema"]
    assert list(validator(found, "Answer").iter_errors(json.loads(body))) == []


async def test_everything_said_in_a_session_is_as_described(server: RunningServer, document: Document) -> None:
    async with client(server.url, role="viewer") as viewer, client(server.url) as controller:
        await _talk(controller)
        async with client(server.url) as waiting:
            await waiting.message("reactor.queue")
        await controller.send("fail")
        await controller.closed()
        await viewer.message("reactor.session", phase="ended")
        said = [*controller.texts, *viewer.texts, *waiting.texts]
    described = document["components"]["schemas"]["ServerMessage"]["discriminator"]["mapping"]
    elsewhere = SAID_ONLY_WITH_RELOAD | SAID_ONLY_BY_A_FRONT | SAID_ONLY_WHEN_STEPPED | SAID_ONLY_WITH_SEATS
    assert {message["type"] for message in said} == described.keys() - elsewhere
    schema = validator(strict(document), "ServerMessage")
    for message in said:
        errors = [error.message for error in schema.iter_errors(message)]
        assert errors == [], message


async def _talk(controller: WireClient) -> None:
    """Have the server say one of everything."""
    await controller.message("reactor.session", phase="started")
    await controller.send("set_level", {"level": 80})
    await controller.message("reactor.state")
    await controller.ask("set_level", {"level": "high"})
    await controller.ask("set_caption", {"caption": None})
    await controller.ask("paint", {"strokes": 3})
    await controller.send("paint")
    await controller.message("painted")
    await controller.send("say it")
    await controller.message("progress")
    await controller.ask("refuse")
    await controller.ask("no such event")
    await controller.send("reactor.view", {"speed": 1})
    await controller.message("reactor.error")
    await controller.send("reactor.ping", {"t": 1.5})
    await controller.message("reactor.pong")
    for _ in range(3):
        seq = (await controller.frame()).header.seq
        await controller.send("reactor.ack", {"track": "main_video", "seq": seq})
        await controller.message("reactor.stats")


async def test_what_is_said_while_loading_is_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    with listening(write_project(tmp_path / "model", SLOW + MODEL)) as server:
        status, body = server.get("/schema")
        assert (status, body) == (503, "the model's class is being imported; ask again\n")
        async with client(server.url) as controller:
            await controller.message("reactor.session", phase="loading")
            (tmp_path / "go").touch()
            await controller.message("reactor.session", phase="started")
        schema = validator(strict(json.loads(server.get("/schema")[1])), "ServerMessage")
        for message in controller.texts:
            schema.validate(message)
        server.stop()


def test_the_schema_is_there_before_load_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    load = "    def load(self, config):\n        print('loading')\n" + SLOW.strip("\n").replace("\n", "\n        ")
    load = load.replace("while", "        while")
    model = MODEL.replace("    failing = False\n", f"    failing = False\n\n{load}\n")
    with listening(write_project(tmp_path / "model", model)) as server:
        server.wait_for("^loading$")
        assert server.health()[1]["status"] == "loading"
        assert server.get("/schema")[0] == 200
        (tmp_path / "go").touch()
        server.wait_for("ready in")
        server.stop()


def strings(value: Any) -> Iterator[str]:
    """List every string in a JSON value, keys as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def test_the_document_names_no_file_of_the_machine(server: RunningServer, document: Document) -> None:
    project = str(server.output.parent)
    assert not [text for text in strings(document) if project in text]
