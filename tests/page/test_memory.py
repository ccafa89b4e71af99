"""What stays behind when sessions come and go: nothing."""

from __future__ import annotations

from playwright.sync_api import CDPSession, Page, expect

from .bound import WALKER
from .conftest import REPAINTED
from .fake_server import FakeServer

SETTLING = 2  # parts that come with the first sessions, and what the browser makes once
MEASURED = 8
MOST = 10  # a leak of three nodes in each session gives more


def nodes(page: Page, browser: CDPSession) -> int:
    page.locator("#log-clear").dispatch_event("click")
    page.evaluate(REPAINTED)
    for _ in range(2):  # what holds what is let go first
        browser.send("HeapProfiler.collectGarbage")
    return int(browser.send("Memory.getDOMCounters")["nodes"])


def test_sessions_with_bindings_leave_no_elements_behind(page: Page, server: FakeServer) -> None:
    server.script.events = WALKER
    page.goto(server.url)
    browser = page.context.new_cdp_session(page)
    counts = []
    for _ in range(SETTLING + MEASURED):
        expect(page.locator(".legend:not([data-old])")).to_be_attached()
        page.locator(".legend").evaluate("legend => { legend.dataset.old = ''; }")
        server.close(1012)
        page.locator("#retry").dispatch_event("click")  # sooner than by itself, or one session more
        expect(page.locator(".legend:not([data-old])")).to_be_attached()
        counts.append(nodes(page, browser))
    # On a busy machine a count may miss parts that come late, and none has parts too many.
    half = SETTLING + MEASURED // 2
    assert max(counts[half:]) - max(counts[SETTLING:half]) < MOST, counts
