"""Values of the model over the frame: what they say, that they stay, and that text on them can be read."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import LET_FADE, open_page
from .fake_server import FakeServer
from .schemas import READ_ONLY, TIMING
from .states import connected, walking_with_values

IDLE = "() => (document.documentElement.dataset.idle = '')"


def values(page: Page) -> Locator:
    return page.get_by_role("group", name="Values").locator(".value:not([hidden])")


def test_read_only_fields_are_shown_over_the_frame_from_the_start(page: Page, server: FakeServer) -> None:
    walking_with_values(page, server)
    shown = ["Score12,340", "Time left1:32", "Health1", "Speaking", "LevelThe caves below the old town"]
    expect(values(page)).to_have_text(shown)
    expect(page.get_by_role("meter", name="Health")).to_have_attribute("aria-valuenow", "1")
    expect(values(page).get_by_role("img", name="off")).to_be_visible()


def test_they_follow_the_state(page: Page, server: FakeServer) -> None:
    walking_with_values(page, server)
    server.broadcast("reactor.state", score=7, left_s=3601.9, health=9.125, speaking=True, level="Roof")
    expect(values(page)).to_have_text(["Score7", "Time left1:00:01", "Health9.13", "Speaking", "LevelRoof"])
    # The end of the bar.
    expect(page.get_by_role("meter", name="Health")).to_have_attribute("aria-valuenow", "4")
    expect(values(page).get_by_role("img", name="on")).to_be_visible()


def test_a_field_of_a_message_appears_with_the_first_message_and_is_logged_too(page: Page, server: FakeServer) -> None:
    server.script.messages = TIMING
    connected(page, server)
    expect(values(page)).to_have_count(0)
    server.broadcast("timing", gpu_ms=178.612, batch=4)
    expect(values(page)).to_have_text(["GPU178.61 ms"])
    expect(page.locator("#log")).to_contain_text("gpu_ms")
    server.broadcast("timing", gpu_ms=None, batch=4)
    expect(values(page)).to_have_text(["GPU–"])


def test_a_page_without_values_loads_nothing_for_them(page: Page, server: FakeServer) -> None:
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    connected(page, server)
    assert not [url for url in loaded if "/values/" in url]


def test_a_reload_keeps_the_values_that_stay(page: Page, server: FakeServer) -> None:
    walking_with_values(page, server)
    server.broadcast("timing", gpu_ms=20)
    expect(values(page)).to_have_count(6)
    left = {name: READ_ONLY[name] for name in ("score", "speaking")}
    server.change_contract(read_only=left)
    expect(values(page)).to_have_text(["Score12,340", "Speaking", "GPU20 ms"])


def test_a_new_session_begins_without_the_messages_of_the_last(page: Page, server: FakeServer) -> None:
    server.script.messages = TIMING
    connected(page, server)
    server.broadcast("timing", gpu_ms=20)
    expect(values(page)).to_have_count(1)
    server.script.session = "s-next"
    # Until the last one is gone: the page may be quicker than a look at it.
    server.script.held_loading = True
    server.close(1012)
    expect(page.locator("html[data-live]")).not_to_be_attached()
    server.release()
    expect(page.locator("html[data-live]")).to_be_attached()
    expect(values(page)).to_have_count(0)


def test_values_stay_while_the_rest_fades(page: Page, server: FakeServer) -> None:
    walking_with_values(page, server)
    page.evaluate(LET_FADE)
    page.evaluate(IDLE)
    expect(page.locator(".bar h1")).to_have_css("opacity", "0")
    for index in range(values(page).count()):
        expect(values(page).nth(index)).to_have_css("opacity", "1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_over_a_white_frame(page: Page, server: FakeServer, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    walking_with_values(page, server)
    contrast = page.evaluate("""() => {
      const parts = (color) => color.match(/[\\d.]+/g).map(Number);
      const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
      const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
      const over = ([r, g, b, a = 1]) => [r, g, b].map((c) => c * a + 255 * (1 - a));
      return [...document.querySelectorAll(".value > *, .value b")].map((text) => {
        const back = light(over(parts(getComputedStyle(text.closest(".value")).backgroundColor)));
        return (light(parts(getComputedStyle(text).color)) + 0.05) / (back + 0.05);
      });
    }""")
    assert min(contrast) >= 4.5


def test_on_a_phone_they_are_inside_the_frame_and_below_the_bar(page: Page, server: FakeServer) -> None:
    with open_page(page.context.browser, server.url, phone=True, drawer=False) as phone:  # type: ignore[arg-type]
        walking_with_values(phone, server)
        stage = phone.locator("#tracks").bounding_box()
        boxes = [values(phone).nth(index).bounding_box() for index in range(values(phone).count())]
        assert stage is not None
        for box in boxes:
            assert box is not None
            assert box["x"] >= stage["x"]
            assert box["x"] + box["width"] <= stage["x"] + stage["width"]
            assert box["y"] >= stage["y"]
            assert box["y"] + box["height"] <= stage["y"] + stage["height"]


@pytest.mark.parametrize("size", [(1280, 800), (844, 390), (390, 844), (480, 270)])
def test_in_another_page_they_overlap_neither_the_tools_nor_the_sound_button(
    page: Page, server: FakeServer, size: tuple[int, int]
) -> None:
    server.script.read_only, server.script.sounds = READ_ONLY, {"music": 44100}
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(f"{server.url}?embed")
    expect(values(page)).to_have_count(5)
    expect(page.get_by_role("switch", name="Sound")).to_be_visible()
    expect(page.locator(".tools")).to_be_attached()
    top = page.locator(".values").evaluate("values => values.getBoundingClientRect().top")
    for part in (".tools", "#listen"):
        assert page.locator(part).evaluate("part => part.getBoundingClientRect().bottom") <= top
