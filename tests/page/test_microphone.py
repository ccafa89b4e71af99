"""Sound from the page to the model: Chromium's pretended microphones, files and the test tone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserType, Locator, Page, expect

from reactor_runtime.media import wav

from .conftest import launched
from .fake_server import FakeServer

MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
TRACK = """const { getUserMedia } = MediaDevices.prototype;
MediaDevices.prototype.getUserMedia = async function (...wanted) {
  window.wanted = wanted[0];
  const stream = await getUserMedia.apply(this, wanted);
  [window.track] = stream.getTracks();
  return stream;
};"""

# Answers each ping at once, so that no sound is left out when the machine is busy.
ANSWER = """const { send } = WebSocket.prototype;
WebSocket.prototype.send = function (message) {
  send.call(this, message);
  if (typeof message !== "string" || !message.includes("reactor.ping")) return;
  const data = { t: JSON.parse(message).data.t, server_us: 1000 * Date.now() };
  const pong = JSON.stringify({ type: "reactor.pong", data });
  queueMicrotask(() => this.dispatchEvent(new MessageEvent("message", { data: pong })));
};"""


@pytest.fixture(scope="module")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    with launched(chromium, *MICROPHONE) as browser:
        yield browser


def open_panel(page: Page, server: FakeServer, rate: int) -> Locator:
    server.script.inputs = {"microphone": rate}
    page.add_init_script(TRACK)
    page.goto(server.url)
    return page.locator("[data-input=microphone]")


def start(panel: Locator, source: str) -> None:
    panel.get_by_label("Source").select_option(label=source)
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "on")


def heard(server: FakeServer, pieces: int) -> tuple[NDArray[np.float64], int]:
    """Return so many pieces end to end, and their rate."""
    server.wait_for_media("microphone", 10)  # where it sets in
    files = server.wait_for_media("microphone", pieces)
    (rate,) = {wav.read_header(file).sample_rate for file in files}
    return np.concatenate([wav.decode(file)[0] for file in files]).astype(float), rate


@pytest.mark.parametrize("rate", [8000, 16000, 24000, 44100, 48000])
def test_a_tone_arrives_clean_at_the_rate_of_the_track(page: Page, server: FakeServer, rate: int) -> None:
    page.add_init_script(ANSWER)
    start(open_panel(page, server, rate), "Test tone")
    samples, sent_rate = heard(server, 40)
    assert sent_rate == rate
    spectrum = np.abs(np.fft.rfft(samples * np.blackman(len(samples)))) ** 2
    loudest = int(spectrum.argmax())
    assert abs(loudest * rate / len(samples) - 440) < rate / len(samples)
    tone = spectrum[loudest - 5 : loudest + 6].sum()
    assert tone > 1e6 * (spectrum.sum() - tone)  # 60 dB above all else
    assert np.abs(samples).max() == pytest.approx(8192, rel=0.02)


def test_the_microphone_is_heard_as_long_as_it_lasts(page: Page, server: FakeServer) -> None:
    panel = open_panel(page, server, 16000)
    start(panel, "Fake Default Audio Input")
    samples, _ = heard(server, 100)  # two seconds; the pretended one beeps every half
    assert len(samples) >= 32000
    assert np.abs(samples).max() > 1000
    expect(panel.locator(".input-figures")).to_have_text(
        re.compile(r"^16 kHz mono · 3\d kB/s · (silent|−?\d+ dB) · \d+ skipped$")
    )


def test_the_browser_cleans_up_where_that_is_wanted(page: Page, server: FakeServer) -> None:
    panel = open_panel(page, server, 16000)
    start(panel, "Fake Default Audio Input")
    assert page.evaluate("window.wanted.audio.echoCancellation") is True
    panel.get_by_role("switch", name="Remove echo and noise").uncheck()
    page.wait_for_function("() => window.wanted.audio.echoCancellation === false")
    expect(panel).to_have_attribute("data-phase", "on")


def test_stop_lets_go_of_the_microphone(page: Page, server: FakeServer) -> None:
    panel = open_panel(page, server, 16000)
    start(panel, "Fake Default Audio Input")
    panel.get_by_role("button", name="Stop").click()
    page.wait_for_function("() => window.track.readyState === 'ended'")


def test_a_microphone_that_goes_is_said(page: Page, server: FakeServer) -> None:
    panel = open_panel(page, server, 16000)
    start(panel, "Fake Default Audio Input")
    page.evaluate("window.track.dispatchEvent(new Event('ended'))")
    expect(panel.get_by_role("status")).to_contain_text("unplugged")


def test_a_sound_file_is_played_to_the_model(page: Page, server: FakeServer, tmp_path: Path) -> None:
    # Longer than what is heard of it: between its end and its start there may be silence.
    t = np.arange(10 * 48000) / 48000
    (tmp_path / "tone.wav").write_bytes(
        wav.encode((12000 * np.sin(2 * np.pi * 1000 * t)).astype(np.int16)[None], 48000)
    )
    panel = open_panel(page, server, 16000)
    panel.get_by_label("Source").select_option(label="File…")
    panel.get_by_label("File").set_input_files(tmp_path / "tone.wav")
    samples, rate = heard(server, 20)
    loudest = int(np.abs(np.fft.rfft(samples * np.hanning(len(samples)))).argmax())
    assert loudest * rate / len(samples) == pytest.approx(1000, abs=5)


def test_a_file_that_is_no_sound_is_said(page: Page, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "notes.mp3").write_text("do re mi")
    panel = open_panel(page, server, 16000)
    panel.get_by_label("Source").select_option(label="File…")
    panel.get_by_label("File").set_input_files(tmp_path / "notes.mp3")
    expect(panel.get_by_role("status")).to_contain_text("notes.mp3 can't be played")


def test_sound_that_a_slow_server_can_not_take_is_left_out(page: Page, server: FakeServer) -> None:
    server.script.media_delay_s = 0.05  # a piece lasts 20 ms
    panel = open_panel(page, server, 16000)
    start(panel, "Test tone")
    expect(panel.locator(".input-figures")).to_have_text(re.compile(r" [1-9]\d* skipped$"))
