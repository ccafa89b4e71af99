"""Why there is no camera, microphone or screen, in words, and what to do."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserType, Locator, Page, expect

from .conftest import launch, launched, open_page
from .fake_server import FakeServer

DEVICES = "--use-fake-device-for-media-stream"
ELSEWHERE = "--host-resolver-rules=MAP studio.test 127.0.0.1"  # no page from there is trusted without https
REJECT = """MediaDevices.prototype.getUserMedia = () => Promise.reject(new DOMException(%r, %r));"""
REFUSE_SCREEN = """MediaDevices.prototype.getDisplayMedia = () => Promise.reject(new DOMException("", %r));"""
FRAME = """url => {
    const frame = document.createElement("iframe");
    Object.assign(frame, { allow: "camera 'none'", src: url });
    document.body.append(frame);
}"""


@pytest.fixture(scope="module")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    """Devices, and nobody who would allow their use."""
    with launched(chromium, DEVICES, ELSEWHERE, whole=True) as browser:
        yield browser


def tried(page: Page, server: FakeServer, name: str = "camera", url: str = "") -> Locator:
    """Open the page and press Start; gives what is said."""
    server.script.inputs = {"camera": None, "microphone": 16000}
    page.goto(url or server.url)
    panel = page.locator(f"[data-input={name}]")
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "failed")
    expect(panel.get_by_role("button", name="Start")).to_be_enabled()
    return panel.get_by_role("status")


@pytest.mark.parametrize("name", ["camera", "microphone"])
def test_a_refused_permission_says_where_to_give_it(page: Page, server: FakeServer, name: str) -> None:
    said = tried(page, server, name)
    expect(said).to_contain_text(f"The browser refuses the {name}")
    expect(said).to_contain_text("site settings")


def test_a_permission_given_later_is_enough(page: Page, server: FakeServer) -> None:
    tried(page, server)
    page.context.grant_permissions(["camera"])
    panel = page.locator("[data-input=camera]")
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "on")
    expect(panel.get_by_label("Source").locator("option:checked")).to_have_text("fake_device_0")


@pytest.mark.parametrize("name", ["camera", "microphone"])
def test_no_device_is_said_with_what_works_without(page: Page, server: FakeServer, name: str) -> None:
    page.add_init_script(REJECT % ("Requested device not found", "NotFoundError"))
    said = tried(page, server, name)
    expect(said).to_have_text(re.compile(rf"^No {name} was found.* or take a file or the test (pattern|tone)\.$"))


def test_a_machine_without_devices_says_so_too(browser: Browser, server: FakeServer) -> None:
    bare = launch(browser.browser_type)
    with contextlib.closing(bare), open_page(bare, server.url) as page:
        expect(tried(page, server)).to_contain_text("No camera was found")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NotReadableError", "another program may be using it"),
        ("OverconstrainedError", "No camera was found"),
        ("AbortError", "could not be started"),
        ("TypeError", "can't be used: because"),
    ],
)
def test_every_other_reason_has_its_words(page: Page, server: FakeServer, error: str, words: str) -> None:
    page.add_init_script(REJECT % ("because", error))
    expect(tried(page, server)).to_contain_text(words)


def test_a_chosen_camera_that_is_gone_is_said_to_be(page: Page, server: FakeServer) -> None:
    page.add_init_script(REJECT % ("", "OverconstrainedError"))
    chosen = json.dumps({"source": "device:1", "label": "Studio"})
    page.add_init_script(f"localStorage.setItem('reactor.input.camera', {json.dumps(chosen)})")
    expect(tried(page, server)).to_contain_text("not there any more")


def test_a_system_that_withholds_the_camera_is_named(page: Page, server: FakeServer) -> None:
    page.add_init_script(REJECT % ("Permission denied by system", "NotAllowedError"))
    expect(tried(page, server)).to_contain_text("privacy settings")


@pytest.mark.parametrize("name", ["camera", "microphone"])
def test_a_page_that_is_not_trusted_names_the_ways_out(page: Page, server: FakeServer, name: str) -> None:
    said = tried(page, server, name, server.url.replace("127.0.0.1", "studio.test"))
    port = server.url.strip("/").rsplit(":", 1)[1]
    tunnel = f"ssh -L {port}:studio.test:{port} studio.test"  # the server needn't listen on localhost
    for words in ("https", tunnel, f"http://localhost:{port}", "--ssl-certfile"):
        expect(said).to_contain_text(words)


def test_a_page_that_is_not_trusted_can_send_the_test_pattern(page: Page, server: FakeServer) -> None:
    tried(page, server, url=server.url.replace("127.0.0.1", "studio.test"))
    panel = page.locator("[data-input=camera]")
    panel.get_by_label("Source").select_option(label="Test pattern")
    panel.get_by_role("button", name="Start").click()
    server.wait_for_media("camera", 3)


UNTOLD = f"delete Document.prototype.featurePolicy; {REJECT % ('', 'NotAllowedError')}"


@pytest.mark.parametrize("without", ["", UNTOLD], ids=["told", "not told"])
def test_a_page_in_a_frame_says_what_the_frame_lacks(page: Page, server: FakeServer, without: str) -> None:
    page.add_init_script(without)
    server.script.inputs = {"camera": None}
    page.goto(f"{server.url}?role=viewer")
    page.evaluate(FRAME, server.url)
    panel = page.frame_locator("iframe").locator("[data-input=camera]")
    panel.get_by_role("button", name="Start").click()
    expect(panel.get_by_role("status")).to_contain_text('its iframe needs allow="camera')


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NotAllowedError", "Nothing was chosen"),
        ("InvalidStateError", "require a click"),
        ("NotReadableError", "can't be shared"),
    ],
)
def test_a_screen_that_is_not_shared_has_its_words(page: Page, server: FakeServer, error: str, words: str) -> None:
    page.add_init_script(REFUSE_SCREEN % error)
    server.script.inputs = {"camera": None}
    page.goto(server.url)
    panel = page.locator("[data-input=camera]")
    panel.get_by_label("Source").select_option(label="Screen or window")
    panel.get_by_role("button", name="Start").click()
    expect(panel.get_by_role("status")).to_contain_text(words)
