"""Frames and sound of fake devices through the page, a real server and a model, and back onto the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserType, Page, expect

from tests.server.running import RunningServer, scaffolded, serving, write_project

from .conftest import launched, open_page

IS_GREEN = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.drawImage(document.querySelector("canvas[data-seq]"), 0, 0, 1, 1);
    const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
    return green > 100 && green > 2 * red && green > 2 * blue;
}"""
LEVELS = """
class Ears(Input):
    microphone: Audio


class Heard(ModelMessage):
    rate: int
    loud: bool


class MyState(InputState):
    heard: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    input: Ears
    output: MyOutput

    async def inference(self):
        loud = None
        while True:
            [sound] = await self.input.microphone.read(mode=ReadMode.FIFO)
            self.state.heard += sound.shape[1]
            level = int(np.abs(sound.astype(int)).max()) // 128
            if loud is not (level > 40):
                loud = level > 40
                await self.send(Heard(Audio.sample_rate, loud))
            yield gray(min(level, 255))
"""


@pytest.fixture(scope="module")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    with launched(chromium, "--use-fake-device-for-media-stream=fps=30", "--use-fake-ui-for-media-stream") as browser:
        yield browser


@pytest.fixture(scope="module")
def webcam(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(scaffolded(tmp_path_factory.mktemp("webcam"), "webcam")) as server:
        yield server


@pytest.fixture(scope="module")
def ears(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("ears"), LEVELS)) as server:
        yield server


@pytest.fixture
def page(browser: Browser, webcam: RunningServer) -> Iterator[Page]:
    webcam.wait_for_health("ready")
    with open_page(browser, f"http://127.0.0.1:{webcam.port}") as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        yield page


def test_frames_of_the_camera_return_through_the_model(page: Page) -> None:
    page.get_by_label("Filter", exact=True).select_option("plain")
    assert not page.evaluate(IS_GREEN)
    page.get_by_role("button", name="Start").click()
    page.wait_for_function(IS_GREEN)
    expect(page.locator("#log")).to_contain_text('camera_on{"width":640,"height":480}')
    page.get_by_label("Maximum size").select_option("320×240")
    expect(page.locator("#log")).to_contain_text('camera_on{"width":320,"height":240}')


def test_the_test_pattern_moves_through_the_model(page: Page) -> None:
    page.get_by_label("Filter", exact=True).select_option("plain")
    page.get_by_label("Source").select_option("pattern")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#log")).to_contain_text("camera_on")
    taken = "document.querySelector('canvas[data-seq]').toDataURL()"
    before = page.evaluate(taken)
    page.wait_for_function(f"before => {taken} !== before", arg=before)


@pytest.mark.parametrize("source", ["Fake Default Audio Input", "Test tone"])
def test_the_model_hears_the_microphone(browser: Browser, ears: RunningServer, source: str) -> None:
    ears.wait_for_health("ready")
    with open_page(browser, f"http://127.0.0.1:{ears.port}") as page:
        page.goto("/")
        panel = page.locator("[data-input=microphone]")
        panel.get_by_label("Source").select_option(label=source)
        panel.get_by_role("button", name="Start").click()
        expect(page.locator("#log")).to_contain_text('heard{"rate":48000,"loud":true}')
        expect(panel.locator(".input-figures")).to_contain_text("48 kHz mono")


SLOW = """
class Eyes(Input):
    camera: Video


class Saw(ModelMessage):
    level: int


class MyModel(ReactorPipeline):
    state: InputState
    input: Eyes
    output: MyOutput

    async def inference(self):
        while True:
            [picture] = await self.input.camera.read()
            await self.send(Saw(int(picture.mean())))
            await asyncio.sleep(0.5)
            yield gray(100)
"""
CATCHES_UP = """async () => {
  const { connect } = await import("/reactor.js");
  const session = connect(location.origin);
  await session.ready();
  const drawing = document.body.appendChild(document.createElement("canvas"));
  const context = drawing.getContext("2d");
  const start = performance.now();
  const quarters = () => (performance.now() - start) / 250;
  setInterval(() => {
    context.fillStyle = `rgb(${Array(3).fill(Math.round(quarters()) % 250).join(" ")})`;
    context.fillRect(0, 0, 300, 150);
  }, 20);
  const capture = await session.publish("camera", drawing.captureStream().getVideoTracks()[0]);
  let read = 0, late = 0;
  for await (const { data } of session.messages()) {
    read += 1;
    // Less than 0 is a rounding error, or more than 125.
    late = Math.abs(((quarters() - data.level + 375) % 250) - 125);
    if ((read >= 12 && late < 4) || read === 60) break;
  }
  session.close();
  return late;
}"""


def test_a_slow_model_reads_the_newest_frame_however_long_it_runs(browser: Browser, tmp_path: Path) -> None:
    with serving(write_project(tmp_path, SLOW)) as slow:
        slow.wait_for_health("ready")
        with open_page(browser, f"http://127.0.0.1:{slow.port}") as page:
            page.goto("/?role=viewer")
            # In quarters of a second, after 12 frames read of 180 sent in 6 s; a busy machine may delay many of them.
            assert page.evaluate(CATCHES_UP) < 4
