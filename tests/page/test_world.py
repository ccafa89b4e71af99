"""The world template in a browser, against a real server: who presses W walks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, scaffolded, serving

from .conftest import open_page

# How much a coarse thumbnail changes in half a second: waves and clouds hardly, a walk a lot.
CHANGE = """async (canvas) => {
  const look = () => {
    const small = Object.assign(document.createElement("canvas"), { width: 8, height: 6 }).getContext("2d");
    small.imageSmoothingQuality = "high";
    small.drawImage(canvas, 0, 0, 8, 6);
    return small.getImageData(0, 2, 8, 4).data;
  };
  const seen = Number(canvas.dataset.seq);
  const before = look();
  await new Promise((passed) => new MutationObserver((_, observer) => {
    if (Number(canvas.dataset.seq) < seen + 15) return;
    observer.disconnect();
    passed();
  }).observe(canvas, { attributes: true }));
  return look().reduce((sum, value, i) => sum + Math.abs(value - before[i]), 0) / before.length;
}"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(
        scaffolded(tmp_path_factory.mktemp("world"), "world"), "--set", "width=160", "--set", "height=90"
    ) as server:
        yield server


@pytest.fixture
def page(browser: Browser, world: RunningServer) -> Iterator[Page]:
    with open_page(browser, f"http://127.0.0.1:{world.port}") as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        expect(page.locator(".legend li").first).to_contain_text("W S or ↑ ↓ walk")
        yield page
    world.wait_for_health("ready")


def change(page: Page) -> float:
    return float(page.locator("canvas").evaluate(CHANGE))


def stand_still(page: Page) -> None:
    for name in ("wander", "clock"):
        page.locator(f"[data-event=set_{name}]").get_by_role("switch").click()
    page.locator("canvas").evaluate(CHANGE)  # the last steps are taken
    page.locator("canvas").evaluate(CHANGE)


def test_who_presses_w_walks_until_it_comes_up(page: Page) -> None:
    stand_still(page)
    standing = change(page)
    page.keyboard.down("Shift")
    page.keyboard.down("w")
    expect(page.locator("[name=walk]")).to_have_value("1")
    expect(page.locator("[data-event=set_run]").get_by_role("switch")).to_be_checked()
    assert change(page) > 3 * standing + 1
    expect(page.locator("#log")).to_contain_text("found")  # the light on the way
    page.keyboard.up("w")
    expect(page.locator("[name=walk]")).to_have_value("0")


def test_who_moves_the_locked_mouse_looks_around(page: Page) -> None:
    stand_still(page)
    standing = change(page)
    page.locator("canvas").click()
    expect(page.locator(".legend")).to_contain_text("Esc releases the mouse")
    before = int(page.locator("canvas").get_attribute("data-applied") or "0")
    for x in range(400, 800, 40):
        page.mouse.move(x, 400)
    page.wait_for_function("before => document.querySelector('canvas').dataset.applied > before", arg=before)
    page.mouse.move(300, 300)
    assert change(page) > 3 * standing + 1
