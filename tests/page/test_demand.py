"""A model that is slower than the camera: the page sends little more than the model takes, and all once it keeps up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserType, Locator, Page, expect

from tests.server.running import serving, write_project
from tests.server.sessions.test_input_demand import MODEL

from .conftest import TIMEOUT_MS, launched, open_page
from .fake_server import FakeServer
from .test_camera import NO_CALLBACKS, NO_STREAMS

FULL = {"rung": 0, "quality": 85, "scale": 1, "why": "full"}
FEW = {"camera": {"came": 5.0, "taken": 0.8, "wanted": 1.0}}
MOST = {"camera": {"came": 30.0, "taken": 28.0, "wanted": 39.0}}
ALL = {"camera": {"came": 5.0, "taken": 5.0, "wanted": None}}
ONE_FPS = re.compile(r"^(?!0\.0)[01]\.\d fps")
# So few that a busy machine makes them, and more than one.
MORE_FPS = re.compile(r"^([3-9]|[1-9]\d)\.\d fps")


@pytest.fixture(scope="module")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    with launched(chromium, "--use-fake-device-for-media-stream=fps=30", "--use-fake-ui-for-media-stream") as browser:
        yield browser


def start(page: Page, server: FakeServer) -> Locator:
    """Start the camera; return the line with its frames a second."""
    server.script.inputs = {"camera": None}
    page.goto(server.url)
    page.get_by_role("button", name="Start").click()
    return page.locator("[data-input=camera] .input-figures")


@pytest.mark.parametrize(
    "inputs", [MOST, ALL, {"depth": FEW["camera"]}], ids=["a few missed", "all", "of another track"]
)
def test_a_model_that_keeps_up_is_sent_all_frames(page: Page, server: FakeServer, inputs: dict[str, Any]) -> None:
    figures = start(page, server)
    server.wait_for_media("camera")
    server.broadcast("reactor.stats", **FULL, inputs=FEW)
    expect(figures).to_contain_text("the model takes")
    expect(figures).to_contain_text(ONE_FPS)
    server.broadcast("reactor.stats", **FULL, inputs=inputs)
    expect(figures).not_to_contain_text("the model takes")
    expect(figures).to_contain_text(MORE_FPS)


@pytest.mark.parametrize("browsers", ["", NO_STREAMS, NO_CALLBACKS], ids=["Chromium", "others", "before callbacks"])
def test_the_page_sends_no_more_frames_than_are_wanted(page: Page, server: FakeServer, browsers: str) -> None:
    page.add_init_script(browsers)
    figures = start(page, server)
    server.wait_for_media("camera")
    server.broadcast("reactor.stats", **FULL, inputs=FEW)
    expect(figures).to_contain_text(" · the model takes 0.8 a second")
    expect(figures).to_contain_text(ONE_FPS)
    server.broadcast("reactor.stats", **FULL, inputs=ALL)
    expect(figures).not_to_contain_text("the model takes")
    expect(figures).to_contain_text(MORE_FPS)


def test_a_server_without_such_figures_is_sent_all_frames(page: Page, server: FakeServer) -> None:
    figures = start(page, server)
    server.broadcast("reactor.stats", **FULL)
    expect(figures).to_contain_text(MORE_FPS)


FOLLOWING = """async (timeoutMs) => {
  const { connect } = await import("/reactor.js");
  const session = connect(location.origin);
  await session.ready();
  const drawing = document.body.appendChild(document.createElement("canvas"));
  const context = drawing.getContext("2d");
  let drawn = 0;
  setInterval(() => {
    context.fillStyle = `rgb(${drawn++ % 255} 0 0)`;
    context.fillRect(0, 0, 300, 150);
  }, 20);
  const capture = await session.publish("camera", drawing.captureStream().getVideoTracks()[0]);
  const sent = [];
  capture.addEventListener("sent", () => sent.push(performance.now()));
  const rate = (over) => sent.filter((at) => at > performance.now() - over).length / over * 1000;
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  const until = async (isSo) => {
    const began = performance.now();
    while (!isSo() && performance.now() - began < timeoutMs) await later(20);
    return isSo();
  };
  await until(() => rate(500) > 10);
  await later(1000); // from here on a second ago was the first picture
  const slow = await until(() => rate(1000) <= 11); // 9, of a model that takes 4
  await session.send("set_step_s", { step_s: 0 });
  const quick = await until(() => rate(1000) > 12);
  session.close();
  return [slow, quick];
}"""


def test_the_rate_of_frames_follows_the_model(browser: Browser, tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        server.wait_for_health("ready")
        with open_page(browser, f"http://127.0.0.1:{server.port}") as page:
            page.goto("/?role=viewer")
            assert page.evaluate(FOLLOWING, TIMEOUT_MS) == [True, True]
