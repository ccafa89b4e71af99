"""Cards of presets and buttons of examples, with the images of `reactor thumbnails`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Browser, Page, expect

from reactor_runtime.manifest.page_settings import PageSettings, Thumbnail
from reactor_runtime.server.routes.page_document import PageDocument

from .conftest import open_page
from .fake_server import PAGE, FakeServer
from .schemas import SCHEMA, setter
from .states import connected

JPEG = simplejpeg.encode_jpeg(np.full((36, 64, 3), 128, np.uint8))
STORM, CALM = {"steps": 8, "prompt": "a storm"}, {"steps": 1}
PROMPT = {"type": "string", "default": "", "examples": ["a fox", "a harbour"]}


def of_author(page: Page, server: FakeServer) -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    images = (Thumbnail(STORM, Path("1-storm.jpg")), Thumbnail({"prompt": "a fox"}, Path("2-a-fox.jpg")))
    settings = PageSettings(presets={"Storm": STORM, "Calm": CALM}, thumbnails=images)
    server.script.html = PageDocument(html, settings).render("aurora", server.url, None)
    page.route("**/static/author/**", lambda route: route.fulfill(body=JPEG, content_type="image/jpeg"))


@pytest.fixture
def drawn(page: Page, server: FakeServer) -> Page:
    of_author(page, server)
    return page


def test_presets_are_on_the_stage_of_a_model_with_a_prompt(browser: Browser, server: FakeServer) -> None:
    with open_page(browser, server.url, drawer=False) as page:
        of_author(page, server)
        page.goto("/")
        expect(page.locator("html[data-drawer=closed]")).to_be_attached()
        storm = page.locator(".front").get_by_role("button", name="Storm")
        expect(storm.locator("img")).to_be_visible()
        expect(storm.locator("img")).to_have_attribute("src", "static/author/thumbnails/1-storm.jpg")
        expect(storm.locator("b")).to_be_visible()
        storm.click()
        assert server.wait_for("set_steps") == {"steps": 8}
        assert server.wait_for("set_prompt") == {"prompt": "a storm"}


def test_a_preset_whose_values_have_changed_has_no_image(drawn: Page, server: FakeServer) -> None:
    connected(drawn, server)
    expect(drawn.get_by_role("button", name="Storm").locator("img")).to_have_count(1)
    expect(drawn.get_by_role("button", name="Calm").locator("img")).to_have_count(0)


def test_an_example_has_its_image(drawn: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"set_prompt": setter("prompt", "", PROMPT)}
    connected(drawn, server)
    expect(drawn.get_by_role("button", name="a fox").locator("img")).to_be_visible()
    expect(drawn.get_by_role("button", name="a harbour").locator("img")).to_have_count(0)


def test_without_a_prompt_presets_are_above_the_controls(drawn: Page, server: FakeServer) -> None:
    server.script.events = {name: event for name, event in SCHEMA.items() if name != "set_prompt"}
    connected(drawn, server)
    expect(drawn.locator("#controls").get_by_role("button", name="Storm").locator("img")).to_be_visible()


def test_a_card_keeps_the_focus_when_the_contract_changes(drawn: Page, server: FakeServer) -> None:
    connected(drawn, server)
    drawn.get_by_role("button", name="Storm").focus()
    server.change_contract(events=SCHEMA | {"set_mood": setter("mood", "", {"type": "string", "default": ""})})
    expect(drawn.locator("[data-event=set_mood]")).to_be_attached()
    expect(drawn.get_by_role("button", name="Storm")).to_be_focused()
