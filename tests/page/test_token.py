"""The page of a server that requires a token: it asks for the token, which the browser keeps and the address loses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.bare import MODEL, SECRET
from tests.server.running import RunningServer, reserved_port, serving, started, write_project

from .conftest import TIMEOUT_MS

ASKED = "Ask whoever sent you this link for the password."
CONNECTED = "html[data-phase=connected]"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("guarded"), MODEL), "--token", SECRET) as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a page of its own browser context: no cookie of another test, and 401 in the console is what is meant."""
    with browser.new_context() as context:
        context.set_default_timeout(TIMEOUT_MS)
        yield context.new_page()


def test_the_printed_address_opens_the_page_and_hides_the_token(page: Page, guarded: RunningServer) -> None:
    page.goto(f"http://127.0.0.1:{guarded.port}/?token={SECRET}&role=controller#top")
    expect(page.locator(CONNECTED)).to_be_attached()
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page).to_have_url(f"http://127.0.0.1:{guarded.port}/?role=controller#top")
    page.reload()
    expect(page.locator(CONNECTED)).to_be_attached()


def test_without_it_the_page_asks(page: Page, guarded: RunningServer) -> None:
    page.goto(f"http://127.0.0.1:{guarded.port}/?role=viewer")
    expect(page.get_by_text(ASKED)).to_be_visible()
    password = page.get_by_label("Password", exact=True)
    expect(password).to_be_focused()
    password.fill("wrong-horse")
    page.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_have_text("The password is wrong")
    password.fill(SECRET)
    page.get_by_role("button").click()
    expect(page.locator("html[data-phase=watching]")).to_be_attached()
    expect(page).to_have_url(f"http://127.0.0.1:{guarded.port}/?role=viewer")


def test_the_password_can_be_shown_while_it_is_typed(page: Page, guarded: RunningServer) -> None:
    page.goto(f"http://127.0.0.1:{guarded.port}/")
    password = page.get_by_label("Password", exact=True)
    password.fill(SECRET)
    expect(password).to_have_attribute("type", "password")
    page.get_by_label("Show the password").check()
    expect(password).to_have_attribute("type", "text")
    page.get_by_role("button", name="Open").click()
    expect(page.locator(CONNECTED)).to_be_attached()
    expect(page).to_have_url(f"http://127.0.0.1:{guarded.port}/")


def test_the_page_that_asks_has_the_title_and_the_accent_of_the_model(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = write_project(tmp_path_factory.mktemp("titled"), MODEL)
    manifest = project / "reactor.yaml"
    manifest.write_text(f'{manifest.read_text()}title: Dream <Canyon>\naccent: "#7c3aed"\n')
    with serving(project, "--token", SECRET) as server:
        page.goto(f"http://127.0.0.1:{server.port}/")
        expect(page.get_by_role("heading")).to_have_text("Dream <Canyon>")
        assert page.evaluate("document.documentElement.style.getPropertyValue('--authors')") == "#7c3aed"


def test_the_page_that_asks_has_the_name_of_a_model_without_a_title(page: Page, guarded: RunningServer) -> None:
    page.goto(f"http://127.0.0.1:{guarded.port}/")
    expect(page.get_by_role("heading")).to_have_text("my-model")


def test_a_page_whose_token_is_no_longer_good_asks_for_the_new_one(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = write_project(tmp_path_factory.mktemp("renewed"), MODEL)
    with reserved_port() as port:
        options = ("--port", str(port), "--token")
        with serving(project, *options, SECRET):
            page.goto(f"http://127.0.0.1:{port}/?token={SECRET}")
            expect(page.locator(CONNECTED)).to_be_attached()
        with started(project, *options, "another-horse") as server:
            server.wait_for("ready in")
            expect(page.get_by_text(ASKED)).to_be_visible()
            server.stop()


def test_the_policy_stops_what_is_written_into_the_page(page: Page, guarded: RunningServer) -> None:
    page.goto(f"http://127.0.0.1:{guarded.port}/?token={SECRET}")
    expect(page.locator(CONNECTED)).to_be_attached()
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.written = true";
        document.body.append(script);
    }""")
    assert page.evaluate("window.written === undefined")
    with pytest.raises(Exception, match=r"Content Security Policy|Failed to fetch"):
        page.evaluate("fetch('http://192.0.2.1/')")
