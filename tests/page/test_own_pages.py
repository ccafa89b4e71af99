"""The pages that docs/client-js.md shows, in a browser against the model of `reactor init`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clients.node import PACKAGE, node, pack
from tests.docs.snippets import one
from tests.server.running import RunningServer, scaffolded, serving

from .conftest import open_page
from .elsewhere import elsewhere
from .test_served import PIXELS

ADDRESS = "http://127.0.0.1:8080"
REACT = {
    "react": "react/cjs/react.development.js",
    "react/jsx-runtime": "react/cjs/react-jsx-runtime.development.js",
    "scheduler": "scheduler/cjs/scheduler.development.js",
    "react-dom": "react-dom/cjs/react-dom.development.js",
    "react-dom/client": "react-dom/cjs/react-dom-client.development.js",
}
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body><button>Leave</button>
<script type="importmap">IMPORTS</script><script type="module" src="/main.js"></script>"""
MAIN = """
import { createElement, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App.js";
const root = createRoot(document.body.appendChild(document.createElement("div")));
root.render(createElement(StrictMode, null, createElement(App)));
document.querySelector("button").onclick = () => root.unmount();
"""
COMPILE = """
import("typescript").then(({ default: ts }) => {
  const compilerOptions = { jsx: "react-jsx", target: "es2022", module: "es2022" };
  console.log(ts.transpileModule(process.env.SOURCE, { compilerOptions }).outputText);
});
"""


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {}


@pytest.fixture(scope="module")
def origin(files: dict[str, bytes]) -> Iterator[str]:
    with elsewhere(files) as origin:
        yield origin


@pytest.fixture(scope="module")
def served(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(scaffolded(tmp_path_factory.mktemp("scaffold")), "--allow-origin", origin) as server:
        yield server


@pytest.fixture
def page(browser: Browser, origin: str, served: RunningServer) -> Iterator[Page]:
    with open_page(browser, origin) as page:
        yield page
    served.wait_for_health("ready")


def example(title: str, served: RunningServer) -> str:
    text = one("client-js.md", title).text
    assert ADDRESS in text
    return text.replace(ADDRESS, f"http://127.0.0.1:{served.port}")


def bright(page: Page, comparison: str) -> None:
    page.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) {comparison}")


def test_the_page_of_the_docs_shows_and_steers(page: Page, served: RunningServer, files: dict[str, bytes]) -> None:
    files["/"] = example("index.html", served).replace("<title>", '<link rel="icon" href="data:,"><title>').encode()
    page.goto("/")
    expect(page.locator("#status")).to_have_text("connected")
    bright(page, "> 20")
    page.get_by_role("slider").fill("0")
    bright(page, "< 2")
    page.get_by_role("slider").fill("1")
    page.locator("[name=x]").fill("0.2")
    page.get_by_role("button").click()
    expect(page.locator("output")).to_have_text("done")
    page.locator("[name=x]").fill("3")
    page.get_by_role("button").click()
    expect(page.locator("output")).to_contain_text("splash.x:")


def test_the_component_of_the_docs_shows_and_steers(
    page: Page, served: RunningServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    package = pack(tmp_path)
    files |= {f"/package/{path.relative_to(package)}": path.read_bytes() for path in package.rglob("*.js")}
    files |= react()
    files["/App.js"] = node("-e", COMPILE, cwd=PACKAGE, SOURCE=example("App.jsx", served)).encode()
    files["/main.js"] = MAIN.encode()
    imports = {name: f"/{name}.js" for name in REACT} | {"@reactor-live/client/react": "/package/react.js"}
    files["/"] = PAGE.replace("IMPORTS", json.dumps({"imports": imports})).encode()
    connections: list[str] = []
    page.on("websocket", lambda socket: connections.append(socket.url))
    page.goto("/")
    expect(page.get_by_text("connected")).to_be_visible()
    assert len(connections) == 1, "StrictMode calls each effect twice"
    bright(page, "> 20")
    page.get_by_role("slider").fill("0")
    bright(page, "< 2")
    expect(page.get_by_role("slider")).to_have_value("0")
    page.get_by_role("button", name="Leave").click()
    served.wait_for_health("ready")


def react() -> dict[str, bytes]:
    """Make modules for browsers of what React ships as CommonJS, with its checks for developers."""
    parts = [
        "export const modules = {};",
        'const process = { env: { NODE_ENV: "development" } };',
        "const require = (name) => modules[name];",
    ]
    for name, file in REACT.items():
        text = (PACKAGE / "node_modules" / file).read_text(encoding="utf-8")
        parts += [
            "{ const module = { exports: {} };",
            f"((exports) => {{\n{text}\n}})(module.exports);",
            f"modules[{name!r}] = module.exports; }}",
        ]
    files = {"/modules.js": "\n".join(parts)}
    for name in REACT:
        exported = json.loads(node("-p", f"JSON.stringify(Object.keys(require({name!r})))", cwd=PACKAGE))
        names = ", ".join(exported)
        files[f"/{name}.js"] = (
            f'import {{ modules }} from "/modules.js";\nexport const {{ {names} }} = modules[{name!r}];'
        )
    return {path: text.encode() for path, text in files.items()}
