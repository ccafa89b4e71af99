"""The tools of a picture in another page, on a screen that is touched: there after a tap, and nowhere before."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from .bound import PAINTER, WALKER
from .conftest import open_page
from .fake_server import FakeServer
from .test_phone import resize


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
    share, sheet = embedded.get_by_role("button", name="Links"), embedded.locator(".links")
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
    expect(embedded.get_by_role("button", name="Share clip")).to_be_focused()
    expect(embedded.locator(".tools")).to_have_css("opacity", "1")


SAME = """<!doctype html><body style="margin: 0; background: rgb(255 0 255)">
<iframe src="PAGE" style="border: 0; width: 600px; height: 600px"></iframe>"""


def colour_beside_the_frame(page: Page, server: FakeServer, options: str) -> tuple[int, ...]:
    """Return it, in a page that shows the stage in an iframe."""
    page.route("**/around", lambda route: route.fulfill(body=SAME.replace("PAGE", f"/?embed&{options}")))
    page.goto(f"{server.url}around")
    expect(page.frame_locator("iframe").locator("canvas[data-seq]")).to_be_visible()
    image = Image.open(io.BytesIO(page.screenshot(clip={"x": 295, "y": 20, "width": 4, "height": 4})))
    return image.convert("RGB").getpixel((1, 1))  # type: ignore[return-value]  # of an image in RGB


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_background_is_that_of_the_page_around_it(
    page: Page, server: FakeServer, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    assert colour_beside_the_frame(page, server, "background=transparent") == (255, 0, 255)
    assert colour_beside_the_frame(page, server, "fit=contain") != (255, 0, 255)


def test_the_frame_covers_its_place_and_the_pointer_is_right(page: Page, server: FakeServer) -> None:
    server.script.events = {"drop": PAINTER["drop"]}
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"{server.url}?embed&fit=cover")
    expect(page.locator("canvas[data-seq]")).to_be_visible()  # before the first frame the canvas has another shape
    expect(page.locator(".legend")).to_be_visible()
    expect(page.locator("canvas")).to_have_css("object-fit", "cover")
    page.mouse.click(0, 400)
    # The frame is 640×480: at this height 1067 px wide, of which 400 px are visible.
    left = (1067 - 400) / 2 / 1067
    assert server.wait_for("drop") == {"x": pytest.approx(left, abs=0.01), "y": pytest.approx(0.5, abs=0.01)}


def test_the_stage_fills_a_frame_as_low_as_a_phone_on_its_side(embedded: Page) -> None:
    """Where the page itself has the drawer open, and leaves room for the bar."""
    resize(embedded, 844, 390)
    for part in (".front", ".stage"):
        box = embedded.locator(part).bounding_box()
        assert box == {"x": 0, "y": 0, "width": 844, "height": 390}


def test_without_hints_there_is_the_frame_alone(page: Page, server: FakeServer) -> None:
    server.script.events = WALKER
    server.script.sounds = {"music": 44100}
    page.goto(f"{server.url}?embed&hints=0")
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    expect(page.locator(".legend")).to_be_attached()
    for part in (".legend", ".touch", ".tools", "#listen"):
        expect(page.locator(part)).to_be_hidden()
    page.keyboard.down("w")
    server.wait_for("set_walk", lambda data: data["walk"] == 1)
