"""The stage: the frame fills the window, and everything else lies over it and fades."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from reactor_runtime.manifest.page_settings import PageSettings
from reactor_runtime.server.routes.page_document import PageDocument

from .bound import WALKER
from .conftest import open_page
from .fake_server import PAGE, FakeServer
from .reloads import RELOADS
from .schemas import SCHEMA, setter

SLIDERS = {name: SCHEMA[name] for name in ("set_brightness", "set_steps")}
FADE_S = 3
PLATES = ".status, #drawer, .tools"


@pytest.fixture
def page(browser: Browser, server: FakeServer) -> Iterator[Page]:
    with open_page(browser, server.url, drawer=False, awake=False) as page:
        page.clock.install()
        yield page


def play(page: Page, server: FakeServer, query: str = "") -> None:
    page.clock.resume()
    page.goto(server.url + query)
    expect(page.locator("html[data-live]")).to_be_attached()
    expect(page.locator("#drawer")).to_be_visible()
    expect(page.locator(".tools")).to_be_attached()
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    pause(page)


def pause(page: Page) -> None:
    """Let the page's time stand still, so that a busy machine changes nothing."""
    page.clock.pause_at(datetime.fromtimestamp(page.evaluate("Date.now()") / 1000 + 5))
    for x in (500, 600):
        page.mouse.move(x, 300)


def wait_s(page: Page, seconds: float) -> None:
    page.clock.run_for(round(1000 * seconds))


def expect_faded(page: Page, faded: bool) -> None:
    for plate in page.locator(PLATES).all():
        expect(plate).to_have_css("opacity", "0" if faded else "1")


@pytest.mark.parametrize(
    ("events", "open_"), [(SCHEMA, False), (WALKER, False), (SLIDERS, True)], ids=["prompt", "bindings", "sliders"]
)
def test_the_drawer_is_open_at_first_for_a_model_of_sliders_only(
    page: Page, server: FakeServer, events: dict[str, Any], open_: bool
) -> None:
    server.script.events = events
    play(page, server)
    expect(page.locator("#side")).to_be_visible(visible=open_)


def test_the_drawer_opens_for_the_first_session_that_may_send(page: Page, server: FakeServer) -> None:
    server.script.events, server.script.role = SLIDERS, "viewer"
    page.clock.resume()
    page.goto(server.url)
    expect(page.locator("#drawer")).to_be_visible()
    expect(page.locator("#side")).to_be_hidden()
    server.script.role = "controller"
    server.close(1012)
    expect(page.locator("#side")).to_be_visible()


def test_the_choice_is_kept_for_each_model(page: Page, server: FakeServer) -> None:
    play(page, server)
    page.get_by_role("button", name="Controls").click()
    play(page, server)
    expect(page.locator("#side")).to_be_visible()
    server.script.model = "borealis"
    play(page, server)
    expect(page.locator("#side")).to_be_hidden()


def test_the_frame_fills_the_window_and_its_copy_the_rest(page: Page, server: FakeServer) -> None:
    play(page, server)
    for part in (".stage", ".edges"):
        assert page.locator(part).bounding_box() == {"x": 0, "y": 0, "width": 1280, "height": 800}
    expect(page.locator("canvas")).to_have_count(1)
    # The frame is 640×480, so that 107 px are left free beside it.
    edge = page.screenshot(clip={"x": 2, "y": 300, "width": 90, "height": 200})
    page.locator(".edges").evaluate("edges => edges.remove()")
    assert page.screenshot(clip={"x": 2, "y": 300, "width": 90, "height": 200}) != edge


def test_plates_fade_and_come_back_with_pointer_key_and_touch(page: Page, server: FakeServer) -> None:
    play(page, server)
    touch = "window.dispatchEvent(new PointerEvent('pointerdown', { pointerType: 'touch' }))"
    for wake in (lambda: page.mouse.move(640, 300), lambda: page.keyboard.press("x"), lambda: page.evaluate(touch)):
        wait_s(page, FADE_S - 0.5)
        expect_faded(page, False)
        wait_s(page, 1)
        expect_faded(page, True)
        wake()
        expect_faded(page, False)


def test_plates_come_back_with_a_reload(page: Page, server: FakeServer) -> None:
    server.script.reload = RELOADS["applied"]
    play(page, server)
    expect(page.locator("#reload")).to_be_visible()
    wait_s(page, 2 * FADE_S)
    expect_faded(page, True)
    server.report_reload(RELOADS["applied"])
    expect_faded(page, False)
    expect(page.locator("#reload")).to_have_text("Reloaded")


IN_USE: dict[str, Callable[[Page, FakeServer], object]] = {
    "a text field has the focus": lambda page, _: page.locator(".prompt textarea").focus(),
    "the keyboard is at a tool": lambda page, _: page.keyboard.press("Tab"),
    "the mouse is over a plate": lambda page, _: page.locator(".status").hover(),
    "the links are open": lambda page, _: page.get_by_role("button", name="Links").click(),
    "an error is shown": lambda _, server: server.broadcast("reactor.error", code="model_slow", message="too slow"),
    "the error of a reload is shown": lambda _, server: server.report_reload(RELOADS["failed"]),
    "the drawer is open": lambda page, _: page.get_by_role("button", name="Controls").click(),
}


@pytest.mark.parametrize("use", IN_USE)
def test_plates_stay_while(page: Page, server: FakeServer, use: str) -> None:
    play(page, server)
    IN_USE[use](page, server)
    if use == "an error is shown":
        expect(page.locator("#drawer[data-error]")).to_be_attached()
    if use == "the error of a reload is shown":
        expect(page.locator(".reload")).to_be_visible()
    if use == "the drawer is open":
        page.mouse.move(300, 300)
    wait_s(page, 2 * FADE_S)
    expect_faded(page, False)


