"""The files that a browser is told to load at once: all that a page of a model without extras uses, and no others."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from reactor_runtime.server.routes.preloads import preload_links

from .conftest import as_modules
from .fake_server import PAGE, FakeServer


@as_modules
def test_the_page_loads_what_is_linked_and_nothing_else(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    expect(page.locator(".tools")).to_be_attached()
    script = "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname.slice(1))"
    loaded = {path for path in page.evaluate(script) if path.startswith("static/")}
    links = preload_links(PAGE)
    assert loaded - {"static/style.css"} == set(re.findall(r'href="([^"]+)"', links))
