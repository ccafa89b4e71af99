"""The page against a real server with the scaffolded model: what a new user sees first, and the faults."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, scaffolded, serving

from .conftest import open_page

PIXELS = """canvas => { const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                        return data.reduce((sum, value, i) => i % 4 === 3 ? sum : sum + value, 0) / data.length; }"""


def slow_down(project: Path) -> None:
    """Let the scaffolded model make 10 frames a second, which take a third of the CPU time of its 30."""
    source = project / "pipeline.py"
    code = source.read_text()
    assert "fps = 30" in code
    source.write_text(code.replace("fps = 30", "fps = 10"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = scaffolded(tmp_path_factory.mktemp("scaffold"))
    slow_down(project)
    with serving(project, "--set", "width=160", "--set", "height=120") as server:
        yield server


@pytest.fixture
def page(browser: Browser, served: RunningServer) -> Iterator[Page]:
    with open_page(browser, f"http://127.0.0.1:{served.port}") as page:
        page.goto("/")
        expect(page.locator("html[data-phase=connected]")).to_be_attached()
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        yield page
    served.wait_for_health("ready")


def painted(page: Page) -> int:
    return int(page.locator("canvas").get_attribute("data-seq") or "-1")


def brightness(page: Page) -> float:
    return float(page.locator("canvas").evaluate(PIXELS))


def test_frames_move(page: Page) -> None:
    first = page.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    page.wait_for_function("first => document.querySelector('canvas').toDataURL() !== first", arg=first)


def test_moving_the_slider_changes_the_picture(page: Page) -> None:
    assert brightness(page) > 20
    page.locator("[name=brightness]").fill("0")
    page.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
    expect(page.locator("[data-figure=delay]")).to_contain_text("ms")


def test_bad_value_shows_its_message_beside_the_control(page: Page) -> None:
    number = page.locator('[data-event="set_brightness"] [type=number]')
    number.fill("3.2")
    number.press("Enter")
    expect(page.locator('[data-error-for="set_brightness"]')).to_contain_text("3.2 is above 2")


def test_page_survives_the_model_being_killed(page: Page, served: RunningServer) -> None:
    engine = served.engine
    # The page may be back before a look at it.
    page.evaluate("""() => new MutationObserver(() => {
        if (document.documentElement.dataset.phase !== "connected") window.hasLeft = true;
    }).observe(document.documentElement, { attributes: true })""")
    os.kill(engine, signal.SIGKILL)
    page.wait_for_function("() => window.hasLeft")
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    first = painted(page)
    page.wait_for_function("first => document.querySelector('canvas').dataset.seq != first", arg=first)
    assert served.engine != engine


def test_second_page_waits_and_is_served_when_the_first_closes(
    page: Page, browser: Browser, served: RunningServer
) -> None:
    with open_page(browser, f"http://127.0.0.1:{served.port}") as second:
        second.goto("/")
        expect(second.locator("html[data-phase=waiting]")).to_be_attached()
        expect(second.get_by_role("status")).to_have_text("Waiting: position 1 of 1")
        page.locator("[name=brightness]").fill("0")
        second.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
        expect(second.locator("#notice-place")).to_have_text("1")
        expect(second.locator("[name=brightness]")).to_be_disabled()
        page.goto("about:blank")
        expect(second.locator("html[data-phase=connected]")).to_be_attached()
        second.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) > 20")
        expect(second.locator("[name=brightness]")).to_be_enabled()


def test_viewer_sees_the_picture_of_the_controller_and_its_values(
    page: Page, browser: Browser, served: RunningServer
) -> None:
    with open_page(browser, f"http://127.0.0.1:{served.port}") as viewer:
        viewer.goto("/?role=viewer")
        expect(viewer.locator("html[data-phase=watching]")).to_be_attached()
        page.locator("[name=brightness]").fill("0")
        viewer.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
        expect(viewer.locator("[name=brightness]")).to_have_value("0")
        expect(viewer.locator("[name=brightness]")).to_be_disabled()


def test_viewer_goes_on_watching_the_next_session(browser: Browser, served: RunningServer) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with open_page(browser, url) as viewer:
        viewer.goto("/?role=viewer")
        for level in ("0", "1.5"):
            with open_page(browser, url) as controller:
                controller.goto("/")
                expect(controller.locator("html[data-phase=connected]")).to_be_attached()
                controller.locator("[name=brightness]").fill(level)
                expect(viewer.locator("[name=brightness]")).to_have_value(level)
            served.wait_for_health("ready")
