"""The buttons on the stage for input tracks that have received nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from .fake_server import FakeServer
from .states import connected

REFUSE = """() => {
  navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", "NotAllowedError"));
}"""


@pytest.fixture
def offer(page: Page, server: FakeServer) -> Locator:
    server.script.inputs = {"camera": None, "microphone": 16000}
    connected(page, server)
    return page.get_by_role("group", name="Inputs of the model")


def test_unused_inputs_are_offered_until_they_receive_something(
    page: Page, server: FakeServer, offer: Locator, tmp_path: Path
) -> None:
    expect(offer.locator(".offer-use")).to_have_text(["Use your camera", "Choose an image", "Use your microphone"])
    Image.new("RGB", (32, 32), "red").save(tmp_path / "red.png")
    with page.expect_file_chooser() as chooser:
        offer.get_by_role("button", name="Choose an image").click()
    chooser.value.set_files(tmp_path / "red.png")
    server.wait_for_media("camera")
    expect(offer.locator(".offer-use")).to_have_text(["Use your microphone"])
    page.locator("[data-input=camera]").get_by_role("button", name="Stop").click()
    expect(offer.locator(".offer-use")).to_have_text(["Use your microphone"])
    offer.get_by_role("button", name="Not now").click()
    expect(offer).to_be_hidden()


def test_an_offer_takes_the_place_of_the_notice(page: Page, server: FakeServer) -> None:
    server.script.inputs, server.script.frames = {"camera": None}, False
    page.goto(server.url)
    expect(page.get_by_role("button", name="Use your camera")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#notice")).to_contain_text("Waiting for the first frame")
    expect(page.locator("#notice")).to_be_visible()


def test_a_refused_camera_says_why_on_the_stage(page: Page, offer: Locator) -> None:
    page.evaluate(REFUSE)
    offer.get_by_role("button", name="Use your camera").click()
    expect(offer.get_by_role("status")).not_to_be_empty()
    expect(offer.get_by_role("button", name="Use your camera")).to_be_visible()


def test_a_file_in_a_control_takes_the_place_of_an_input(server: FakeServer, offer: Locator) -> None:
    expect(offer).to_be_visible()
    server.broadcast("reactor.state", image={"upload": "u-1"})
    expect(offer).to_be_hidden()
    server.broadcast("reactor.state", strength=0.5)
    expect(offer).to_be_hidden()
    server.broadcast("reactor.state", image=None)
    expect(offer).to_be_visible()


def test_a_viewer_gets_no_offer(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    connected(page, server, "?role=viewer")
    expect(page.locator(".offer")).to_be_hidden()
