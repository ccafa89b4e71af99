"""The page of a server with two sessions: each controller its own, and a viewer that goes from one to the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, listening, scaffolded

from .conftest import open_page
from .test_served import PIXELS, slow_down


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = scaffolded(tmp_path_factory.mktemp("scaffold"))
    slow_down(project)
    with listening(project, "--sessions", "2", "--set", "width=160", "--set", "height=120") as server:
        server.wait_for("ready 2 of 2 in")
        yield server
        server.stop()


def control(page: Page, brightness: str) -> None:
    page.goto("/")
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    page.locator("[name=brightness]").fill(brightness)


def test_two_pages_control_a_model_each_and_a_viewer_sees_one_after_the_other(
    browser: Browser, served: RunningServer
) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with open_page(browser, url) as dark, open_page(browser, url) as viewer:
        control(dark, "0")
        dark.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
        with open_page(browser, url) as bright:
            control(bright, "1.5")
            sessions = [engine["session"] for engine in served.health()[1]["engines"]]
            viewer.goto(f"/?role=viewer&session={sessions[1]}")
            expect(viewer.locator("html[data-phase=watching]")).to_be_attached()
            expect(viewer.locator("[name=brightness]")).to_have_value("1.5")
            viewer.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) > 20")
            assert dark.locator("[name=brightness]").input_value() == "0"
        expect(viewer.locator("[name=brightness]")).to_have_value("0")
        viewer.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
        expect(viewer.locator("html[data-phase=watching]")).to_be_attached()
