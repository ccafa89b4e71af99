"""Keys as caps over the frame: where they are, what lights them up, and events with a key as buttons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .bound import PADS, PAINTER, WALKER, Fingers, bound, key, keys
from .conftest import LET_FADE, as_modules_and_as_bundle, expect_recorded, open_page, record
from .fake_server import FakeServer
from .schemas import setter

AXIS = {"type": "number", "minimum": -1.0, "maximum": 1.0, "default": 0.0}
EVERYWHERE = {
    **WALKER,
    **PAINTER,
    "set_sidestep": setter("sidestep", "", bound(AXIS, keys("KeyA", "KeyD"))),
    "set_hover": setter("hover", "", bound({"type": "boolean", "default": False}, key("Space"))),
}
del EVERYWHERE["jump"]


@pytest.fixture
def stage(browser: Browser, server: FakeServer) -> Iterator[Page]:
    server.script.events = WALKER
    with open_page(browser, server.url, drawer=False) as page:
        page.add_init_script(PADS)
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        expect(page.locator(".legend")).to_be_visible()
        yield page


def cap(page: Page, code: str) -> Locator:
    return page.locator(f"[data-key={code}]")


def place(page: Page, code: str) -> tuple[float, float]:
    box = cap(page, code).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_caps_are_where_the_keys_are(stage: Page, server: FakeServer) -> None:
    server.script.events = EVERYWHERE
    stage.reload()
    expect(cap(stage, "KeyW")).to_be_visible()
    (w, w_y), (s, s_y), (a, a_y), (d, d_y) = (place(stage, f"Key{letter}") for letter in "WSAD")
    assert w == s
    assert w_y < s_y == a_y == d_y
    assert a < s < d
    assert place(stage, "Space")[1] > place(stage, "Shift")[1] > s_y
    assert place(stage, "Shift")[0] < a
    up, left, down, right = (place(stage, f"Arrow{name}") for name in ("Up", "Left", "Down", "Right"))
    assert up[0] == down[0]
    assert left[0] < down[0] < right[0]
    assert up[1] < down[1] == left[1] == right[1]
    assert left[0] > d
    assert max(w, right[0]) < 640


def test_keys_without_a_place_are_named_beside_the_caps(stage: Page, server: FakeServer) -> None:
    server.script.events = {"set_climb": setter("climb", "", bound(AXIS, keys("PageDown", "PageUp")))}
    stage.reload()
    expect(stage.locator(".caps > span")).to_have_text("page up page down climb")
    expect(stage.locator(".caps figure")).to_have_count(0)


@as_modules_and_as_bundle
def test_a_cap_is_lit_while_its_key_is_held(stage: Page) -> None:
    stage.keyboard.down("w")
    stage.keyboard.down("Shift")
    for code in ("KeyW", "Shift"):
        expect(cap(stage, code)).to_have_attribute("data-held", "")
    expect(cap(stage, "KeyS")).not_to_have_attribute("data-held", "")
    stage.keyboard.up("Shift")
    expect(cap(stage, "Shift")).not_to_have_attribute("data-held", "")
    stage.evaluate("window.dispatchEvent(new Event('blur'))")
    expect(stage.locator("[data-held]")).to_have_count(0)


def test_a_gamepad_lights_the_keys_that_do_the_same(stage: Page) -> None:
    stage.evaluate("plug([0, 0.8, 0, 0], {0: 1})")
    expect(cap(stage, "KeyS")).to_have_attribute("data-held", "")
    expect(cap(stage, "Space")).to_have_attribute("data-held", "")
    stage.evaluate("plug([0, -0.8, 0, 0])")
    expect(cap(stage, "KeyW")).to_have_attribute("data-held", "")
    expect(stage.locator("[data-held]")).to_have_count(1)
    stage.evaluate("unplug()")
    expect(stage.locator("[data-held]")).to_have_count(0)


def test_sticks_and_buttons_light_up_while_they_are_held(browser: Browser, server: FakeServer) -> None:
    server.script.events = WALKER
    with open_page(browser, server.url, drawer=False) as page:
        page.goto("/")
        expect(page.locator(".legend")).to_be_visible()
        # A laptop with a touch screen shows both.
        page.locator(".stage").dispatch_event("pointerdown", {"pointerType": "touch", "button": 2})
        stick, run = page.locator(".touch-stick"), page.locator(".touch").get_by_role("button", name="Run")
        expect(stick).to_be_visible()
        fingers = Fingers(page)
        ring, button = stick.bounding_box(), run.bounding_box()
        assert ring is not None
        assert button is not None
        x, y = ring["x"] + 50, ring["y"] + 50
        fingers.put((x, y), (button["x"] + 20, button["y"] + 20))
        fingers.move((x, y - 60), (button["x"] + 20, button["y"] + 20))
        expect(stick).to_have_attribute("data-held", "")
        expect(run).to_have_attribute("data-held", "")
        fingers.lift()
        expect(page.locator("[data-held]")).to_have_count(0)


def test_an_event_with_a_key_is_a_button_with_its_cap(stage: Page, server: FakeServer) -> None:
    jump = stage.get_by_role("group", name="Events with a key").get_by_role("button", name="Jump")
    expect(jump.locator("kbd")).to_have_text("space")
    jump.click()
    assert server.wait_for("jump") == {}
    stage.keyboard.down("Space")
    expect(cap(stage, "Space")).to_have_attribute("data-held", "")


def test_a_held_stick_brings_the_plates_back(stage: Page) -> None:
    stage.evaluate(LET_FADE)
    stage.mouse.move(600, 300)
    expect(stage.locator("html[data-idle]")).to_be_attached()
    record(stage, "'idle' in document.documentElement.dataset")
    stage.evaluate("plug([0, 0.8, 0, 0])")
    expect_recorded(stage, False)
    expect(stage.locator(".status")).to_have_css("opacity", "1")