def test_a_mouse_that_has_clicked_a_tool_does_not_keep_the_plates(page: Page, server: FakeServer) -> None:
    play(page, server)
    page.locator(".metrics-chip").click()
    page.locator(".metrics-chip").click()
    page.mouse.move(600, 300)
    wait_s(page, FADE_S)
    expect_faded(page, True)


def test_with_reduced_motion_plates_go_without_a_transition(page: Page, server: FakeServer) -> None:
    page.emulate_media(reduced_motion="reduce")
    play(page, server)
    assert page.locator(".status").evaluate("plate => getComputedStyle(plate).transitionDuration") == "0s"


def test_a_client_that_waits_sees_its_position_over_the_running_session(page: Page, server: FakeServer) -> None:
    server.script.held_loading, server.script.role = True, "viewer"
    page.goto(server.url)
    server.wait_for("reactor.ping")
    server.broadcast("reactor.queue", position=2, length=3)
    server.release()
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page.locator("#notice-place")).to_have_text("2")
    expect(page.locator("#notice")).to_be_visible()
    expect(page.locator(".tools")).to_be_attached()
    pause(page)
    wait_s(page, 2 * FADE_S)
    expect_faded(page, False)


def test_the_code_is_one_click_away(page: Page, server: FakeServer) -> None:
    play(page, server)
    assert page.get_by_role("link", name="Use it from code").evaluate("link => link.href") == f"{server.url}docs"


TEXTS = (
    "h1, #headline, #role, .metrics-chip, .tools-more, #reload, #drawer, .legend-hint, .caps kbd, .caps small, "
    ".caps figcaption, .caps > span, .pill, .prompt textarea, .preset b, .chip-button, .touch-stick b, .touch button, "
    ".card p"
)
# The frame stays as it is painted here: the server sends no more.
FILL = """fill => document.querySelectorAll(".screen canvas").forEach((canvas) => {
  const context = canvas.getContext("2d");
  context.fillStyle = fill;
  context.fillRect(0, 0, canvas.width, canvas.height);
})"""
# The visible texts, with their colors and boxes.
SEEN = """elements => elements.filter((element) => {
  const { width, height } = element.getBoundingClientRect();
  const isClipped = getComputedStyle(element).clipPath !== "none";
  return element.checkVisibility({ visibilityProperty: true }) && width > 0 && height > 0 && !isClipped;
}).map((element) => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = getComputedStyle(element).color;
  canvas.fillRect(0, 0, 1, 1);
  const color = [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  return { color, box: element.getBoundingClientRect().toJSON(), name: element.outerHTML };
})"""
UNSEEN = (
    "* { color: #0000 !important; border-color: #0000 !important; caret-color: #0000 !important } svg { opacity: 0 }"
)


def luminance(colors: Any) -> Any:
    channels = np.asarray(colors, np.float64) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrasts(page: Page) -> dict[str, float]:
    """Return the least contrast of each visible text with the pixels behind it."""
    texts = page.locator(TEXTS).evaluate_all(SEEN)
    sheet = page.add_style_tag(content=UNSEEN)
    image = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    sheet.evaluate("sheet => sheet.remove()")
    found = {}
    for text in texts:
        box = text["box"]
        left, top = round(box["x"] + 0.2 * box["width"]), round(box["y"] + 0.3 * box["height"])
        right, bottom = round(box["x"] + 0.8 * box["width"]), round(box["y"] + 0.7 * box["height"])
        behind = luminance(image[top : bottom + 1, left : right + 1])
        color = luminance(text["color"])
        ratios = (np.maximum(color, behind) + 0.05) / (np.minimum(color, behind) + 0.05)
        found[text["name"]] = float(ratios.min())
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_text_over_any_frame_can_be_read(
    browser: Browser, server: FakeServer, scheme: Literal["light", "dark"], phone: bool
) -> None:
    caption = SCHEMA["set_prompt"]["parameters"]["properties"]["prompt"] | {"examples": ["a fox", "a reef"]}
    server.script.events = {**WALKER, "set_prompt": setter("prompt", "", caption)}
    server.script.reload = RELOADS["applied"]
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    presets = PageSettings(presets={"Storm": {"prompt": "a storm"}})
    server.script.html = PageDocument(html, presets).render("aurora", server.url, None)
    with open_page(browser, server.url, phone=phone, drawer=False, bypass_csp=True) as page:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.goto(server.url)
        expect(page.locator(".legend")).to_be_visible()
        expect(page.locator(".prompt textarea")).to_be_enabled()
        server.script.frames = False
        # The chip keeps this text, and so its width, and the frame what is filled in: no frame is under way.
        expect(page.locator(".metrics-chip")).to_have_text("0 fps")
        expect_contrasts(page)
        if phone:
            page.set_viewport_size({"width": 844, "height": 390})
            page.wait_for_function("innerWidth === 844")
            expect_contrasts(page)
        server.broadcast("reactor.session", phase="idle", seconds=30)
        expect(page.get_by_role("button", name="Yes, go on")).to_be_visible()
        expect_contrasts(page)


def expect_contrasts(page: Page) -> None:
    for fill in ("#fff", "#000", "#808080"):
        # With the focus in it, nothing fades however long this takes.
        page.locator(".prompt textarea").evaluate("area => area.focus()")
        page.evaluate(FILL, fill)
        found = contrasts(page)
        assert len(found) > 3
        assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}, fill
