"""The author's colour, and controls as they look with it: sliders with ends and unit, and presets as cards."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from reactor_runtime.manifest.page_settings import PageSettings
from reactor_runtime.server.routes.page_document import PageDocument

from .conftest import open_page
from .fake_server import PAGE, FakeServer
from .schemas import SCHEMA, setter
from .states import connected
from .test_stage import luminance

NIGHT = {"brightness": 0.2, "steps": 8}
LENGTH = {"type": "number", "minimum": 0.5, "maximum": 10, "default": 2, "x-reactor-ui": {"unit": "s"}}
SPAN = {
    "type": "array",
    "prefixItems": [{"type": "number", "minimum": 0, "maximum": 90}] * 2,
    "minItems": 2,
    "maxItems": 2,
    "default": [10, 20],
    "x-reactor-ui": {"unit": "°", "widget": "range"},
}
# What is filled: a gradient is read at its start.
COLOR = """(element) => {
  const { backgroundColor, backgroundImage } = getComputedStyle(element);
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = /gradient\\([^(]*?((oklch|rgba?)\\([^)]*\\))/.exec(backgroundImage)?.[1] ?? backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}"""


def of_author(server: FakeServer, accent: str = "") -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    settings = PageSettings(accent=accent, presets={"Night": NIGHT})
    server.script.html = PageDocument(html, settings).render("aurora", server.url, None)
    server.script.events = SCHEMA | {
        "set_length": setter("length", "", LENGTH),
        "set_span": setter("span", "", SPAN),
        "set_on": setter("on", "", {"type": "boolean", "default": True}),
    }


@pytest.fixture
def own(page: Page, server: FakeServer) -> Page:
    of_author(server, "#0a7d55")
    connected(page, server)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_accent_colours_what_is_set_and_sent(own: Page, scheme: Literal["light", "dark"]) -> None:
    own.emulate_media(color_scheme=scheme)
    for part in (".prompt-send", "[name=brightness]", "[name=on]"):
        red, green, blue = own.locator(part).evaluate(COLOR)
        assert green > blue + 20 > red + 40, part
    own.locator("[name=steps]").focus()
    own.keyboard.press("Tab")
    assert own.evaluate("getComputedStyle(document.activeElement).outlineColor") == own.evaluate(
        "getComputedStyle(document.querySelector('.prompt-send')).backgroundColor"
    )


@pytest.mark.parametrize("accent", ["#ffff00", "#00002a"])
def test_an_accent_like_the_page_is_made_visible(browser: Browser, server: FakeServer, accent: str) -> None:
    of_author(server, accent)
    schemes: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
    for scheme in schemes:
        with open_page(browser, server.url) as page:
            page.emulate_media(color_scheme=scheme)
            connected(page, server)
            one, other = (luminance(page.locator(part).evaluate(COLOR)) + 0.05 for part in (".prompt-send", ".side"))
            assert max(one, other) / min(one, other) >= 3, scheme


def test_a_slider_shows_its_ends_and_unit(own: Page) -> None:
    row = own.locator("[data-event=set_length]")
    expect(row.locator(".limits span")).to_have_text(["0.5 s", "10 s"])
    expect(row.locator(".unit")).to_have_text("s")
    expect(own.locator("[data-event=set_span] .limits span")).to_have_text(["0°", "90°"])
    expect(own.locator("[data-event=set_brightness] .limits span")).to_have_text(["0", "2"])


def test_a_preset_is_a_card_with_its_values(own: Page, server: FakeServer) -> None:
    night = own.get_by_role("group", name="Presets").get_by_role("button", name="Night")
    expect(night).to_contain_text("0.2 · 8")
    night.click()
    assert server.wait_for("set_brightness") == {"brightness": 0.2}
    assert server.wait_for("set_steps") == {"steps": 8}


@pytest.mark.parametrize("name", ["steps", "seed"])
def test_an_empty_number_says_so(page: Page, server: FakeServer, name: str) -> None:
    connected(page, server)
    box = page.locator(f"[data-event=set_{name}] .number")
    box.fill("")
    box.press("Enter")
    expect(page.locator(f"[data-error-for=set_{name}]")).to_have_text("Enter a number")


def test_errors_vanish_with_their_session(page: Page, server: FakeServer) -> None:
    connected(page, server)
    box = page.locator("[data-event=set_steps] .number")
    box.fill("99")
    box.press("Enter")
    page.locator("[data-event=spawn] [name=thing]").fill("a long name of a thing")
    page.locator("[data-event=spawn] .button").click()
    page.locator(".prompt textarea").fill("x" * 61)
    page.locator(".prompt textarea").press("Enter")
    for event in ("set_steps", "set_prompt"):
        expect(page.locator(f"[data-error-for={event}]")).not_to_be_empty()
    expect(page.locator("[data-error-param=thing]")).not_to_be_empty()
    server.script.session = "s-2"
    server.close(1011)
    for error in page.locator(".control .error, .action .error, .prompt .error").all():
        expect(error).to_be_empty()
    # What was typed and not taken stays.
    expect(page.locator(".prompt textarea")).to_have_value("x" * 61)
