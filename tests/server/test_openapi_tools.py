"""The document of a running server in the hands of the tools that read such documents."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.node import PACKAGE, ROOT, run
from tests.openapi import Document, flaws
from tests.server.client import client
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

SECRET = "correct-horse"
MODEL = """
class Painted(ModelMessage):
    strokes: int


class MyState(InputState):
    level: int = InputField(default=40, ge=0, le=255, description="How bright")
    image: UploadedFile | None = None


class MyModel(ReactorPipeline):
    state: MyState

    @event(name="paint")
    def paint(self, strokes: int = 1) -> Painted:
        return Painted(strokes)

    def inference(self):
        while True:
            yield gray(self.state.level)
"""
BINARY = """
content_type_overrides:
  image/jpeg: application/octet-stream
  multipart/x-mixed-replace: application/octet-stream
"""
GENERATED = """
import io, sys
from model_client import AuthenticatedClient, errors
from model_client.api.default import connect, health, snapshot, upload
from model_client.models import HealthStatus, SnapshotTrack
from model_client.types import File

url, token, key = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True) as client:
    assert health.sync(client=client).status is HealthStatus.BUSY
    assert snapshot.sync(SnapshotTrack.MAIN_VIDEO, client=client).payload.read(2) == bytes([0xFF, 0xD8])
    assert upload.sync(client=client, body=File(io.BytesIO(b"abc")), key=key, name="a.bin").upload.startswith("u-")
    assert upload.sync_detailed(client=client, body=File(io.BytesIO(b"abc")), key="wrong").status_code == 403
    assert connect.sync_detailed(client=client).status_code == 426
print("done")
"""
USE = """
import type { components, operations, paths } from "./schema";

const event: components["schemas"]["Event.paint"] = { type: "paint", data: { strokes: 2 } };
const said: components["schemas"]["ClientMessage"] = event;
const file: operations["upload"]["requestBody"]["content"]["application/octet-stream"] = "abc";
const tracks: paths["/snapshot/{track}.jpg"]["get"]["parameters"]["path"]["track"][] = ["main_video"];
// @ts-expect-error a number
const wrong: components["schemas"]["Event.paint"] = { type: "paint", data: { strokes: "two" } };
console.log(said, file, tracks, wrong);
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a token: what the document says of tokens then holds."""
    project = write_project(tmp_path_factory.mktemp("model"), MODEL)
    with serving(project, "--token", SECRET) as server:
        yield server


@pytest.fixture
def document(server: RunningServer, tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(server.get(f"/schema?token={SECRET}")[1])
    return path


async def called(*command: str | Path, cwd: Path, **variables: str) -> None:
    """Run a tool to its end, and fail with its output where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output


@functools.cache
def generator() -> Path:
    """Return the programs of the environment in which openapi-python-client is, made where it is missing."""
    done = subprocess.run(
        [ROOT / ".ci" / "generator"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=8 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / ".venv" / "generator" / "bin"


def test_the_document_of_a_server_says_where_it_is_and_what_it_requires(document: Path) -> None:
    found: Document = json.loads(document.read_text())
    assert flaws(found) == []
    assert found["servers"] == [{"url": "/"}]
    assert found["security"] == [{"bearer": []}, {"header": []}, {"query": []}]
    assert found["components"]["securitySchemes"].keys() == {"bearer", "header", "query"}


async def test_schemathesis_finds_no_answer_that_is_not_described(server: RunningServer, tmp_path: Path) -> None:
    async with client(server.url, token=SECRET) as controller:
        key = (await controller.data("reactor.welcome"))["upload_key"]
        await controller.frame()
        await called(
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", Path(__file__).with_name("schemathesis.toml")),
            *("run", f"http://127.0.0.1:{server.port}/schema", "--header", f"Authorization: Bearer {SECRET}"),
            *("--max-examples", "20", "--seed", "1", "--generation-database", "none"),
            cwd=tmp_path,
            UPLOAD_KEY=key,
        )


async def test_openapi_python_client_makes_a_client_that_works(
    server: RunningServer, document: Path, tmp_path: Path
) -> None:
    programs = await asyncio.to_thread(generator)
    (tmp_path / "config.yaml").write_text(BINARY)
    await called(
        *(programs / "openapi-python-client", "generate", "--path", document, "--config", "config.yaml"),
        *("--meta", "none", "--output-path", "model_client", "--fail-on-warning"),
        cwd=tmp_path,
        PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
    )
    async with client(server.url, token=SECRET) as controller:
        key = (await controller.data("reactor.welcome"))["upload_key"]
        await controller.frame()
        url = f"http://127.0.0.1:{server.port}"
        await called(programs / "python", "-c", GENERATED, url, SECRET, key, cwd=tmp_path)


def test_openapi_typescript_makes_types_that_compile(document: Path, tmp_path: Path) -> None:
    run(
        str(PACKAGE / "node_modules" / ".bin" / "openapi-typescript"),
        str(document),
        "--output",
        "schema.ts",
        cwd=tmp_path,
    )
    (tmp_path / "use.ts").write_text(USE)
    compiler = str(PACKAGE / "node_modules" / "typescript" / "bin" / "tsc")
    run("node", compiler, "--noEmit", "--strict", "--target", "es2022", "use.ts", cwd=tmp_path)


def test_redocly_finds_nothing_but_what_a_websocket_is(document: Path, tmp_path: Path) -> None:
    redocly = str(PACKAGE / "node_modules" / ".bin" / "redocly")
    options = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    problems: list[dict[str, Any]] = json.loads(
        run(redocly, "lint", "--format", "json", str(document), cwd=tmp_path, **options)
    )["problems"]
    assert {(each["ruleId"], each["location"][0]["pointer"]) for each in problems} == {
        ("info-license", "#/info"),  # the licence of a model is its author's
        ("no-unused-components", "#/components/schemas/ClientMessage"),  # sent over the socket
        ("operation-2xx-response", "#/paths/~1ws/get/responses"),  # 101 is the success of a WebSocket
    }
