"""The client as it lies in the npm package, in a page of another origin that serves its own copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.clients.model import MODEL
from tests.clients.node import PACKAGE, pack, run
from tests.server.running import RunningServer, serving, write_project

from .conftest import open_page
from .elsewhere import FILES, elsewhere

WITHIN_WORKLETS = ("sound/player.js", "sound/resampler.js")  # a bundler that copies a worklet leaves them out
PUBLISH = """async ([module, url]) => {
  const { connect } = await import(module);
  window.session = connect(url);
  window.said = [];
  session.addEventListener("message", ({ detail }) => said.push(detail.data.words));
  await session.ready();
  const drawing = document.body.appendChild(document.createElement("canvas"));
  const context = drawing.getContext("2d");
  context.fillStyle = "rgb(60 60 60)";
  context.fillRect(0, 0, 300, 150);
  const hum = new OscillatorNode(new AudioContext());
  hum.start();
  await session.publish("camera", drawing);
  await session.publish("microphone", hum);
  await session.speaker.start();
}"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    installed = pack(tmp_path_factory.mktemp("packed"))
    modules = {f"/{path.relative_to(installed)}": path.read_bytes() for path in (installed / "client").rglob("*.js")}
    for name in WITHIN_WORKLETS:
        del modules[f"/client/{name}"]
    with elsewhere({**FILES, **modules, "/bundle.js": bundle(installed.parents[2])}) as origin:
        yield origin


def bundle(directory: Path) -> bytes:
    """Make one file of a program with esbuild, which copies no workers."""
    (directory / "program.js").write_text('export * from "@reactor-live/client/inline";')
    esbuild = str(PACKAGE / "node_modules" / ".bin" / "esbuild")
    run(esbuild, "program.js", "--bundle", "--format=esm", "--minify", "--outfile=bundle.js", cwd=directory)
    return (directory / "bundle.js").read_bytes()


@pytest.fixture(scope="module")
def served(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("packed"), MODEL)
    with serving(project, "--allow-origin", origin) as server:
        yield server


@pytest.mark.parametrize("module", ["/client/reactor.js", "/bundle.js"], ids=["as-it-is", "bundled"])
def test_its_worker_and_its_worklets_need_no_other_file(
    browser: Browser, served: RunningServer, origin: str, module: str
) -> None:
    with open_page(browser, origin) as page:
        page.goto("/")
        page.get_by_role("button").click()
        page.evaluate(PUBLISH, [module, f"http://127.0.0.1:{served.port}"])
        page.wait_for_function("said.some((words) => /^camera (5[7-9]|6[0-3])$/.test(words))")
        page.wait_for_function("said.includes('microphone (1, 960)')")
        page.wait_for_function("session.speaker.on")
        page.evaluate("session.close()")
    served.wait_for_health("ready")
