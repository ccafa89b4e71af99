"""The prompt bar: the control of the model's main text, with history, examples and the mark of the applied text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import as_modules_and_as_bundle
from .fake_server import FakeServer
from .schemas import SCHEMA, setter
from .states import connected

CAPTION: dict[str, Any] = {
    "type": "string",
    "default": "",
    "examples": ["a lighthouse", "a reef"],
    "x-reactor-ui": {"prominent": True, "placeholder": "What is on the stage"},
}


@pytest.fixture
def bar(page: Page, server: FakeServer) -> Locator:
    connected(page, server)
    area = page.locator(".prompt textarea")
    expect(area).to_be_enabled()
    return area


def sent(server: FakeServer, event: str = "set_prompt") -> list[Any]:
    return [next(iter(message.data.values())) for message in server.received if message.type == event]


def test_the_first_text_named_prompt_has_the_bar(page: Page, bar: Locator) -> None:
    expect(bar).to_have_value("a fox in the snow")
    expect(page.locator("#controls [name=prompt]")).to_have_count(0)


def test_a_prominent_text_has_the_bar_with_its_examples(page: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"set_caption": setter("caption", "The caption", CAPTION)}
    connected(page, server)
    expect(page.get_by_placeholder("What is on the stage")).to_be_enabled()
    expect(page.locator("#controls [name=prompt]")).to_be_visible()
    page.get_by_role("group", name="Examples").get_by_role("button", name="a reef").click()
    assert server.wait_for("set_caption") == {"caption": "a reef"}
    expect(page.locator(".prompt textarea")).to_have_value("a reef")


@as_modules_and_as_bundle
def test_enter_sends_and_the_first_frame_that_shows_it_marks_it(page: Page, server: FakeServer, bar: Locator) -> None:
    server.script.frames = False
    bar.fill("a hare")
    bar.press("Shift+Enter")
    bar.press_sequentially("at night")
    bar.press("Enter")
    server.wait_for("set_prompt", lambda data: data == {"prompt": "a hare\nat night"})
    expect(page.locator(".prompt-mark")).to_have_text("Sending")
    server.script.frames = True
    expect(page.locator(".prompt-mark")).to_have_text("Applied")
    bar.press("End")
    bar.press_sequentially("!")
    expect(page.locator(".prompt-mark")).to_be_empty()


def test_arrow_up_brings_back_former_prompts_also_after_a_reload(page: Page, bar: Locator) -> None:
    for text in ("a hare", "a bear"):
        bar.fill(text)
        bar.press("Enter")
        expect(page.locator(".prompt-mark")).to_have_text("Applied")
    page.reload()
    expect(bar).to_be_enabled()
    bar.fill("a draft")
    bar.press("ArrowUp")
    expect(bar).to_have_value("a bear")
    bar.press("ArrowUp")
    expect(bar).to_have_value("a hare")
    bar.press("ArrowUp")
    expect(bar).to_have_value("a hare")
    for text in ("a bear", "a draft"):
        bar.press("ArrowDown")
        expect(bar).to_have_value(text)


def test_a_refused_prompt_shows_why_and_stays(page: Page, bar: Locator) -> None:
    bar.fill("x" * 61)
    bar.press("Enter")
    expect(page.locator('[data-error-for="set_prompt"]')).to_have_text("61 characters, at most 60")
    expect(bar).to_have_value("x" * 61)
    bar.press("Escape")
    expect(bar).to_have_value("a fox in the snow")


def test_a_viewer_reads_the_prompt_of_the_controller(page: Page, server: FakeServer) -> None:
    connected(page, server, "?role=viewer")
    server.broadcast("reactor.state", prompt="a bear")
    expect(page.locator(".prompt textarea")).to_have_value("a bear")
    expect(page.locator(".prompt textarea")).to_be_disabled()


def test_surprise_me_sends_an_example_other_than_the_text(page: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"set_caption": setter("caption", "", CAPTION | {"default": "a reef"})}
    connected(page, server)
    page.get_by_role("button", name="Surprise me").click()
    assert server.wait_for("set_caption") == {"caption": "a lighthouse"}


def test_without_a_choice_of_examples_there_is_no_surprise(page: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"set_caption": setter("caption", "", CAPTION | {"examples": ["a reef"]})}
    connected(page, server)
    expect(page.get_by_role("button", name="a reef")).to_be_visible()
    expect(page.get_by_role("button", name="Surprise me")).to_have_count(0)


def test_with_the_drawer_closed_the_bar_is_in_the_middle_at_the_bottom(page: Page, server: FakeServer) -> None:
    connected(page, server)
    page.get_by_role("button", name="Controls", exact=True).click()
    box = page.locator(".prompt").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] / 2 == 640
    assert box["y"] + box["height"] == 800


def test_on_a_phone_the_bar_is_between_the_stage_and_the_controls(page: Page, server: FakeServer) -> None:
    connected(page, server)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".metrics-chip").click()
    # With its graphs, the panel scrolls into view.
    expect(page.locator("#metrics .graph canvas").first).to_be_attached()
    page.evaluate("scrollTo(0, 0)")
    parts = [page.locator(part).bounding_box() for part in (".stage", ".prompt", "#controls", "#metrics")]
    tops = [part["y"] for part in parts if part]
    assert len(tops) == 4
    assert tops == sorted(tops)
    expect(page.locator(".prompt")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
