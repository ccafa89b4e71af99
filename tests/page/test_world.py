"""The world template in a browser, against a real server: keys walk, and the locked mouse turns the view."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, scaffolded, serving

from .conftest import open_page

THUMBNAIL = """(canvas) => {
  const small = Object.assign(document.createElement("canvas"), { width: 8, height: 6 }).getContext("2d");
  small.imageSmoothingQuality = "high";
  small.drawImage(canvas, 0, 0, 8, 6);
  return [...small.getImageData(0, 2, 8, 4).data];
}"""
# Waves and clouds hardly change a thumbnail, however long they move; a step or a turn changes it a lot.
CHANGE = f"""before => {{
  const after = ({THUMBNAIL})(document.querySelector("canvas"));
  return after.reduce((sum, value, i) => sum + Math.abs(value - before[i]), 0) / after.length;
}}"""
FIFTEEN_FRAMES_LATER = """canvas => new Promise((passed) => {
  const seen = Number(canvas.dataset.seq);
  new MutationObserver((_, observer) => {
    if (Number(canvas.dataset.seq) < seen + 15) return;
    observer.disconnect();
    passed();
  }).observe(canvas, { attributes: true });
})"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(
        scaffolded(tmp_path_factory.mktemp("world"), "world"), "--set", "width=160", "--set", "height=90"
    ) as server:
        yield server


@pytest.fixture
def page(whole_browser: Browser, world: RunningServer) -> Iterator[Page]:
    """The page in a Chromium with its interface: the shell reports the movements of a locked mouse only sometimes."""
    with open_page(whole_browser, f"http://127.0.0.1:{world.port}") as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        expect(page.locator(".legend li").first).to_contain_text("W S or ↑ ↓ walk")
        yield page
    world.wait_for_health("ready")


def stand_still(page: Page) -> None:
    for name in ("wander", "clock"):
        page.locator(f"[data-event=set_{name}]").get_by_role("switch").click()
    # The last steps are taken in the first second.
    for _ in range(2):
        page.locator("canvas").evaluate(FIFTEEN_FRAMES_LATER)


@contextlib.contextmanager
def changed_view(page: Page) -> Iterator[None]:
    """Stand still, and wait at the end of the block until the view has changed by more than while standing."""
    stand_still(page)
    before = page.locator("canvas").evaluate(THUMBNAIL)
    page.locator("canvas").evaluate(FIFTEEN_FRAMES_LATER)
    standing = page.evaluate(CHANGE, before)
    yield
    page.wait_for_function(f"([before, least]) => ({CHANGE})(before) > least", arg=[before, 3 * standing + 1])


def test_holding_w_walks_until_it_is_released(page: Page) -> None:
    with changed_view(page):
        page.keyboard.down("Shift")
        page.keyboard.down("w")
        expect(page.locator("[name=walk]")).to_have_value("1")
        # Its group is closed.
        expect(page.locator("[data-event=set_run] [role=switch]")).to_be_checked()
    # The light on the way.
    expect(page.locator("#log")).to_contain_text("found")
    page.keyboard.up("w")
    expect(page.locator("[name=walk]")).to_have_value("0")


def test_moving_the_locked_mouse_turns_the_view(page: Page) -> None:
    with changed_view(page):
        page.locator("canvas").click()
        expect(page.locator(".legend")).to_contain_text("Esc releases the mouse")
        for x in range(400, 80, -40):
            page.mouse.move(x, 400)
