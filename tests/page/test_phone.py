"""The page on phones: nothing overlaps or scrolls sideways, and fingers hit what they mean."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import combinations

import pytest
from playwright.sync_api import Browser, FloatRect, Page, expect

from .bound import PAINTER, WALKER
from .conftest import REPAINTED, open_page
from .fake_server import FakeServer
from .reloads import RELOADS
from .schemas import SCHEMA, setter
from .states import LONG, STATES, connected, walking
from .test_session import expect_phase

PHONES = {
    "small": (360, 560),
    "upright": (390, 664),
    "tall": (412, 839),
    "on its side": (844, 342),
    "large": (915, 360),
}
STATES_THERE = (
    "two_pictures",
    "walking",
    "walking_in_two_pictures",
    "sending",
    "sounding",
    "forms",
    "faults",
    "sharing",
    "last_minute",
    "watching",
)
OVER_THE_PICTURE = ".caps > *, .legend-hint, .pill, .touch-stick, .touch-stick span, .touch button, .track figcaption"
SMALL = """() => [...document.querySelectorAll("button, summary, select, input, textarea")]
  .filter((element) => element.checkVisibility({ visibilityProperty: true }))
  .map((element) => [element.outerHTML, (element.closest("label, .file") ?? element).getBoundingClientRect()])
  .filter(([, { width, height }]) => Math.min(width, height) < 39.5).map(([words]) => words)"""
PARTS = """parts => parts
  .map((part) => ({
    name: part.className || part.textContent,
    box: part.getBoundingClientRect().toJSON(),
    isTouch: part.closest(".touch") !== null,
    isVisible: part.checkVisibility({ visibilityProperty: true }),
  }))
  .filter(({ box, isVisible }) => isVisible && box.width > 0 && box.height > 0)"""
# Sets the text of the chip, and measures before the page sets another: whether the page is wider than the phone, which
# texts in the bar are cut off, also by less than a pixel, and the width of the model's name.
WITH_FIGURES = """text => {
  const range = new Range();
  const isCut = (element) => {
    range.selectNodeContents(element);
    return range.getBoundingClientRect().width > element.getBoundingClientRect().width;
  };
  document.querySelector(".metrics-chip span").textContent = text;
  const cut = [...document.querySelectorAll("#model, #role, .metrics-chip")].filter(isCut);
  const { scrollWidth, clientWidth } = document.documentElement;
  const { width } = document.querySelector("#model").getBoundingClientRect();
  return [scrollWidth > clientWidth, cut.map((element) => element.textContent), width];
}"""
FIGURES = ("30\u00a0fps\u00a0· 25\u00a0ms", "30\u00a0fps\u00a0· 250\u00a0ms", "120\u00a0fps\u00a0· 1250\u00a0ms")
ZOOMED = """() => [...document.querySelectorAll("select, textarea, .number, [readonly]")]
  .filter((element) => parseFloat(getComputedStyle(element).fontSize) < 16).map(({ outerHTML }) => outerHTML)"""


@pytest.fixture
def phone(browser: Browser, server: FakeServer) -> Iterator[Page]:
    with open_page(browser, server.url, phone=True) as page:
        page.emulate_media(reduced_motion="reduce")
        yield page


def resize(page: Page, width: int, height: int) -> None:
    """Change the size of the screen, and wait until the page is laid out for it."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("width => document.documentElement.clientWidth === width", arg=width)
    page.evaluate(REPAINTED)


def overlap(a: FloatRect, b: FloatRect) -> bool:
    across = a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"]
    return across and a["y"] < b["y"] + b["height"] and b["y"] < a["y"] + a["height"]


def expect_nothing_overlaps(page: Page) -> None:
    parts = page.locator(OVER_THE_PICTURE).evaluate_all(PARTS)
    for part, other in combinations(parts, 2):
        assert not overlap(part["box"], other["box"]), f"{part['name']} and {other['name']}"
    stage = page.locator(".stage").bounding_box()
    assert stage is not None
    assert page.viewport_size is not None
    is_upright = page.viewport_size["width"] < page.viewport_size["height"]
    for part in parts:
        # Upright, sticks and buttons leave the frame free; everything else is within it.
        is_below = is_upright and part["isTouch"]
        box = part["box"]
        top = stage["y"] + stage["height"] if is_below else stage["y"]
        end = page.viewport_size["height"] if is_below else stage["y"] + stage["height"]
        assert box["y"] >= top - 1, box
        assert box["y"] + box["height"] <= end + 1, box


@pytest.mark.parametrize("state", STATES_THERE)
def test_it_fits_every_phone(phone: Page, server: FakeServer, state: str) -> None:
    STATES[state](phone, server)
    for name, (width, height) in PHONES.items():
        resize(phone, width, height)
        assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert phone.evaluate(SMALL) == [], name
        assert phone.evaluate(ZOOMED) == [], name
        expect_nothing_overlaps(phone)


