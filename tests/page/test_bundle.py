"""The page as a release serves it: what a browser requests before the first frame, and parts that it imports later.

Tests of other files with the mark `as_modules_and_as_bundle` use these parts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from reactor_runtime.server.routes.pages import index_html

from .conftest import open_page
from .fake_server import FakeServer

FIRST = {"style.css", "main.js", "shared.js"}


def hold_all_but(page: Page, names: set[str]) -> list[str]:
    """Answer requests for files with these names only, which are added to the result, and the page itself."""
    answered: list[str] = []

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if name in names:
            answered.append(name)
            route.continue_()

    page.route("**/static/**", answer)
    return answered


def test_the_first_paint_takes_three_round_trips(browser: Browser, bundle: Path) -> None:
    """To connect, for the page, and for the style sheet that it names."""
    with FakeServer(bundle) as server, open_page(browser, server.url) as page:
        answered = hold_all_but(page, {"style.css"})
        page.goto("/", wait_until="commit")
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
        assert answered == ["style.css"]


def test_the_first_frame_needs_only_files_that_the_page_names(browser: Browser, bundle: Path) -> None:
    """Thus they are requested at once, and the WebSocket opens after the same round trip."""
    with FakeServer(bundle) as server, open_page(browser, server.url) as page:
        answered = hold_all_but(page, FIRST)
        page.goto("/", wait_until="commit")
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        assert sorted(answered) == sorted(FIRST)
        named = re.findall(r'(?:href|src)="static/\w+/([\w.]+)"', index_html(bundle))
        assert set(named) >= FIRST
        page.unroute_all(behavior="ignoreErrors")


def test_the_page_loads_what_is_linked_and_nothing_else(browser: Browser, bundle: Path) -> None:
    with FakeServer(bundle) as server, open_page(browser, server.url) as page:
        page.goto("/")
        expect(page.locator("canvas[data-seq]")).to_be_visible()
        expect(page.locator(".tools")).to_be_attached()
        script = "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname.slice(1))"
        loaded = {path for path in page.evaluate(script) if path.startswith("static/")}
        assert loaded == set(re.findall(r'(?:href|src)="(static/[^"]+)"', index_html(bundle)))


def test_what_the_first_frame_waits_for_weighs_little(bundle: Path) -> None:
    """As it is sent: a TCP connection carries 14 kB in its first round trip."""
    sizes = {path.name: path.stat().st_size for path in bundle.rglob("*.gz")}
    assert sum(sizes[f"{name}.gz"] for name in FIRST) < 20_000


def test_each_file_has_its_source_in_a_map(bundle: Path) -> None:
    for path in bundle.rglob("*.js"):
        found = re.search(r"//# sourceMappingURL=(\S+)\s*$", path.read_text())
        assert found, path
        written = json.loads((path.parent / found[1]).read_text())
        assert len(written["sources"]) == len(written["sourcesContent"])
