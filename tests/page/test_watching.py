"""The page of a front, on which a viewer chooses among the sessions of all workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from reactor_runtime.client import connect
from tests.cluster.local_front import local_front
from tests.server.running import write_project

from .conftest import open_page
from .test_served import PIXELS

TOKEN = "a-token-of-operators"
MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 10

    def inference(self):
        while True:
            yield gray(self.state.level)
"""
# Waits until so many sessions run, as the front knows.
LISTED = """async (count) => {
  for (;;) {
    const { engines } = await (await fetch("health")).json();
    if (engines.filter(({ session }) => session).length === count) return;
    await new Promise((done) => setTimeout(done, 50));
  }
}"""


@pytest.fixture(scope="module", params=[False, True], ids=["redirected", "relayed"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    project = write_project(tmp_path_factory.mktemp("watched") / "project", MODEL)
    with local_front(project, workers=3, relays_all=request.param, token=TOKEN) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def controlling(url: str, level: int) -> Iterator[str]:
    """Control a session for the block; yield its id."""
    with connect(url, token=TOKEN) as session:
        session.frame(after=session.send("set_level", level=level))
        assert session.id is not None
        yield session.id


def test_an_operator_watches_one_session_after_the_other(browser: Browser, url: str) -> None:
    with controlling(url, 0) as dark, controlling(url, 250) as bright, open_page(browser, url) as page:
        page.goto(f"/?role=viewer&token={TOKEN}")
        choice = page.get_by_label("Session")
        expect(choice.locator("option")).to_have_count(2)
        # In the order of the workers: which of them was free first is unknown.
        for session in (dark, bright):
            text = choice.locator("option", has_text=session)
            expect(text).to_contain_text(f"{session} · w-")
            expect(text).to_contain_text(" · here")
        expect(choice).to_have_value(dark)
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        page.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) < 2")
        choice.select_option(bright)
        page.wait_for_url(f"**/?role=viewer&session={bright}")
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        page.wait_for_function(f"() => ({PIXELS})(document.querySelector('canvas')) > 20")
        expect(choice).to_have_value(bright)


def test_the_choice_has_the_sessions_that_run_when_it_is_opened(browser: Browser, url: str) -> None:
    with controlling(url, 0) as first, open_page(browser, url) as page:
        page.goto(f"/?role=viewer&token={TOKEN}")
        choice = page.get_by_label("Session")
        expect(choice).to_have_value(first)
        with controlling(url, 250) as second:
            page.evaluate(LISTED, 2)
            choice.hover()
            expect(choice.locator("option", has_text=second)).to_have_count(1)
            expect(choice.locator("option")).to_have_count(2)
        page.mouse.move(0, 700)
        # A busy browser joins moves of the mouse: it would neither leave the list nor enter it again.
        page.wait_for_function("(choice) => !choice.matches(':hover')", arg=choice.element_handle())
        # The front hears of the end of a session from its worker.
        page.evaluate(LISTED, 1)
        choice.hover()
        expect(choice.locator("option")).to_have_count(1)


def test_without_the_token_no_session_is_listed(browser: Browser, url: str) -> None:
    with controlling(url, 0), open_page(browser, url) as page:
        refused = page.request.get("/health")
        assert refused.json().keys() == {"status"}
        assert page.request.get("/?role=viewer").status == 401
