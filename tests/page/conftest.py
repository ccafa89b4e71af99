"""The page in a real browser, against a server that a test controls."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    BrowserType,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.clients.node import PACKAGE, run
from tests.timeouts import TIMEOUT_S

from .fake_server import FakeServer

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One process for the pages of a browser, and no spare one after each: a tenth of the CPU time of most tests.
    "--renderer-process-limit=1",
    "--in-process-gpu",
    "--disable-features=SpareRendererForSitePerProcess",
]
WHOLE = ("chromium", "chromium-browser", "google-chrome")
# Chromium without its interface takes 40 % less CPU.
SHELL = "chromium-headless-shell"
TIMEOUT_MS = 1000 * TIMEOUT_S
# Most tests are about the controls: as for a user who has opened the drawer of these models.
DRAWER = """if (location.origin !== "null" && !localStorage.getItem("reactor.drawer"))
  localStorage.setItem("reactor.drawer", '{"aurora": true, "my-model": true, "demo": true}');"""
# As for a user whose hand is at the mouse, however long a test takes: what has faded takes no click, and Playwright
# moves the mouse only after it has seen that the click would arrive.
AWAKE = "window.awake = setInterval(() => window.dispatchEvent(new Event('activity')), 1000);"
LET_FADE = "clearInterval(awake)"
as_modules = pytest.mark.parametrize("served_files", ["modules"], indirect=True)
as_modules_and_as_bundle = pytest.mark.parametrize("served_files", ["modules", "bundle"], indirect=True)
# The page before it in its context may have stored something.
FRESH = """if (location.origin !== "null" && !sessionStorage.getItem("begun")) {
  localStorage.clear();
  sessionStorage.setItem("begun", "true");
}"""
REPAINTED = "() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))"
SIZE = ViewportSize(width=1280, height=800)
EXPECTED = (
    "ERR_CONNECTION_REFUSED",
    # Chromium's: the last frame of a track that ends, in a MediaStreamTrackProcessor of which each frame was closed.
    "A VideoFrame was garbage collected without being closed",
)


@pytest.fixture(scope="package")
def chromium() -> Iterator[BrowserType]:
    """Chromium to launch, not for the whole run: while open, Playwright holds the main thread's event loop."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture(scope="package")
def plain_browser(chromium: BrowserType) -> Iterator[Browser]:
    with launched(chromium) as browser:
        yield browser


@pytest.fixture(scope="module")
def browser(plain_browser: Browser) -> Browser:
    """The browser of all modules that do not launch one with flags of their own."""
    return plain_browser


@pytest.fixture(scope="package")
def whole_browser(chromium: BrowserType) -> Iterator[Browser]:
    """The browser of tests with the marker `whole_browser`."""
    with launched(chromium, whole=True) as browser:
        yield browser


@contextlib.contextmanager
def launched(chromium: BrowserType, *flags: str, whole: bool = False) -> Iterator[Browser]:
    browser = launch(chromium, *flags, whole=whole)
    yield browser
    browser.close()


def launch(chromium: BrowserType, *flags: str, whole: bool = False) -> Browser:
    """Launch the headless shell, or with `whole` a Chromium with its interface."""
    names = WHOLE if whole else (SHELL, *WHOLE)
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    # Where there is neither, Playwright has fetched both.
    channel = "chromium" if whole and executable is None else None
    return chromium.launch(executable_path=executable, channel=channel, args=[*QUIET, *flags])


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a release serves of the page."""
    folder = tmp_path_factory.mktemp("bundle")
    run("node", "bundle.mjs", str(folder), cwd=PACKAGE)
    return folder


@pytest.fixture
def served_files(request: pytest.FixtureRequest, bundle: Path) -> Path | None:
    """The bundle, or None for the modules, for which a test asks with one of the marks `as_modules…`.

    A page takes a seventh less CPU time from the bundle than from 86 modules.
    """
    wanted: str = getattr(request, "param", "bundle")
    return bundle if wanted == "bundle" else None


@pytest.fixture(scope="package")
def kept_server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def server(kept_server: FakeServer, served_files: Path | None) -> Iterator[FakeServer]:
    """A server that is as new; its address stays, so that a browser has the files of the page in its cache."""
    if served_files is not None:
        kept_server.serve_bundle(served_files)
    yield kept_server
    kept_server.reset()


@pytest.fixture(scope="package")
def contexts() -> dict[Browser, BrowserContext]:
    """The context that the pages of a browser share, one after the other, for its cache."""
    return {}


@pytest.fixture
def page_url(server: FakeServer) -> str:
    return server.url


@pytest.fixture
def page(
    request: pytest.FixtureRequest, browser: Browser, server: FakeServer, contexts: dict[Browser, BrowserContext]
) -> Iterator[Page]:
    """A page as for a new user, who sees no motion: that takes a seventh of the CPU time of most tests."""
    if request.node.get_closest_marker("whole_browser"):
        browser = request.getfixturevalue("whole_browser")
    if browser not in contexts:
        contexts[browser] = browser.new_context(base_url=server.url, viewport=SIZE, reduced_motion="reduce")
        # While it is open the process of the pages stays, which each test would start.
        contexts[browser].new_page()
    context = contexts[browser]
    try:
        with _checked(context.new_page()) as page:
            page.add_init_script(FRESH)
            page.add_init_script(DRAWER)
            page.add_init_script(AWAKE)
            yield page
    finally:
        context.clear_permissions()
        context.clear_cookies()


@pytest.fixture(scope="module")
def still(browser: Browser) -> Iterator[Page]:
    """A page without a session, for all tests of a module that call functions of the page and leave it as it is."""
    with FakeServer() as server, open_page(browser, server.url) as page:
        server.script.held_loading = True
        page.goto("/")
        yield page


@contextlib.contextmanager
def open_page(
    browser: Browser,
    url: str,
    *,
    bypass_csp: bool = False,
    phone: bool = False,
    drawer: bool = True,
    awake: bool = True,
) -> Iterator[Page]:
    """Open a page that fails the test if its console or scripts complain of anything that is not expected.

    Without `drawer` the page decides whether the drawer is open, as for a new user. Unless `awake`, what lies over the
    frame fades while nothing is touched.
    """
    size = ViewportSize(width=390, height=844) if phone else SIZE
    page = browser.new_page(base_url=url, viewport=size, bypass_csp=bypass_csp, has_touch=phone, is_mobile=phone)
    with _checked(page):
        if drawer:
            page.add_init_script(DRAWER)
        if awake:
            page.add_init_script(AWAKE)
        yield page


def record(page: Page, expression: str) -> None:
    """Keep each value of an expression from now on, since the page may have one for less than a poll takes."""
    page.evaluate(f"""() => {{
        window.recorded = [];
        const observer = new MutationObserver(() => window.recorded.push({expression}));
        observer.observe(document, {{ subtree: true, childList: true, characterData: true, attributes: true }});
    }}""")


def expect_recorded(page: Page, value: str | bool) -> None:
    """Wait until the expression has a value, or has had it."""
    page.wait_for_function("value => window.recorded.includes(value)", arg=value)


@contextlib.contextmanager
def _checked(page: Page) -> Iterator[Page]:
    """Close a page, and fail if its console or scripts have complained of anything that is not expected."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(text in message.text for text in EXPECTED):
            complaints.append(message.text)

    page.set_default_timeout(TIMEOUT_MS)
    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        page.close()
    assert complaints == []
