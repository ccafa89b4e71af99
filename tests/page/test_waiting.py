"""The wait queue in the page: the estimated time, who watches, and the notification of the turn."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import as_modules_and_as_bundle, open_page
from .fake_server import FakeServer

NOTIFIED = """window.notified = [];
window.Notification = class {
  constructor(title, { body }) { window.notified.push(`${title}: ${body}`); }
  static async requestPermission() { return "granted"; }
};"""
HIDE = "() => Object.defineProperty(document, 'hidden', { value: true, configurable: true })"


def wait_in_queue(page: Page, server: FakeServer, **data: float) -> None:
    server.script.held_loading = True
    page.goto(server.url)
    server.wait_for("reactor.ping")
    server.broadcast("reactor.queue", position=3, length=5, **data)
    expect(page.locator(".wait")).to_be_visible()


@as_modules_and_as_bundle
def test_the_wait_has_its_estimated_time_and_who_watches(page: Page, server: FakeServer) -> None:
    wait_in_queue(page, server, wait_s=290)
    expect(page.locator("#notice-place")).to_have_text("3")
    expect(page.locator(".wait")).to_contain_text("About 5 min")
    server.broadcast("reactor.stats", watching=13)
    expect(page.locator(".wait")).to_contain_text("12 watching")
    server.broadcast("reactor.stats", watching=1)
    expect(page.locator(".wait-watching")).to_be_hidden()


def test_one_who_was_watched_by_nobody_and_waits_again_sees_nobody_watching(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    server.broadcast("reactor.stats", watching=0)
    server.script.loading = ("reading weights",)
    server.script.held_loading = True
    server.close(1012)
    expect(page.locator('html[data-phase="loading"]')).to_be_attached()
    server.broadcast("reactor.queue", position=1, length=1)
    expect(page.locator(".wait")).to_be_visible()
    expect(page.locator(".wait-watching")).to_have_text("")


def test_without_an_estimate_there_is_no_time(page: Page, server: FakeServer) -> None:
    wait_in_queue(page, server)
    expect(page.locator(".wait-time")).to_be_hidden()


@pytest.mark.parametrize(("seconds", "text"), [(290, "5 min"), (91, "2 min"), (90, "90 s"), (11, "20 s"), (-5, "10 s")])
def test_an_estimated_time_is_rounded(still: Page, seconds: float, text: str) -> None:
    script = "async (seconds) => (await import('/static/waiting.js')).describeTime(seconds)"
    assert still.evaluate(script, seconds) == text


def test_the_turn_is_notified_and_in_the_title_of_a_hidden_page(page: Page, server: FakeServer) -> None:
    page.add_init_script(NOTIFIED)
    wait_in_queue(page, server)
    page.get_by_role("button", name="Notify me").click()
    expect(page.locator(".wait")).to_contain_text("You will be notified")
    page.evaluate(HIDE)
    server.release()
    page.wait_for_function("() => window.notified.length")
    assert page.evaluate("window.notified") == ["Your turn: aurora"]
    expect(page).to_have_title("▶ Your turn · aurora")
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    expect(page).to_have_title("● aurora · Connected")


def test_nobody_who_did_not_ask_is_notified(page: Page, server: FakeServer) -> None:
    page.add_init_script(NOTIFIED)
    wait_in_queue(page, server)
    server.release()
    expect(page.locator('html[data-phase="connected"]')).to_be_attached()
    assert page.evaluate("window.notified") == []


def test_the_controller_sees_how_many_watch(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    server.broadcast("reactor.stats", watching=12)
    expect(page.locator("#may")).to_have_text("You have the controls · 12 watching")


def test_a_viewer_is_not_among_those_it_sees_watching(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.url}?role=viewer")
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    server.broadcast("reactor.stats", watching=12)
    expect(page.locator("#may")).to_have_text("View only · 11 watching")
    server.broadcast("reactor.stats", watching=1)
    expect(page.locator("#may")).to_have_text("View only")


@pytest.mark.parametrize("seconds", [42, 600])
def test_the_end_of_the_turn_is_whole_on_a_phone(browser: Browser, server: FakeServer, seconds: int) -> None:
    server.script.model = "a-model-with-a-long-name-that-has-no-room"
    with open_page(browser, server.url, phone=True) as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        server.broadcast("reactor.session", phase="ending", seconds=seconds)
        turn = page.locator("#turn")
        expect(turn).to_be_visible()
        box = page.locator("#role").evaluate("role => [role.scrollWidth <= role.clientWidth, role.clientWidth > 0]")
        assert box == [True, True]