@pytest.mark.parametrize(("width", "least"), [(360, 90), (320, 50)])
def test_a_long_name_can_be_read_beside_the_buttons_of_a_reload(
    phone: Page, server: FakeServer, width: int, least: int
) -> None:
    server.script.model = "stable-video-diffusion-img2vid-xt"
    server.script.sounds = {"music": 44100}
    server.script.reload = RELOADS["applied"]
    connected(phone, server)
    expect(phone.locator("#reload")).to_be_visible()
    resize(phone, width, 740)
    name = phone.locator("#model").bounding_box()
    assert name is not None
    assert name["width"] >= least
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert phone.evaluate(SMALL) == []
    expect(phone.get_by_role("status").first).to_have_text("Connected")


def test_a_short_name_is_whole_beside_the_figures(phone: Page, server: FakeServer) -> None:
    server.script.model = "my-pipeline"
    connected(phone, server)
    expect(phone.locator(".metrics-chip")).to_contain_text("fps")
    assert phone.locator("#model").evaluate("name => name.scrollWidth <= name.clientWidth")


@pytest.mark.parametrize("size", [(390, 844), (844, 390)], ids=["upright", "on its side"])
@pytest.mark.parametrize("ends", [False, True], ids=["playing", "ended"])
def test_the_bar_cuts_no_text_off(phone: Page, server: FakeServer, size: tuple[int, int], ends: bool) -> None:
    server.script.model, server.script.sounds = "my-pipeline", {"music": 44100}
    connected(phone, server)
    phone.get_by_role("button", name="Controls").tap()
    resize(phone, *size)
    if ends:
        server.script.refuse = 1012
        server.close(1012)
        expect(phone.locator("#notice-headline")).to_have_text("The server is restarting")
        expect(phone.get_by_role("button", name="Share clip")).to_be_visible()
    for text in FIGURES:
        assert phone.evaluate(WITH_FIGURES, text)[:2] == [False, []], text


def test_the_bar_with_seats_is_no_wider_than_a_phone(phone: Page, server: FakeServer) -> None:
    server.script.model, server.script.seats = "my-model", 3
    connected(phone, server)
    expect(phone.locator(".seats summary")).to_have_text("Seat 1 of 3")
    for name, (width, height) in PHONES.items():
        resize(phone, width, height)
        for text in FIGURES:
            assert phone.evaluate(WITH_FIGURES, text)[:2] == [False, []], (name, text)


@pytest.mark.parametrize(("role", "seat"), [("controller", "Seat 1 of 3"), ("viewer", "Watching seat 1")])
def test_the_bar_with_seats_and_sound_is_no_wider_than_a_phone(
    phone: Page, server: FakeServer, role: str, seat: str
) -> None:
    server.script.seats, server.script.role, server.script.sounds = 3, role, {"music": 44100}
    connected(phone, server)
    expect(phone.locator(".seats summary")).to_have_text(seat)
    expect(phone.get_by_role("switch", name="Sound")).to_be_visible()
    for name, (width, height) in PHONES.items():
        resize(phone, width, height)
        for text in FIGURES:
            is_too_wide, _, name_width = phone.evaluate(WITH_FIGURES, text)
            assert not is_too_wide, (name, text)
            assert name_width >= 40, (name, text)


def test_the_figures_do_not_cover_the_error_of_a_reload(phone: Page, server: FakeServer) -> None:
    server.script.reload = RELOADS["failed"]
    connected(phone, server)
    expect(phone.locator(".reload")).to_be_visible()
    expect(phone.locator(".metrics-chip")).to_be_hidden()
    phone.locator(".reload").get_by_role("button").tap()
    expect(phone.locator(".metrics-chip")).to_be_visible()


@pytest.mark.parametrize(("size", "height"), [((480, 640), 292), ((540, 640), 329), ((256, 640), 156)])
def test_upright_the_stage_has_the_shape_of_its_frames(
    phone: Page, server: FakeServer, size: tuple[int, int], height: int
) -> None:
    server.script.size = size
    server.script.events = WALKER
    connected(phone, server)
    stage = phone.locator(".stage").bounding_box()
    assert stage is not None
    assert stage["height"] == pytest.approx(height, abs=1)
    expect_nothing_overlaps(phone)


def test_upright_sticks_and_prompt_leave_the_frame_free(phone: Page, server: FakeServer) -> None:
    server.script.size = (360, 640)
    walking(phone, server)
    server.change_contract(events={**WALKER, "set_prompt": SCHEMA["set_prompt"]})
    expect(phone.locator(".prompt textarea")).to_be_visible()
    phone.evaluate(REPAINTED)
    boxes = [phone.locator(part).bounding_box() for part in ("canvas", ".touch", ".prompt", "#drawer")]
    ends = [(box["y"], box["y"] + box["height"]) for box in boxes if box]
    assert ends[0][0] == 44
    assert ends[0][1] == pytest.approx(44 + 390 * 360 / 640, abs=1)
    assert all(end <= start + 1 for (_, end), (start, _) in itertools.pairwise(ends))
    assert ends[-1][1] == 844
    phone.get_by_role("button", name="Controls").tap()
    expect(phone.locator(".touch")).to_be_hidden()
    expect(phone.locator("#controls")).to_be_visible()
    expect(phone.locator("canvas")).to_be_in_viewport(ratio=1)


