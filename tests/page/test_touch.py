"""A stick and buttons over the picture for those who have only fingers, and the picture itself to drag and tap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .bound import PAINTER, WALKER, Fingers, bound, key
from .conftest import open_page
from .fake_server import FakeServer
from .schemas import setter


@pytest.fixture
def phone(browser: Browser, server: FakeServer) -> Iterator[Page]:
    server.script.events = {**WALKER, "set_zoom": PAINTER["set_zoom"]}
    with open_page(browser, server.url, phone=True, drawer=False) as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        expect(page.locator(".touch")).to_be_visible()
        yield page


@pytest.fixture
def fingers(phone: Page) -> Fingers:
    return Fingers(phone)


def middle(place: Locator) -> tuple[float, float]:
    box = place.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_stick_follows_the_finger_and_springs_back(phone: Page, fingers: Fingers, server: FakeServer) -> None:
    x, y = middle(phone.locator(".touch-stick"))
    fingers.put((x, y))
    fingers.move((x + 3, y - 200))
    server.wait_for("set_walk", lambda data: data["walk"] == pytest.approx(1, abs=0.01))
    fingers.lift()
    server.wait_for("set_walk", lambda data: data["walk"] == 0)


def test_a_button_is_held_as_long_as_the_finger_stays(phone: Page, fingers: Fingers, server: FakeServer) -> None:
    run = phone.locator(".touch").get_by_role("button", name="Run")
    fingers.put(middle(run))
    server.wait_for("set_run", lambda data: data["run"] is True)
    fingers.lift()
    server.wait_for("set_run", lambda data: data["run"] is False)


def test_stick_and_button_work_at_once_and_are_let_go_with_the_window(
    phone: Page, fingers: Fingers, server: FakeServer
) -> None:
    x, y = middle(phone.locator(".touch-stick"))
    gas = middle(phone.locator(".touch").get_by_role("button", name="Gas"))
    fingers.put((x, y), gas)
    fingers.move((x, y + 60), gas)
    server.wait_for("set_walk", lambda data: data["walk"] == -1)
    server.wait_for("set_gas", lambda data: data["gas"] == 90)
    phone.evaluate("window.dispatchEvent(new Event('blur'))")
    server.wait_for("set_walk", lambda data: data["walk"] == 0)
    server.wait_for("set_gas", lambda data: data["gas"] == 50)


def test_a_tapped_button_sends_its_event(phone: Page, server: FakeServer) -> None:
    phone.locator(".touch").get_by_role("button", name="Jump").tap()
    assert server.wait_for("jump") == {}


def test_a_finger_on_the_picture_looks_around(phone: Page, fingers: Fingers, server: FakeServer) -> None:
    x, y = middle(phone.locator("canvas[data-seq]"))
    fingers.put((x, y - 40))
    fingers.move((x + 50, y - 40))
    server.wait_for("look", lambda data: data["dx"] > 0.1)
    fingers.lift()
    assert [message for message in server.received if message.type == "set_walk"] == []


def test_a_tap_carries_its_place(phone: Page, server: FakeServer) -> None:
    server.script.events = {"drop": PAINTER["drop"]}
    phone.reload()
    expect(phone.locator(".legend li")).to_have_text("tap drop")
    x, y = middle(phone.locator("canvas[data-seq]"))
    phone.touchscreen.tap(x, y)
    assert server.wait_for("drop") == {"x": pytest.approx(0.5, abs=0.01), "y": pytest.approx(0.5, abs=0.01)}


def test_a_keyboard_of_keys_leaves_the_frame_to_fingers(phone: Page, fingers: Fingers, server: FakeServer) -> None:
    white_keys = {
        f"set_{note}": setter(note, "", bound({"type": "boolean", "default": False}, key(code)))
        for note, code in zip("cdefgab", ("KeyA", "KeyS", "KeyD", "KeyF", "KeyG", "KeyH", "KeyJ"), strict=True)
    }
    server.script.events = {**white_keys, "set_aim": PAINTER["set_aim"]}
    phone.reload()
    expect(phone.locator(".legend li")).to_have_text("touch aim")
    expect(phone.locator(".touch")).to_be_hidden()
    box = phone.locator("canvas[data-seq]").bounding_box()
    assert box is not None
    fingers.put((box["x"] + 0.8 * box["width"], box["y"] + 0.9 * box["height"]))
    server.wait_for("set_aim", lambda data: data["aim"] == pytest.approx([0.8, 0.9], abs=0.02))
    fingers.lift()
    phone.get_by_role("button", name="Controls").tap()
    phone.get_by_text("Keys and pointer").tap()
    expect(phone.get_by_role("group", name="Controls").get_by_role("switch")).to_have_count(len(white_keys))


def test_the_legend_has_the_labels_of_the_author(phone: Page, server: FakeServer) -> None:
    aim = PAINTER["set_aim"]["parameters"]["properties"]["aim"]
    server.script.events = {"set_aim": setter("aim", "", {**aim, "x-reactor-ui": {"label": "Piano"}})}
    phone.reload()
    expect(phone.locator(".legend li")).to_have_text("touch Piano")


def test_the_legend_speaks_of_fingers(phone: Page) -> None:
    legend = phone.get_by_role("list", name="Keys, mouse and gamepad")
    expect(legend.get_by_role("listitem")).to_have_text(["drag look"])


def test_it_fits_the_narrow_page(phone: Page) -> None:
    stage = phone.locator(".stage").bounding_box()
    assert stage is not None
    for part in phone.locator(".touch-stick, .touch button").all():
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["y"] >= stage["y"]
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_who_has_a_mouse_sees_no_stick(page: Page, server: FakeServer) -> None:
    server.script.events = WALKER
    page.goto(server.url)
    expect(page.locator(".legend li").first).to_be_visible()
    expect(page.locator(".touch")).to_be_hidden()
