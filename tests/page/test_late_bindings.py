"""Keys pressed before the page can pass them on: it says so, and takes those that are still down."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from .bound import WALKER
from .conftest import as_modules
from .fake_server import FakeServer
from .test_bindings import sent, settled, wait_for

pytestmark = as_modules


@pytest.fixture
def held(page: Page, server: FakeServer) -> list[Route]:
    """Show a model whose bindings are still on their way, until these are let pass."""
    server.script.events = WALKER
    routes: list[Route] = []
    page.route("**/bindings/bindings.js", lambda route: routes.append(route))
    with page.expect_request("**/bindings/bindings.js"):
        page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    return routes


def test_the_page_says_when_it_has_the_controls(page: Page, held: list[Route]) -> None:
    expect(page.locator("#may")).to_have_text("The controls are loading")
    held[0].continue_()
    expect(page.locator("#may")).to_have_text("You have the controls")
    expect(page.locator(".legend")).to_be_attached()


def test_keys_that_are_still_down_hold_and_press_nothing(page: Page, server: FakeServer, held: list[Route]) -> None:
    page.keyboard.down("w")
    page.keyboard.down("Space")
    held[0].continue_()
    expect(page.locator(".legend")).to_be_attached()
    page.keyboard.down("Space")  # both repeat
    page.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    page.keyboard.up("w")
    wait_for(server, "set_walk", 0)
    settled(page, server)
    assert sent(server, "jump") == []
