"""Descriptions as long as an author likes: three lines of them, and the rest for who asks."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from .fake_server import FakeServer
from .schemas import action, setter

LONG = "Denoising steps for each frame, of which more make a finer picture and fewer a faster one. " * 17
THREE_LINES_PX = 60


@pytest.fixture
def told(page: Page, server: FakeServer) -> Page:
    server.script.events = {
        "set_steps": setter("steps", LONG, {"type": "integer", "minimum": 1, "maximum": 8, "default": 4}),
        "set_seed": setter("seed", LONG[:90], {"type": "integer", "default": 7}),
        "save": action(LONG),
    }
    return page


def height(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["height"]


def test_a_long_description_is_cut_until_more_is_asked_for(told: Page, server: FakeServer) -> None:
    told.goto(server.url)
    hint = told.locator("[data-event=set_steps] .hint")
    more = told.locator("[data-event=set_steps]").get_by_role("button", name="more")
    expect(more).to_have_attribute("aria-expanded", "false")
    expect(hint).to_have_text(LONG.strip())  # whole for who hears it
    assert height(hint) < THREE_LINES_PX
    more.click()
    less = told.locator("[data-event=set_steps]").get_by_role("button", name="less")
    expect(less).to_have_attribute("aria-expanded", "true")
    assert height(hint) > 2 * THREE_LINES_PX
    less.press("Enter")
    expect(more).to_have_attribute("aria-expanded", "false")
    more.press("Space")
    expect(less).to_be_visible()
    expect(told.locator("[data-event=save]").get_by_role("button", name="more")).to_be_visible()
    expect(told.locator("[data-event=set_seed] .more")).to_have_count(0)


def test_viewers_can_ask_for_more(told: Page, server: FakeServer) -> None:
    told.goto(f"{server.url}?role=viewer")
    told.get_by_role("button", name="Controls", exact=True).click()
    expect(told.locator("[name=steps]")).to_be_disabled()
    told.locator("[data-event=set_steps]").get_by_role("button", name="more").click()
    assert height(told.locator("[data-event=set_steps] .hint")) > 2 * THREE_LINES_PX


def test_what_fits_into_three_lines_needs_no_more(told: Page, server: FakeServer) -> None:
    server.script.events = {"set_seed": setter("seed", LONG[:120], {"type": "integer", "default": 7})}
    told.goto(server.url)
    expect(told.locator("[data-event=set_seed] .hint")).to_be_visible()
    expect(told.locator("[data-event=set_seed] .more")).to_be_hidden()
