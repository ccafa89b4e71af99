"""Sound on the page, from a real model through the real server: heard when its picture is seen."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

from .conftest import open_page

HERE = Path(__file__).parent
CLAPS = (HERE / "claps.js").read_text()
IN_TIME_MS = 40.0
# A busy machine may take several rounds of five seconds until one is in time.
MOST_S = 4 * TIMEOUT_S
CLAPPER = """
class Voice(Audio):
    sample_rate = 16000

class Clap(Output):
    picture: Video
    depth: Video
    clap: Audio
    voice: Voice

class MyState(InputState):
    frozen: bool = InputField(default=False)

class MyModel(ReactorPipeline):
    state: MyState
    output: Clap
    fps = 25

    def inference(self):
        frame = 0
        while True:
            if self.state.frozen:
                yield Idle
                continue
            clap, voice = np.zeros((1, 1920), np.int16), np.zeros((2, 640), np.int16)
            if frame % 20 == 0:
                clap[:, :48] = 30000
            if frame % 20 == 10:
                voice[:, :16] = 30000
            level = 10 if frame % 10 else 255
            frame += 1
            yield Clap(picture=gray(level), depth=gray(10, 40, 40), clap=clap, voice=voice)
"""


@pytest.fixture(scope="module")
def clapper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("clapper"), CLAPPER)) as server:
        yield server


@pytest.fixture
def page(browser: Browser, clapper: RunningServer) -> Iterator[Page]:
    with open_page(browser, f"http://127.0.0.1:{clapper.port}", bypass_csp=True) as page:  # for the tap's own module
        page.add_init_script(CLAPS)
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_have_count(2)
        yield page
    clapper.wait_for_health("ready")


def listen(page: Page) -> None:
    page.get_by_role("switch", name="Sound").click()
    expect(page.get_by_role("switch", name="Sound")).to_be_checked()


def hear(page: Page, claps: int) -> list[float]:
    """Wait for so many more claps; gives how long after its white frame each was heard, in ms."""
    page.evaluate("window.heard.length = 0")
    page.wait_for_function("claps => window.heard.length >= claps", arg=claps)
    seen, heard = page.evaluate("[window.seen, window.heard]")
    return [min((at - white for white in seen), key=abs) for at in heard]


def expect_in_time(page: Page) -> list[float]:
    """Wait until the claps of both tracks are in time: at once, unless the machine is busy. Gives by how much."""
    deadline = time.monotonic() + MOST_S
    while True:
        apart = hear(page, 12)
        if all(statistics.median(map(abs, one_track)) < IN_TIME_MS for one_track in (apart[::2], apart[1::2])):
            return apart
        assert time.monotonic() < deadline, apart


def test_claps_of_two_tracks_are_heard_when_they_are_seen(page: Page) -> None:
    listen(page)
    expect_in_time(page)


def test_a_model_that_paused_is_heard_in_time_again(page: Page) -> None:
    listen(page)
    hear(page, 2)
    frozen = page.get_by_role("switch", name="Frozen")
    frozen.check()
    page.wait_for_function("() => performance.now() - window.heard.at(-1) > 1200")
    frozen.uncheck()
    expect_in_time(page)


def test_the_page_s_own_figure_says_what_is_heard(page: Page) -> None:
    listen(page)
    figure = page.locator("[data-figure=sound]")
    deadline = time.monotonic() + MOST_S
    while True:  # they are of different moments, and agree at once unless the machine is busy
        apart = statistics.median(hear(page, 12))
        expect(figure).to_have_text(re.compile(r"^[+−]\d+ ms$"))
        said = float((figure.text_content() or "").removesuffix(" ms").replace("−", "-"))
        if abs(said - apart) <= 20:
            return
        assert time.monotonic() < deadline, (said, apart)
