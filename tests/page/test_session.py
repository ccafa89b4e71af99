"""The state of the connection in words, pictures and their acknowledgement, and coming back from everything."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import expect_recorded, record
from .fake_server import FakeServer


def expect_phase(page: Page, phase: str) -> None:
    expect(page.locator(f'html[data-phase="{phase}"]')).to_be_attached()


def record_notices(page: Page) -> None:
    """Keep every phase with its notice in `window.notices`, since the page may show one for less than a poll takes."""
    page.add_init_script("""
        window.notices = [];
        new MutationObserver(() => {
            const said = (id) => document.getElementById(id)?.textContent ?? "";
            const phase = document.documentElement.dataset.phase;
            window.notices.push([phase, said("notice-headline"), said("notice-detail")].join("|"));
        }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    """)


def expect_notice(page: Page, pattern: str) -> None:
    """Wait until the page shows a notice, as `phase|headline|detail`, or has shown it."""
    page.wait_for_function("pattern => window.notices.some((notice) => new RegExp(pattern).test(notice))", arg=pattern)


def test_loading_shows_the_last_log_line(page: Page, server: FakeServer) -> None:
    server.script.loading = ("Loading checkpoint shards: 2/4",)
    server.script.held_loading, server.script.progress = True, 0.5
    page.goto(server.url)
    expect_phase(page, "loading")
    expect(page.get_by_role("status")).to_have_text("Loading aurora")
    expect(page.get_by_role("progressbar", name="Loading")).to_have_js_property("value", 0.5)
    expect(page.locator("#notice")).to_contain_text(re.compile(r"Loading checkpoint shards: 2/4\s*\d+ s"))
    server.release()
    expect_phase(page, "connected")
    expect(page.locator("#notice")).to_be_hidden()


def test_the_line_says_the_place(page: Page, server: FakeServer) -> None:
    server.script.held_loading = True
    page.goto(server.url)
    server.wait_for("reactor.ping")
    for position in (3, 2):
        server.broadcast("reactor.queue", position=position, length=5)
        expect(page.get_by_role("status")).to_have_text(f"Waiting: position {position} of 5")
    expect_phase(page, "waiting")
    expect(page.locator("#role")).to_be_hidden()
    expect(page.locator("[data-figure=sound]")).to_be_hidden()  # of a model that nothing is known of yet
    server.release()
    expect_phase(page, "connected")


def test_frames_are_acknowledged_and_gaps_counted(page: Page, server: FakeServer) -> None:
    server.script.skip_every = 5
    server.script.tracks = ("main_video", "depth")
    page.goto(server.url)
    assert server.wait_for("reactor.ack", lambda data: data["track"] == "depth" and data["seq"] >= 20)
    expect(page.locator("[data-figure=skipped]")).to_have_text(re.compile(r"^[1-9]\d*$"))
    expect(page.locator("[data-figure=size]")).to_have_text("640×480")


def test_the_first_frame_is_acknowledged_before_it_is_painted(page: Page, server: FakeServer) -> None:
    page.add_init_script("globalThis.createImageBitmap = () => new Promise(() => {})")
    page.goto(server.url)
    assert server.wait_for("reactor.ack", lambda data: data["track"] == "main_video")


def test_what_the_headline_says_is_not_said_again_below_it(page: Page, server: FakeServer) -> None:
    record_notices(page)
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    server.script.held_loading = True
    server.crash("the model failed: ValueError: the weights don't fit")
    expect_notice(page, r"^failed\|The model failed\|ValueError: the weights don't fit")
    expect(page.get_by_role("log")).to_contain_text("The model failed: ValueError: the weights don't fit")


def test_a_warning_about_the_first_step_is_in_the_log(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    server.broadcast("reactor.session", phase="warning", message="main_video is black (pipeline.py:31): scale it")
    expect(page.locator("#log li.error")).to_contain_text("main_video is black (pipeline.py:31): scale it")
    expect_phase(page, "connected")


def test_a_crashed_model_is_named_and_the_page_comes_back(page: Page, server: FakeServer) -> None:
    record_notices(page)
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    server.script.loading, server.script.held_loading = ("Restarting",), True
    server.crash("the process was killed by SIGSEGV")
    expect_notice(page, r"^failed\|.*the process was killed by SIGSEGV")
    expect(page.locator("#controls button").first).to_be_disabled()
    expect(page.locator("#log li", has_text="SIGSEGV")).to_have_count(1)
    expect_phase(page, "loading")
    expect(page.locator("#notice")).to_contain_text("Before: the process was killed by SIGSEGV")
    server.release()
    expect_phase(page, "connected")
    expect(page.locator("canvas[data-stale]")).not_to_be_attached()


@pytest.mark.parametrize(
    ("code", "phase", "words"),
    [
        (1000, "ended", "Session ended"),
        (1001, "ended", "stopping"),
        (1011, "failed", "failed"),
        (1013, "offline", "full"),
    ],
)
def test_every_close_is_said_with_a_way_back(page: Page, server: FakeServer, code: int, phase: str, words: str) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    server.script.refuse = code
    server.close(code)
    expect_phase(page, phase)
    expect(page.get_by_role("status")).to_contain_text(words)
    server.script.refuse = 0
    if code in (1000, 1013):
        page.locator("#retry").dispatch_event("click")  # hidden already where the page was quicker
    expect_phase(page, "connected")


@pytest.mark.parametrize("code", [4400, 4401, 4403])
def test_a_page_that_is_refused_says_so_and_does_not_connect_again(page: Page, server: FakeServer, code: int) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    server.close(code)
    expect_phase(page, "offline")
    expect(page.get_by_role("status")).to_contain_text("The server refuses this page")
    expect(page.locator("#retry")).to_be_hidden()


def test_a_server_that_goes_and_returns_needs_no_reload(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("#controls [name]").first).to_be_enabled()
    server.stop()
    expect_phase(page, "offline")
    expect(page.locator("#notice")).to_contain_text("Reconnecting")
    server.start()
    expect_phase(page, "connected")


def test_a_viewer_watches_with_the_controls_off(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.url}?role=viewer&token=abc&session=s-1")
    expect_phase(page, "watching")
    expect(page.locator("#controls button").first).to_be_disabled()
    assert server.queries[0] == {"role": "viewer", "token": "abc", "session": "s-1", "watch": "1", "redirect": "1"}


def test_a_viewer_is_told_that_nobody_controls_the_model(page: Page, server: FakeServer) -> None:
    server.script.session = None
    page.goto(f"{server.url}?role=viewer")
    expect(page.locator("canvas[data-seq]")).to_be_attached()  # the last one of somebody else's
    expect(page.get_by_role("status").first).to_have_text("Nobody controls the model")
    expect(page.locator("#notice")).to_contain_text("open this page without role=viewer")
    server.broadcast("reactor.session", phase="started", session="s-2")
    expect(page.get_by_role("status").first).to_have_text("Connected")
    expect(page.locator("#notice")).to_be_hidden()


def test_what_the_page_does_not_know_is_logged_and_ignored(page: Page, server: FakeServer) -> None:
    server.script.frames = False
    page.goto(server.url)
    expect_phase(page, "connected")
    cut_short = b"\xff\xd8\xff\xef\x00\x30REACTOR\x00\x01"
    for payload in (
        '{"type": "reactor.surprise", "data": {}}',
        "nonsense",
        b"\x00\x01",
        cut_short,
        b"\xff\xd8\xff\xd9",
    ):
        server.send_raw(payload)
    for words in ("reactor.surprise", "not an envelope", "neither JPEG nor WAV", "cut short", "can't be decoded"):
        expect(page.locator("#log")).to_contain_text(words)
    expect_phase(page, "connected")


def test_a_flood_of_messages_keeps_the_log_bounded(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    for step in range(300):
        server.broadcast("progress", step=step)
    expect(page.locator("#log li").last).to_contain_text('{"step":299}')
    assert page.locator("#log li").count() <= 200


def test_the_log_is_closed_and_counts_until_an_error_opens_it(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    drawer = page.get_by_role("button", name="Controls", exact=True)
    drawer.click()
    server.broadcast("saved", path="aurora.png")
    expect(page.locator("#log-count")).to_have_text("1")
    expect(page.locator("#log-panel")).not_to_have_attribute("open", "")
    expect(page.locator("#side")).to_be_hidden()
    server.broadcast("reactor.error", code="model_slow", message="the model is slow")
    expect(drawer).to_have_attribute("data-error", "")
    page.reload()
    expect(page.locator("#side")).to_be_hidden()
    drawer.click()
    expect(page.locator("#side")).to_be_visible()


def test_an_error_of_an_earlier_session_is_no_longer_red(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    drawer = page.get_by_role("button", name="Controls", exact=True)
    drawer.click()
    server.broadcast("reactor.error", code="model_slow", message="the model is slow")
    expect(drawer).to_have_attribute("data-error", "")
    color = "element => getComputedStyle(element).color"
    error = page.locator("#log li", has_text="the model is slow").locator("b")
    red = error.evaluate(color)
    server.script.session = "s-2"
    server.close(1011)
    expect(drawer).not_to_have_attribute("data-error", "")
    assert error.evaluate(color) != red
    server.broadcast("reactor.error", code="model_slow", message="it is slow again")
    assert page.locator("#log li", has_text="it is slow again").locator("b").evaluate(color) == red


def test_a_viewer_sees_the_video_first(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.url}?role=viewer")
    expect_phase(page, "watching")
    expect(page.locator("#side")).to_be_hidden()
    page.get_by_role("button", name="Controls", exact=True).click()
    page.reload()
    expect(page.locator("#side")).to_be_visible()


def test_the_log_is_copied_as_often_as_one_likes(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete Navigator.prototype.clipboard")
    page.goto(server.url)
    expect_phase(page, "connected")
    page.locator("#log-panel summary").click()
    server.broadcast("saved", path="aurora.png")
    expect(page.locator("#log li")).to_have_count(1)
    copy = page.locator("#log-copy")
    record(page, "document.getElementById('log-copy').textContent")
    copy.dblclick()
    expect_recorded(page, "Copied")
    expect(copy).to_have_text("Copy all")
    expect(copy).to_be_focused()


def test_the_size_says_which_quality_it_has_and_why(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    size = page.locator("[data-figure=size]")
    server.broadcast("reactor.stats", rung=4, quality=60, scale=0.5, why="network")
    expect(size).to_have_text("640×480 q60 network")
    server.broadcast("reactor.stats", rung=0, quality=85, scale=1, why="full")
    expect(size).to_have_text("640×480")


def test_a_hidden_tab_asks_for_no_frames(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect_phase(page, "connected")
    hide = """hidden => { Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
                          document.dispatchEvent(new Event("visibilitychange")); }"""
    page.evaluate(hide, True)
    server.wait_for("reactor.view", lambda data: data == {"paused": True})
    page.evaluate(hide, False)
    server.wait_for("reactor.view", lambda data: data == {"paused": False})
