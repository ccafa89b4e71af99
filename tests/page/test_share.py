"""Keeping, recording and enlarging the picture, and links that carry values, a role or nothing but the picture."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from .fake_server import FakeServer


def open_connected(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator('html[data-phase="connected"]')).to_be_attached()
    expect(page.locator("canvas[data-seq]")).to_be_visible()


def link(page: Page, label: str) -> str:
    page.get_by_role("button", name="Share").click()
    value = page.get_by_label(label, exact=True).input_value()
    page.keyboard.press("Escape")
    return value


def test_the_picture_is_saved_as_it_is_on_screen(page: Page, server: FakeServer, tmp_path: Path) -> None:
    open_connected(page, server.url)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the frame").click()
    assert download.value.suggested_filename.startswith("aurora-main_video-")
    file = tmp_path / "picture.png"
    download.value.save_as(file)
    header = file.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(header[16:20]), int.from_bytes(header[20:24])) == (640, 480)


def test_a_recording_is_saved_when_it_is_stopped(page: Page, server: FakeServer, tmp_path: Path) -> None:
    open_connected(page, server.url)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_have_attribute("aria-pressed", "true")
    expect(record).to_contain_text("0:01")
    with page.expect_download() as download:
        record.click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.suffix in (".webm", ".mp4")
    assert file.stat().st_size > 1000
    expect(record).to_have_attribute("aria-pressed", "false")


def test_the_last_seconds_are_saved_with_one_click(page: Page, server: FakeServer, tmp_path: Path) -> None:
    server.script.sounds = {"voice": 16000}
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    page.wait_for_function("() => +document.querySelector('canvas').dataset.seq > 15")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the last 10 s").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name.startswith("aurora-clip-")
    assert file.stat().st_size > 1000
    assert page.evaluate("window.films[0].tracks") == ["audio live", "video live"]
    expect(page.get_by_role("button", name="Save the last 10 s")).to_have_attribute("aria-busy", "false")


def test_a_clip_that_fails_leaves_no_recording(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    page.wait_for_function("() => +document.querySelector('canvas').dataset.seq > 15")
    page.get_by_role("button", name="Save the last 10 s").click()
    page.wait_for_function("() => window.films.length")
    page.evaluate("() => { globalThis.createImageBitmap = () => Promise.reject(new Error('broken')) }")
    page.wait_for_function("() => window.films[0].state === 'inactive'")
    assert page.evaluate("window.films[0].stream.getTracks().every(({ readyState }) => readyState === 'ended')")


FILMS = """window.films = [];
window.MediaRecorder = class extends MediaRecorder {
  start(...given) {
    window.films.push(this);
    this.tracks = this.stream.getTracks().map(({ kind, readyState }) => `${kind} ${readyState}`).sort();
    super.start(...given);
  }
};"""


def film(page: Page) -> list[str]:
    """Record for a moment; gives what the film was made of."""
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_contain_text("0:01")
    with page.expect_download():
        record.click()
    expect(record).to_have_attribute("aria-pressed", "false")
    tracks: list[str] = page.evaluate("window.films.at(-1).tracks")
    return tracks


def test_each_recording_has_the_sound_that_is_on(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"voice": 16000}
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    page.get_by_role("switch", name="Sound").click()
    expect(page.get_by_role("switch", name="Sound")).to_be_checked()
    assert [film(page), film(page)] == [["audio live", "video live"]] * 2


def test_pressed_twice_at_once_it_records_one_film(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    record = page.get_by_role("button", name="Record")
    record.dblclick()
    page.wait_for_function("() => window.films.length === 1 && window.films[0].state === 'inactive'")
    expect(record).to_have_attribute("aria-pressed", "false")


def test_a_recording_that_breaks_is_saved_and_said(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_contain_text("0:01")
    with page.expect_download():
        page.evaluate("""() => {
          const [film] = window.films;
          film.dispatchEvent(new ErrorEvent("error", { error: new Error("the encoder has gone") }));
          film.stop();
        }""")
    expect(page.locator("#log .error")).to_contain_text("The recording ended by itself")
    expect(record).to_have_attribute("aria-pressed", "false")


def test_whoever_leaves_a_recording_is_asked(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    leaving = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"  # false where it is held up
    assert page.evaluate(leaving)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_contain_text("0:01")
    assert not page.evaluate(leaving)
    with page.expect_download():
        record.click()
    expect(record).to_have_attribute("aria-pressed", "false")
    assert page.evaluate(leaving)


def test_a_refused_window_is_said_and_decodes_nothing(page: Page, server: FakeServer) -> None:
    page.add_init_script("""HTMLVideoElement.prototype.requestPictureInPicture = async function () {
      window.refused = this;
      throw new Error("not in this frame");
    };""")
    open_connected(page, server.url)
    page.get_by_role("button", name="Picture in picture").click()
    expect(page.locator("#log")).to_contain_text("Picture in picture isn't possible")
    assert page.evaluate("window.refused.srcObject.getTracks().map(({ readyState }) => readyState)") == ["ended"]


def test_a_link_brings_the_values_to_whoever_opens_it(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url + "?token=secret")
    slider = page.locator('[data-event="set_brightness"] input[type="range"]')
    slider.fill("0.5")
    server.wait_for("set_brightness", lambda data: data == {"brightness": 0.5})
    expect(page.locator('[data-event="set_brightness"]')).not_to_have_attribute("data-edited", "")
    shared = link(page, "Link with these values")
    assert "secret" not in shared
    assert json.loads(parse_qs(urlsplit(shared).query)["set"][0]) == {"brightness": 0.5}
    server.received.clear()
    open_connected(page, shared)
    server.wait_for("set_brightness", lambda data: data == {"brightness": 0.5})
    expect(slider).to_have_value("0.5")


def test_a_link_that_can_t_be_used_says_why(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url + '?set={"colour":"red"}')
    expect(page.get_by_text("The link sets a field that this model does not have: colour")).to_be_visible()
    open_connected(page, server.url + "?set=brighter")
    expect(page.locator("#log")).to_contain_text("The link's values can't be read")


def test_on_this_computer_only_the_links_come_with_what_to_do(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share")
    expect(dialog).to_contain_text("Only this computer can open these links")
    expect(dialog.get_by_role("img")).to_be_hidden()
    page.evaluate("""async () => {
      const { makeLinks } = await import("/static/toolbar/share.js");
      const button = (title) => Object.assign(document.createElement("button"), { id: "other", textContent: title });
      const { root, opener } = makeLinks({ values: {} }, button, "192.168.1.2");
      document.body.append(root, opener);
      document.querySelector(".links").hidePopover();
      root.showPopover();
    }""")
    expect(page.get_by_role("img", name="as a QR code").last).to_have_js_property("naturalWidth", 29 + 8)


def test_links_to_watch_and_for_other_pages(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    assert link(page, "Link to watch") == f"{server.url}?role=viewer"
    assert f'src="{server.url}?embed&amp;role=viewer"' in link(page, "For another page")


def test_embedded_there_is_nothing_but_the_picture(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url + "?embed")
    expect(page.get_by_role("heading")).to_be_hidden()
    expect(page.get_by_role("link")).to_be_hidden()
    expect(page.locator(".side")).to_be_hidden()
    box = page.locator(".stage").bounding_box()
    assert box is not None
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1280, 800)


def test_the_picture_fills_the_screen_and_comes_back(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    full = page.get_by_role("button", name="Full screen")
    full.click()
    page.wait_for_function("() => document.fullscreenElement === document.documentElement")
    expect(page.locator("#side")).to_be_hidden()
    full.click()
    page.wait_for_function("() => !document.fullscreenElement")
    expect(page.locator("#side")).to_be_visible()


def test_the_bar_is_one_stop_for_the_keyboard_and_arrows_move_within_it(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    save = page.get_by_role("button", name="Save the frame")
    save.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Save the last 10 s")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(save).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".tools :focus")).to_have_count(0)
