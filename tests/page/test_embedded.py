"""The tools of a picture in another page, on a screen that is touched: there after a tap, and nowhere before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .conftest import open_page
from .fake_server import FakeServer


@pytest.fixture
def embedded(browser: Browser, server: FakeServer) -> Iterator[Page]:
    with open_page(browser, server.url, phone=True) as page:
        page.goto("/?embed")
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        expect(page.locator(".tools")).to_be_attached()
        yield page


def tap(page: Page, place: Locator) -> None:
    box = place.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_tap_shows_the_tools_and_the_next_one_hides_them(embedded: Page) -> None:
    tools, picture = embedded.locator(".tools"), embedded.locator("canvas")
    expect(tools).to_have_css("opacity", "0")
    for opacity in ("1", "0", "1"):
        tap(embedded, picture)
        expect(tools).to_have_css("opacity", opacity)


def test_a_hidden_tool_is_not_hit_unseen(embedded: Page) -> None:
    share, sheet = embedded.get_by_role("button", name="Share"), embedded.locator(".links")
    tap(embedded, share)
    expect(embedded.locator(".tools")).to_have_css("opacity", "1")
    expect(sheet).to_be_hidden()
    tap(embedded, share)
    expect(sheet).to_be_visible()


def test_tools_that_are_in_use_stay(embedded: Page) -> None:
    tools, record = embedded.locator(".tools"), embedded.get_by_role("button", name="Record")
    tap(embedded, record)
    expect(tools).to_have_css("opacity", "1")
    tap(embedded, record)
    expect(record).to_have_attribute("aria-pressed", "true")
    tap(embedded, embedded.locator("canvas"))
    expect(embedded.locator(".stage[data-tools]")).to_have_count(0)
    expect(tools).to_have_css("opacity", "1")
    tap(embedded, record)
    expect(tools).to_have_css("opacity", "0")


def test_the_keyboard_reaches_hidden_tools(embedded: Page) -> None:
    embedded.keyboard.press("Tab")
    expect(embedded.get_by_role("button", name="Save the frame")).to_be_focused()
    expect(embedded.locator(".tools")).to_have_css("opacity", "1")