def test_upright_without_sticks_the_hints_are_below_the_frame(phone: Page, server: FakeServer) -> None:
    server.script.model, server.script.events = "painter", {"drop": PAINTER["drop"]}
    connected(phone, server)
    expect(phone.locator(".caps")).to_be_visible()
    phone.evaluate(REPAINTED)
    hint, frame = (phone.locator(part).bounding_box() for part in (".caps", "canvas"))
    assert hint is not None
    assert frame is not None
    assert 0 <= hint["y"] - (frame["y"] + frame["height"]) <= 20


def test_on_its_side_examples_leave_their_room_to_the_frame(phone: Page, server: FakeServer) -> None:
    prompt = SCHEMA["set_prompt"]["parameters"]["properties"]["prompt"] | {"examples": ["a fox", "a reef"]}
    server.script.events = {**SCHEMA, "set_prompt": setter("prompt", "", prompt)}
    connected(phone, server)
    example = phone.get_by_role("button", name="a reef")
    expect(example).to_be_visible()
    phone.set_viewport_size({"width": 844, "height": 390})
    expect(example).to_be_hidden()
    phone.locator(".prompt textarea").tap()
    expect(example).to_be_visible()


def test_the_tools_are_a_menu_with_names(phone: Page, server: FakeServer) -> None:
    connected(phone, server)
    save, more = phone.get_by_role("button", name="Save the frame"), phone.locator(".tools-more")
    expect(save).to_be_hidden()
    more.tap()
    expect(save).to_contain_text("Save the frame")
    expect(save).to_be_in_viewport(ratio=1)
    save.focus()
    phone.keyboard.press("Escape")
    expect(save).to_be_hidden()
    expect(more).to_be_focused()
    more.tap()
    phone.locator("canvas").tap()
    expect(save).to_be_hidden()


@pytest.mark.parametrize("size", [(390, 844), (390, 560), (844, 342)])
def test_nothing_of_a_notice_is_cut_off(phone: Page, server: FakeServer, size: tuple[int, int]) -> None:
    phone.set_viewport_size({"width": size[0], "height": size[1]})
    connected(phone, server)
    # Without an end of its connection: a new one that comes as the server stops might end in many ways.
    server.broadcast("reactor.error", code="model_error", message=LONG)
    server.broadcast("reactor.session", phase="ended", reason="model_died", message=LONG)
    expect(phone.locator("#notice")).to_contain_text("CUDA")
    server.stop()
    expect(phone.get_by_role("button", name="Try now")).to_be_visible()
    expect(phone.locator("#notice-detail")).to_contain_text("Reconnecting")
    for part in ("#notice-headline", "#notice-detail", "#retry"):
        expect(phone.locator(part)).to_be_in_viewport(ratio=1)
    assert phone.locator("#notice").evaluate("notice => notice.scrollHeight <= notice.clientHeight + 1")


def test_a_viewer_upright_reads_that_it_only_watches(phone: Page, server: FakeServer) -> None:
    STATES["watching"](phone, server)
    expect(phone.get_by_text("View only")).to_be_in_viewport()
    expect(phone.get_by_role("button", name="Send Prompt")).to_be_hidden()


def test_a_question_is_not_hidden_by_sticks(phone: Page, server: FakeServer) -> None:
    walking(phone, server)
    expect(phone.locator(".touch")).to_be_visible()
    server.broadcast("reactor.session", phase="idle", seconds=30)
    expect_phase(phone, "idle")
    expect(phone.locator(".touch")).to_be_hidden()
    phone.get_by_role("button", name="Yes, go on").tap()
    server.wait_for("reactor.here")


def test_on_its_side_picture_and_controls_are_beside_each_other(phone: Page, server: FakeServer) -> None:
    walking(phone, server)
    phone.get_by_role("button", name="Controls").tap()
    resize(phone, 844, 342)
    stage, side = (phone.locator(part).bounding_box() for part in (".stage", ".side"))
    assert stage is not None
    assert side is not None
    assert stage["x"] + stage["width"] <= side["x"]
    assert stage["y"] + stage["height"] == 342


def test_on_its_side_the_figures_come_after_the_controls(phone: Page, server: FakeServer) -> None:
    connected(phone, server)
    resize(phone, 844, 342)
    phone.locator(".metrics-chip").tap()
    expect(phone.locator(".graph")).to_be_visible()
    expect(phone.locator(".stage")).to_be_in_viewport(ratio=0.98)
    figures, controls = (phone.locator(part).bounding_box() for part in ("#metrics", ".controls"))
    assert figures is not None
    assert controls is not None
    assert figures["x"] == pytest.approx(controls["x"], abs=2)
    assert figures["y"] > controls["y"] + controls["height"]
    assert phone.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_a_switch_that_is_on_has_its_size_without_the_room_for_fingers(phone: Page, server: FakeServer) -> None:
    server.script.events = {"set_mirror": setter("mirror", "As in a mirror", {"type": "boolean", "default": True})}
    connected(phone, server)
    switch = phone.get_by_role("switch", name="Mirror")
    expect(switch).to_be_checked()
    expect(switch).to_have_css("border-left-color", "rgba(0, 0, 0, 0)")
