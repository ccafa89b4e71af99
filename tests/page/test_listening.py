"""The button for sound, and when the page is silent."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from reactor_runtime.media import jpeg
from reactor_runtime.wire.media_header import FrameFlag

from .conftest import as_modules_and_as_bundle
from .fake_server import FakeServer, frame
from .fake_sound import piece

RATE = 16000
TAP = """const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (!(target instanceof AudioDestinationNode)) return connect.call(this, target, ...rest);
  const tap = this.context.createAnalyser();
  const wave = new Float32Array(tap.fftSize);
  window.level = () => { tap.getFloatTimeDomainData(wave); return Math.max(...wave.map(Math.abs)); };
  connect.call(this, tap);
  return connect.call(this, target, ...rest);
};"""
SLOW_TO_SUSPEND = """() => { const suspend = AudioContext.prototype.suspend;
AudioContext.prototype.suspend = async function () {
  await new Promise((done) => (window.suspendAtLast = done));
  return suspend.call(this);
}; }"""
HIDE = """Object.defineProperty(document, "hidden", {value: true, configurable: true});
document.dispatchEvent(new Event("visibilitychange"));"""


@pytest.fixture
def listening(page: Page, server: FakeServer) -> Page:
    """Open a session with sound, turn it on, and let it be sent a tone of eight seconds."""
    server.script.tracks, server.script.sounds, server.script.frames = ("main_video",), {"voice": RATE}, False
    page.add_init_script(TAP)
    page.goto(server.url)
    page.get_by_role("switch", name="Sound").click()
    expect(page.get_by_role("switch", name="Sound")).to_be_checked()
    server.send_raw(tone(seq=0, start_s=0.0, seconds=8.0, amplitude=16000))
    page.wait_for_function("() => window.level && level() > 0.4")
    return page


def tone(*, seq: int, start_s: float, seconds: float, amplitude: int, flags: int = 0) -> bytes:
    wave = amplitude * np.sin(np.arange(int(RATE * seconds)) / 5)
    return piece("voice", seq, start_s, wave[np.newaxis].astype(np.int16), RATE, flags)


def play_again(server: FakeServer, seq: int) -> None:
    """Replace the rest of the tone by one of eight seconds: a busy machine may have played it to its end."""
    server.send_raw(tone(seq=seq, start_s=1.0 * seq, seconds=8.0, amplitude=16000, flags=FrameFlag.AFTER_FLUSH))


def test_there_is_no_button_without_sound(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    expect(page.get_by_role("switch", name="Sound")).to_be_hidden()


@as_modules_and_as_bundle
def test_the_keyboard_turns_sound_on_and_off(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"music": 44100}
    page.goto(server.url)
    button = page.get_by_role("switch", name="Sound")
    expect(button).not_to_be_checked()
    expect(page.locator("[data-figure=sound]")).to_have_text("off")
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(button).to_be_checked()
    expect(page.locator("[data-figure=sound]")).to_contain_text(" ms")
    page.keyboard.press("Space")
    expect(button).not_to_be_checked()


def test_in_a_frame_the_button_is_on_the_picture(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"music": 44100}
    page.goto(server.url + "?embed&role=viewer")
    button = page.get_by_role("switch", name="Sound")
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    expect(button).to_have_css("opacity", "1")
    button.click()
    expect(button).to_be_checked()
    page.mouse.move(-1, -1)
    button.blur()
    expect(button).to_have_css("opacity", "0")
    expect(page.locator("#headline")).to_be_hidden()


def test_the_volume_is_heard_and_remembered(listening: Page, server: FakeServer) -> None:
    slider = listening.get_by_role("slider", name="Volume")
    slider.fill("50")
    play_again(server, 1)
    listening.wait_for_function("() => level() > 0.08 && level() < 0.16")  # a quarter
    listening.reload()
    listening.get_by_role("switch", name="Sound").click()
    expect(slider).to_have_value("50")


def test_mute_is_silent_and_leaves_the_volume_as_it_was(listening: Page, server: FakeServer) -> None:
    mute = listening.get_by_role("button", name="Mute")
    slider = listening.get_by_role("slider", name="Volume")
    mute.click()
    expect(mute).to_have_attribute("aria-pressed", "true")
    listening.wait_for_function("() => level() < 0.001")
    expect(slider).to_have_value("100")
    mute.click()
    play_again(server, 1)
    listening.wait_for_function("() => level() > 0.4")
    mute.click()
    slider.press("ArrowLeft")  # who moves the slider wants to hear
    expect(mute).to_have_attribute("aria-pressed", "false")
    play_again(server, 2)
    listening.wait_for_function("() => level() > 0.4")


def test_a_remembered_mute_is_silent_from_the_start(listening: Page, server: FakeServer) -> None:
    listening.get_by_role("button", name="Mute").click()
    listening.reload()
    expect(listening.get_by_role("slider", name="Volume")).to_be_hidden()
    listening.get_by_role("switch", name="Sound").click()
    expect(listening.get_by_role("button", name="Mute")).to_have_attribute("aria-pressed", "true")
    server.send_raw(tone(seq=0, start_s=0.0, seconds=8.0, amplitude=16000))
    expect(listening.locator("#listen")).to_have_attribute("style", re.compile(r"--level: 0\.[5-9]"))
    assert listening.evaluate("level()") < 0.001


def test_the_end_of_the_session_cuts_the_sound(listening: Page, server: FakeServer) -> None:
    server.broadcast("reactor.session", phase="ended", reason="left", message="")
    listening.wait_for_function("() => level() < 0.001")


def flushed_sound() -> bytes:
    return tone(seq=1, start_s=30.0, seconds=0.1, amplitude=0, flags=FrameFlag.AFTER_FLUSH)


def flushed_picture(start_s: float = 30.0) -> bytes:
    picture = bytearray(frame(jpeg.encode(np.zeros((8, 8, 3), np.uint8)), "main_video", 0, start_s, 0))
    picture[15] = FrameFlag.AFTER_FLUSH
    return bytes(picture)


@pytest.mark.parametrize("payload", [flushed_sound(), flushed_picture()], ids=["sound", "picture"])
def test_a_flush_cuts_the_sound(listening: Page, server: FakeServer, payload: bytes) -> None:
    server.send_raw(payload)
    listening.wait_for_function("() => level() < 0.001")


def test_a_frame_whose_flush_the_sound_has_cut_already_cuts_no_more(listening: Page, server: FakeServer) -> None:
    server.send_raw(tone(seq=1, start_s=3.0, seconds=0.1, amplitude=0, flags=FrameFlag.AFTER_FLUSH))
    # It took the place of frames that this client was not sent.
    server.send_raw(flushed_picture(20.0))
    server.send_raw(tone(seq=2, start_s=3.1, seconds=8.0, amplitude=8000))
    listening.wait_for_function("() => level() > 0.2 && level() < 0.3")


def test_turning_it_off_is_silent_and_on_again_plays_what_comes(listening: Page, server: FakeServer) -> None:
    button = listening.get_by_role("switch", name="Sound")
    button.click()
    expect(button).not_to_be_checked()
    button.click()
    expect(button).to_be_checked()
    listening.wait_for_function("() => level() < 0.001")
    server.send_raw(tone(seq=1, start_s=2.0, seconds=8.0, amplitude=16000))
    listening.wait_for_function("() => level() > 0.4")


def test_what_comes_while_it_is_being_turned_off_delays_nothing_later(listening: Page, server: FakeServer) -> None:
    listening.evaluate(SLOW_TO_SUSPEND)
    button = listening.get_by_role("switch", name="Sound")
    button.click()
    listening.wait_for_function("() => window.suspendAtLast")
    server.send_raw(tone(seq=1, start_s=2.0, seconds=0.1, amplitude=100))
    expect(listening.locator("#listen")).to_have_attribute("style", "--level: 0.56;")  # it has come
    listening.evaluate("suspendAtLast()")
    expect(button).not_to_be_checked()
    button.click()
    expect(button).to_be_checked()
    server.send_raw(tone(seq=2, start_s=62.0, seconds=8.0, amplitude=16000))  # the audio clock stood still for a minute
    listening.wait_for_function("() => level() > 0.4")


def test_a_hidden_page_goes_on_sounding_and_asks_for_no_pictures(listening: Page, server: FakeServer) -> None:
    listening.evaluate(HIDE)
    assert server.wait_for("reactor.view") == {"tracks": ["voice"]}
    play_again(server, 1)
    listening.wait_for_function("() => level() > 0.4", polling=50)


def test_a_silent_page_that_is_hidden_asks_for_nothing(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"voice": RATE}
    page.goto(server.url)
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    page.evaluate(HIDE)
    assert server.wait_for("reactor.view") == {"paused": True}


def test_an_origin_that_may_not_play_is_told_why(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"voice": RATE}
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.goto(server.url)
    page.get_by_role("switch", name="Sound").click()
    expect(page.locator("#log")).to_contain_text("No sound: browsers allow it from https and from localhost only")
    expect(page.locator("#log")).to_contain_text("--ssl-certfile")
    expect(page.get_by_role("switch", name="Sound")).to_contain_text("impossible")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"RIFF\x04\0\0\0WAVE", "without header"),
        (tone(seq=0, start_s=0, seconds=0.1, amplitude=1)[:-40], "cut short"),
        (piece("noise", 0, 0.0, np.zeros((1, 8), np.int16), RATE), "sound of noise"),
        (piece("voice", 0, 0.0, np.zeros((3, 8), np.int16), RATE), "3 channels"),
    ],
    ids=["empty", "cut short", "another track", "three channels"],
)
def test_sound_that_cannot_be_played_is_logged_and_ignored(
    page: Page, server: FakeServer, payload: bytes, words: str
) -> None:
    server.script.sounds, server.script.frames = {"voice": RATE}, False
    page.goto(server.url)
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    server.send_raw(payload)
    expect(page.locator("#log")).to_contain_text(words)
