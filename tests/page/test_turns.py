"""The page in line, near the end of a turn, asked whether anybody is there, and back after its connection broke."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .fake_server import FakeServer
from .test_session import expect_phase


def start(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()


def test_who_waits_watches_and_sees_the_place(page: Page, server: FakeServer) -> None:
    server.script.held_loading, server.script.role = True, "viewer"
    page.goto(server.url)
    server.wait_for("reactor.ping")
    server.broadcast("reactor.queue", position=2, length=2)
    expect(page.locator(".wait")).to_be_visible()
    server.release()
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    # Over the frames of the session that runs.
    expect(page.locator("#notice-place")).to_have_text("2")
    expect(page.locator("#notice")).to_be_visible()
    expect_phase(page, "waiting")
    expect(page.locator("html[data-live]")).to_be_attached()
    server.broadcast("reactor.queue", position=1, length=1)
    expect(page.get_by_role("status")).to_have_text("Waiting: position 1 of 1")
    expect(page.locator("#controls button").first).to_be_disabled()
    server.broadcast("reactor.session", phase="ending", seconds=200)
    expect(page.locator("#role")).to_have_text(re.compile(r"Turn ends in 3:[12]\d · View only"))


def test_a_viewer_of_a_shared_session_has_the_controls(page: Page, server: FakeServer) -> None:
    server.script.role, server.script.shared = "viewer", True
    start(page, server)
    expect(page.locator("#may")).to_have_text("Everyone has the controls")
    expect(page.locator("#controls button").first).to_be_enabled()


def test_the_time_left_is_shown_and_stands_out_in_the_last_minute(page: Page, server: FakeServer) -> None:
    start(page, server)
    expect(page.locator("#may")).to_have_text("You have the controls")
    server.broadcast("reactor.session", phase="ending", seconds=272)
    expect(page.locator("#role")).to_have_text(re.compile(r"Turn ends in 4:[23]\d"))
    expect(page.locator("#role[data-soon]")).not_to_be_attached()
    server.broadcast("reactor.session", phase="ending", seconds=60)
    expect(page.locator("#role[data-soon]")).to_have_text(re.compile(r"Turn ends in (1:00|0:5\d)"))
    server.broadcast("reactor.session", phase="ending", seconds=None)
    expect(page.locator("#may")).to_have_text("You have the controls")


def test_a_silent_visitor_is_asked_and_answers_with_a_click(page: Page, server: FakeServer) -> None:
    start(page, server)
    server.broadcast("reactor.session", phase="idle", seconds=20)
    expect(page.get_by_role("status")).to_have_text("Are you still there?")
    expect(page.locator("#notice")).to_contain_text(re.compile(r"Your turn ends in (20|1\d) s"))
    seq = page.locator("canvas").get_attribute("data-seq")
    page.wait_for_function("seq => document.querySelector('canvas').dataset.seq > +seq + 5", arg=seq)
    expect(page.locator("#notice")).to_be_visible()
    expect(page.locator("#controls button").first).to_be_enabled()
    page.get_by_role("button", name="Yes, go on").click()
    server.wait_for("reactor.here")
    server.broadcast("reactor.session", phase="idle", seconds=None)
    expect_phase(page, "connected")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_user_who_was_idle_reads_that(page: Page, server: FakeServer) -> None:
    start(page, server)
    server.broadcast("reactor.session", phase="ended", reason="idle", message="the controller was idle")
    expect(page.locator("#notice-detail")).to_have_text("You were idle")


@pytest.mark.parametrize("reason", ["turn_over", "finished"])
def test_after_its_turn_the_page_comes_back_only_when_asked_to(page: Page, server: FakeServer, reason: str) -> None:
    start(page, server)
    server.broadcast("reactor.session", phase="ended", reason=reason, message="the turn is over: others wait")
    server.close(1000)
    expect(page.locator("#notice")).to_contain_text("the turn is over: others wait")
    page.evaluate(
        "() => { dispatchEvent(new Event('online')); document.dispatchEvent(new Event('visibilitychange')); }"
    )
    expect(page.locator("#notice")).not_to_contain_text("Reconnecting")
    assert len(server.queries) == 1
    page.get_by_role("button", name="Play again").click()
    expect_phase(page, "connected")
    expect(page.locator("#retry")).to_be_hidden()


def test_a_viewer_comes_back_after_the_turn_of_somebody_else(page: Page, server: FakeServer) -> None:
    server.script.role = "viewer"
    start(page, server)
    server.broadcast("reactor.session", phase="ended", reason="turn_over", message="the turn is over: others wait")
    expect(page.locator("html:not([data-phase=watching])")).to_be_attached()
    server.stop()
    server.start()
    expect_phase(page, "watching")
    expect(page.locator("#may")).to_have_text("View only")


def test_after_a_break_the_page_brings_its_secret(page: Page, server: FakeServer) -> None:
    server.script.resume = "a secret"
    start(page, server)
    server.stop()
    expect_phase(page, "offline")
    server.start()
    expect_phase(page, "connected")
    assert "resume" not in server.queries[0]
    assert server.queries[-1]["resume"] == "a secret"
