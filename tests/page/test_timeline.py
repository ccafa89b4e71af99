"""The bar of a replay in the page of `reactor replay --serve`, with a recording of code that has changed since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.command import python
from tests.server.running import RunningServer, serving, write_project

from .conftest import open_page

MODEL = """
class MyState(InputState):
    level: int = 100

class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield gray(self.state.level)
"""
# The events are handled before frames 16 and 31.
RECORD = """
from pathlib import Path
from pipeline import MyModel
from tests.testing.recorded import recorded

with recorded(MyModel, Path("sessions"), project=Path()) as studio:
    for level in (150, 200):
        studio.run(0.5)
        studio.send_event("set_level", level=level)
    studio.run(0.5)
"""


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("replayed"), MODEL)
    made = python("-c", RECORD, cwd=project)
    assert made.code == 0, made.err
    (recording,) = (project / "sessions").iterdir()
    changed = MODEL.replace("self.state.level)", "self.state.level + (self.state.level > 150))")
    write_project(project, changed)
    with serving(project, command=("replay", str(recording), "--serve")) as server:
        yield server


def test_a_replay_that_ends_before_its_first_frame_is_paused(
    browser: Browser, replay: RunningServer, tmp_path: Path
) -> None:
    (recording,) = (replay.output.parent / "sessions").iterdir()
    write_project(tmp_path, MODEL.replace("yield gray(self.state.level)", "1 // 0\n            yield"))
    with (
        serving(tmp_path, command=("replay", str(recording), "--serve")) as server,
        open_page(browser, f"http://127.0.0.1:{server.port}") as page,
    ):
        page.goto("/")
        expect(page.locator(".timeline-result")).to_have_text("the replay ended with ZeroDivisionError, see the log")
        expect(page.get_by_role("button", name="Play")).to_be_visible()


@pytest.fixture
def page(browser: Browser, replay: RunningServer) -> Iterator[Page]:
    with open_page(browser, f"http://127.0.0.1:{replay.port}") as page:
        page.goto("/")
        yield page


def test_a_replay_is_played_stepped_and_scrubbed(page: Page) -> None:
    position, scrubber = page.locator(".timeline-position"), page.get_by_role("slider", name="Frame")
    last = "frame 45 / 45 · differs from the recording"
    # It plays by itself, to the end.
    expect(position).to_have_text(last)
    expect(page.locator(".timeline-result")).to_have_text("15 of 46 frames and pieces of sound differ")
    first, second = page.get_by_role("group", name="Recorded events").get_by_role("button").all()
    expect(first).to_have_attribute("title", 'set_level {"level": 150}')
    second.click()
    expect(position).to_have_text("frame 31 / 45 · differs from the recording")
    page.get_by_role("button", name="Back a frame").click()
    expect(position).to_have_text("frame 30 / 45")
    expect(scrubber).to_have_value("30")
    scrubber.fill("3")
    expect(position).to_have_text("frame 3 / 45")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(position).to_have_text(last)
    expect(page.get_by_role("button", name="Play")).to_be_visible()
