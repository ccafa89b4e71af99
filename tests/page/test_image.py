"""A stream in a plain `<img>`, which has no say in how the browser reads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.server.running import RunningServer, serving, write_project

from .conftest import open_page

MODEL = """
class MyState(InputState):
    level: int = InputField(default=40, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        shown = None
        while True:
            if self.state.level == shown:
                yield Idle
            else:
                shown = self.state.level
                yield MyOutput(main_video=gray(shown))
"""
ADD = """url => { const image = new Image(); image.src = url; image.id = "watching"; document.body.append(image); }"""
SHOWS = """level => {
    const image = document.querySelector("#watching"), canvas = new OffscreenCanvas(1, 1).getContext("2d");
    if (!image.naturalWidth) return false;
    canvas.drawImage(image, 0, 0, 1, 1);
    return Math.abs(canvas.getImageData(0, 0, 1, 1).data[0] - level) < 4;
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("image"), MODEL)) as server:
        yield server


def test_an_image_shows_each_frame_though_none_follows_it(browser: Browser, served: RunningServer) -> None:
    with open_page(browser, f"http://127.0.0.1:{served.port}") as page:
        page.goto("/")
        expect(page.locator("html[data-phase=connected]")).to_be_attached()
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        page.evaluate(ADD, "/stream/main_video.mjpg")
        page.wait_for_function(SHOWS, arg=40)
        for level in (200, 90):
            page.locator('[data-event="set_level"] [type=number]').fill(str(level))
            page.locator('[data-event="set_level"] [type=number]').press("Enter")
            page.wait_for_function(SHOWS, arg=level)
