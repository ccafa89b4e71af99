"""What fills the stage: one picture, several of them, or the wave of a model that only sounds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import FloatRect, Page, expect

from .fake_server import FakeServer

COLUMNS = """async ([count, stage, picture]) =>
    (await import("/static/stage.js")).bestColumns(count, stage, picture)"""


def boxes(page: Page) -> list[FloatRect]:
    found = [tile.bounding_box() for tile in page.locator(".track").all()]
    return [box for box in found if box is not None]


def test_one_picture_has_the_stage_and_no_label(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_have_count(1)
    expect(page.locator("figcaption")).to_be_hidden()


def test_two_pictures_stand_side_by_side_with_their_names_and_figures(page: Page, server: FakeServer) -> None:
    server.script.tracks = ("rgb", "depth")
    page.goto(server.url)
    expect(page.locator("figcaption").last).to_have_text(re.compile(r"^depth640×480 · \d+\.\d fps$"))
    first, second = boxes(page)
    assert first["y"] == second["y"]
    assert first["width"] == pytest.approx(second["width"], abs=1)


def test_pictures_are_stacked_on_a_phone(page: Page, server: FakeServer) -> None:
    server.script.tracks = ("rgb", "depth")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_have_count(2)
    first, second = boxes(page)
    assert first["x"] == second["x"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_picture_that_changes_its_size_is_followed(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("[data-figure=size]")).to_have_text("640×480")
    server.script.size = (320, 160)
    expect(page.locator("[data-figure=size]")).to_have_text("160×320")


def test_a_model_that_only_sounds_shows_its_wave(page: Page, server: FakeServer) -> None:
    server.script.tracks, server.script.sounds, server.script.frames = (), {"music": 44100}, False
    page.goto(server.url)
    expect(page.locator("#notice")).to_contain_text("Waiting for the first sound")
    server.script.frames = True
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("figcaption")).to_have_text("music44.1 kHz stereo")
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    page.wait_for_function(f"() => ({drawn})(document.querySelector('canvas'))")
    expect(page.locator("[data-figure=fps]")).to_be_hidden()


def test_before_the_first_frame_there_is_the_time_of_a_step(page: Page, server: FakeServer) -> None:
    server.script.frames = False
    page.goto(server.url)
    expect(page.locator("#notice")).to_contain_text("Generating the first frame")
    expect(page.locator("#notice-detail")).to_have_text(re.compile(r"^\d+ s$"))
    server.broadcast("reactor.stats", queue=0, step_ms=8500)
    expect(page.locator("#notice")).to_contain_text("Generating: a step takes 8.5 s")
    server.script.frames = True
    expect(page.locator("#notice")).to_be_hidden()


def test_before_the_first_frame_there_is_what_the_model_reports(page: Page, server: FakeServer) -> None:
    server.script.frames = False
    page.goto(server.url)
    expect(page.locator("#notice")).to_contain_text("Generating the first frame")
    server.broadcast("reactor.session", phase="preparing", detail="reading the image", progress=0.5)
    expect(page.locator("#notice-detail")).to_have_text(re.compile(r"^reading the image\s*\d+ s$"))
    expect(page.locator("#notice-progress")).to_have_js_property("value", 0.5)
    expect(page.locator("#notice")).to_contain_text("Generating the first frame")
    server.broadcast("reactor.session", phase="preparing", detail="", progress=None)
    expect(page.locator("#notice-progress")).to_be_hidden()
    expect(page.locator("#notice-detail")).to_have_text(re.compile(r"^\d+ s$"))
    server.script.frames = True
    expect(page.locator("#notice")).to_be_hidden()


def test_a_model_without_output_says_so(page: Page, server: FakeServer) -> None:
    server.script.tracks = ()
    page.goto(server.url)
    expect(page.locator("#notice")).to_contain_text("neither video nor sound")


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        ([1, 16 / 9, 16 / 9], 1),
        ([2, 16 / 9, 16 / 9], 2),
        ([2, 4 / 3, 4 / 3], 2),
        ([2, 1 / 2, 16 / 9], 1),
        ([3, 16 / 9, 1], 3),
        ([4, 16 / 9, 16 / 9], 2),
        ([0, 1, 1], 1),
    ],
)
def test_frames_are_as_large_as_they_can_be(still: Page, arguments: list[Any], columns: int) -> None:
    assert still.evaluate(COLUMNS, arguments) == columns
