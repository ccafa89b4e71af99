"""A public page and a server at a private address: Chromium asks for a permission before it connects."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, BrowserType, Page, expect

from .conftest import TIMEOUT_MS, launched
from .fake_server import FakeServer

# Chromium asks before WebSockets too from this version on.
LEAST_VERSION = 147
PUBLIC = "models.example"
PERMISSION = "local-network-access"
CONNECT = """async (url) => {
  const { connect } = await import("/static/client/reactor.js");
  let attempts = 0;
  const show = ({ phase, detail = "" }) => {
    document.body.textContent = `${phase}: ${detail}`;
    if (phase === "reconnecting") document.body.dataset.attempts = ++attempts;
  };
  const session = connect(url);
  session.addEventListener("status", ({ detail }) => show(detail));
  show(session.status);
}"""


def place(server: FakeServer) -> str:
    return server.url.removeprefix("http://").rstrip("/")


def address(site: FakeServer) -> str:
    return f"http://{place(site).replace('127.0.0.1', PUBLIC)}"


@pytest.fixture(scope="module")
def site() -> Iterator[FakeServer]:
    """The server of a page that the browser takes for a public one."""
    with FakeServer() as site:
        yield site


@pytest.fixture(scope="module")
def browser(chromium: BrowserType, site: FakeServer) -> Iterator[Browser]:
    flags = [
        f"--host-resolver-rules=MAP {PUBLIC} 127.0.0.1",
        f"--ip-address-space-overrides={place(site)}=public",
        # In place of a certificate.
        f"--unsafely-treat-insecure-origin-as-secure={address(site)}",
    ]
    with launched(chromium, *flags, whole=True) as browser:
        if int(browser.version.partition(".")[0]) < LEAST_VERSION:
            pytest.skip(f"Chromium {browser.version} does not ask before WebSockets")
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(bypass_csp=True)
    context.set_default_timeout(TIMEOUT_MS)
    yield context
    context.close()


def open_site(context: BrowserContext, site: FakeServer) -> Page:
    site.script.html = "<body></body>"
    page = context.new_page()
    page.goto(address(site))
    return page


def connected_page(context: BrowserContext, site: FakeServer, url: str) -> Page:
    page = open_site(context, site)
    page.evaluate(CONNECT, url)
    return page


def test_a_page_with_the_permission_connects(context: BrowserContext, site: FakeServer, server: FakeServer) -> None:
    context.grant_permissions([PERMISSION])
    page = connected_page(context, site, server.url)
    expect(page.locator("body")).to_have_text("connected: ")


def test_a_page_without_the_permission_says_what_to_do_until_it_is_given(
    context: BrowserContext, site: FakeServer, server: FakeServer
) -> None:
    # All permissions but these are denied.
    context.grant_permissions([])
    page = connected_page(context, site, server.url)
    expect(page.locator("body")).to_have_text(
        f"reconnecting: This page has no permission to connect to this device, where {place(server)} is: "
        "allow it in the site settings, at the icon before the address"
    )
    assert not server.queries
    context.grant_permissions([PERMISSION])
    expect(page.locator("body")).to_have_text("connected: ")


def test_a_visitor_who_refuses_is_asked_once(context: BrowserContext, site: FakeServer, server: FakeServer) -> None:
    # Headless, the browser refuses at once what nobody has decided.
    page = open_site(context, site)
    asked: list[str] = []
    page.on("console", lambda message: asked.append(message.text) if "blocked by CORS" in message.text else None)
    page.evaluate(CONNECT, server.url)
    expect(page.locator("body")).to_contain_text("allow it in the site settings")
    expect(page.locator("body")).to_have_attribute("data-attempts", re.compile(r"^([3-9]|\d\d+)$"))
    context.grant_permissions([PERMISSION])
    expect(page.locator("body")).to_have_text("connected: ")
    (blocked,) = asked
    assert f"fetch at '{server.url}live'" in blocked
