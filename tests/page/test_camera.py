"""Frames from the page to the model: Chromium's fake cameras, files and the test pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserType, Locator, Page, expect

from reactor_runtime.media import jpeg

from .conftest import DRAWER, TIMEOUT_MS, as_modules, as_modules_and_as_bundle, launched
from .fake_server import FakeServer

TWO_CAMERAS = ("--use-fake-device-for-media-stream=device-count=2,fps=30", "--use-fake-ui-for-media-stream")
GONE = """() => { const [track] = document.querySelector("[data-input] video").srcObject.getTracks();
                  track.stop(); track.dispatchEvent(new Event("ended")); }"""
NO_STREAMS = "delete window.MediaStreamTrackProcessor;"
NO_CALLBACKS = NO_STREAMS + "delete HTMLVideoElement.prototype.requestVideoFrameCallback;"
# So many frames on their way are more than the flow control lets a busy page send, and fewer than a source makes in
# half a second.
A_QUEUE = 10
# Counts the frames that the page has copied from its source, and those of them that are encoded.
COUNT = """() => {
  window.copied = window.encoded = 0;
  const copy = window.createImageBitmap, Encoder = window.Worker;
  window.createImageBitmap = (source, ...more) => {
    if (source instanceof HTMLElement) window.copied += 1;
    return copy(source, ...more);
  };
  window.Worker = class extends Encoder {
    constructor(...place) {
      super(...place);
      this.addEventListener("message", ({ data }) => data.jpeg && (window.encoded += 1));
    }
  };
}"""
TEN_PICTURES_LATER = """() => new Promise((resolve) => {
  let left = 10;
  const timer = setInterval(() => --left || resolve(clearInterval(timer)), 1000 / 30);
})"""
LIGHT = "document.querySelector('[data-input] video').srcObject.getTracks()[0]"


@pytest.fixture(scope="module")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    with launched(chromium, *TWO_CAMERAS) as browser:
        yield browser


@pytest.fixture
def panel(page: Page, server: FakeServer) -> Locator:
    server.script.inputs = {"camera": None}
    page.goto(server.url)
    return page.locator("[data-input=camera]")


def start(panel: Locator) -> None:
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "on")


def choose(panel: Locator, source: str) -> None:
    panel.get_by_label("Source").select_option(label=source)


def newest(server: FakeServer) -> NDArray[np.uint8]:
    picture: NDArray[np.uint8] = simplejpeg.decode_jpeg(server.wait_for_media("camera", 3)[-1])
    return picture


def is_green(picture: NDArray[np.uint8]) -> bool:
    """Chromium's pretended camera is."""
    red, green, blue = picture.reshape(-1, 3).mean(axis=0)
    return bool(green > 2 * max(red, blue))


def everything_read(page: Page, server: FakeServer, event: str) -> None:
    """Wait until the server has read what the page has sent up to now: what is sent after it comes after it."""
    page.locator(f'[data-event="{event}"] button').click()
    server.wait_for(event)


def test_a_model_without_input_has_no_panel_and_loads_nothing_for_one(page: Page, server: FakeServer) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page.locator("[data-input]")).to_have_count(0)
    assert not [
        url for url in asked if re.search(r"/static/(inputs/|sound\.js|client/(publish/|sound/audio_worklet))", url)
    ]


def test_a_viewer_has_no_panel(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    page.goto(f"{server.url}?role=viewer")
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page.locator("[data-input]")).to_have_count(0)


def test_the_page_asks_for_no_camera_before_a_click(page: Page, server: FakeServer) -> None:
    page.add_init_script(
        "navigator.mediaDevices.getUserMedia = () => { window.asked = true; return Promise.reject(new Error()); }"
    )
    server.script.inputs = {"camera": None, "microphone": 16000}
    page.goto(server.url)
    expect(page.get_by_role("button", name=re.compile("^Start (Camera|Microphone)$"))).to_have_count(2)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    assert page.evaluate("window.asked") is None
    assert server.published == []


@as_modules_and_as_bundle
def test_the_camera_s_pictures_arrive_as_jpeg(panel: Locator, server: FakeServer) -> None:
    start(panel)
    files = server.wait_for_media("camera", 10)
    header = jpeg.read_header(files[-1])
    assert (header.width, header.height) == (640, 480)
    assert is_green(simplejpeg.decode_jpeg(files[-1]))
    expect(panel.locator(".input-figures")).to_have_text(
        re.compile(r"^\d+\.\d fps · \d+ kB/s · 640×480 · \d+ skipped$")
    )
    expect(panel.get_by_role("status")).to_have_text("Sending, also while this tab is hidden.")


def test_stop_turns_the_camera_off(panel: Locator, server: FakeServer) -> None:
    start(panel)
    server.wait_for_media("camera")
    light = panel.page.evaluate_handle(LIGHT)
    panel.get_by_role("button", name="Stop").click()
    expect(panel.locator("video")).to_have_count(0)
    assert light.evaluate("track => track.readyState") == "ended"


def test_the_preview_of_a_camera_that_faces_away_is_not_mirrored(panel: Locator, page: Page) -> None:
    page.evaluate("() => { MediaStreamTrack.prototype.getSettings = () => ({ facingMode: 'environment' }); }")
    start(panel)
    expect(panel.locator("video")).to_be_attached()
    expect(panel.locator(".input-preview")).to_have_css("scale", "none")
    mirror = panel.get_by_role("switch")
    expect(mirror).to_be_disabled()
    expect(mirror).not_to_be_checked()
    expect(mirror).to_have_accessible_name("Not mirrored: it faces away")
    panel.get_by_role("button", name="Stop").click()
    expect(mirror).to_be_enabled()
    expect(mirror).to_be_checked()  # as it was left
    expect(mirror).to_have_accessible_name("Mirrored preview")


def test_the_preview_is_mirrored_and_the_frames_sent_are_not(panel: Locator, server: FakeServer) -> None:
    choose(panel, "Test pattern")
    start(panel)
    sent = newest(server)
    # Gray on the left, blue on the right; a white line, which is narrower, moves over both.
    assert sent[20, 5:85].mean() > sent[20, -85:-5].mean() + 50
    choose(panel, "fake_device_0")
    mirror = panel.get_by_role("switch", name="Mirrored preview")
    expect(mirror).to_be_checked()
    expect(panel.locator(".input-preview")).to_have_css("scale", "-1 1")
    expect(panel.locator("video")).to_be_attached()
    light = panel.page.evaluate_handle(LIGHT)
    mirror.uncheck()
    expect(panel.locator(".input-preview")).to_have_css("scale", "none")
    assert light.evaluate("track => track.readyState") == "live"


def test_size_and_rate_are_those_chosen(panel: Locator, server: FakeServer) -> None:
    choose(panel, "Test pattern")
    start(panel)
    panel.get_by_label("Maximum size").select_option("1280×720")
    panel.get_by_label("Maximum frame rate").select_option("5")
    expect(panel.locator(".input-figures")).to_contain_text("1280×720")
    expect(panel.locator(".input-figures")).to_contain_text(re.compile(r"^(?!0\.0)[0-5]\.\d fps"))
    assert newest(server).shape == (720, 1280, 3)


def test_the_choice_is_remembered_and_off_after_a_reload(panel: Locator, page: Page, server: FakeServer) -> None:
    start(panel)
    choose(panel, "fake_device_1")
    panel.get_by_label("Maximum size").select_option("320×240")
    expect(panel.locator(".input-figures")).to_contain_text("320×240")
    page.reload()
    expect(panel).to_have_attribute("data-phase", "off")
    expect(panel.get_by_label("Source").locator("option:checked")).to_have_text("fake_device_1")
    expect(panel.get_by_label("Maximum size")).to_have_value("320×240")
    start(panel)
    expect(panel.locator(".input-figures")).to_contain_text("320×240")
    assert newest(server).shape == (240, 320, 3)


@pytest.mark.parametrize("lacking", [NO_STREAMS, NO_CALLBACKS], ids=["no streams of frames", "no callbacks either"])
def test_browsers_without_streams_send_the_same_frames(page: Page, server: FakeServer, lacking: str) -> None:
    page.add_init_script(lacking)
    server.script.inputs = {"camera": None}
    page.goto(server.url)
    panel = page.locator("[data-input=camera]")
    start(panel)
    expect(panel.get_by_role("status")).to_have_text("Sending, but not while this tab is hidden.")
    assert is_green(newest(server))


def test_a_picture_file_is_sent_again_and_again(panel: Locator, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "red.jpg").write_bytes(simplejpeg.encode_jpeg(np.full((90, 120, 3), (200, 30, 30), np.uint8)))
    choose(panel, "File…")
    with panel.page.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Start").click()
    chooser.value.set_files(tmp_path / "red.jpg")
    sent = newest(server)
    assert sent.shape == (90, 120, 3)
    assert np.abs(sent.reshape(-1, 3).mean(axis=0) - (200, 30, 30)).max() < 6


RECORD = """async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 160, height: 120 });
  const context = canvas.getContext("2d"), pieces = [];
  const timer = setInterval(() => { context.fillStyle = "#2040d0"; context.fillRect(0, 0, 160, 120); }, 30);
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: "video/webm" });
  recorder.start(100);
  await new Promise((resolve) => {
    recorder.ondataavailable = ({ data }) => data.size && pieces.push(data) === 7 && resolve();
  });
  await new Promise((resolve) => { recorder.onstop = resolve; recorder.stop(); });
  clearInterval(timer);
  return Array.from(new Uint8Array(await new Blob(pieces).arrayBuffer()));
}"""


def test_a_video_file_is_played_and_sent(panel: Locator, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "blue.webm").write_bytes(bytes(panel.page.evaluate(RECORD)))
    choose(panel, "File…")
    panel.get_by_label("File").set_input_files(tmp_path / "blue.webm")
    expect(panel).to_have_attribute("data-phase", "on")
    sent = newest(server)
    assert sent.shape == (120, 160, 3)
    assert sent[..., 2].mean() > 150 > 100 > sent[..., 0].mean()


@pytest.mark.parametrize("name", ["film.mp4", "picture.png"])
def test_an_invalid_file_is_reported(panel: Locator, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind")
    choose(panel, "File…")
    panel.get_by_label("File").set_input_files(tmp_path / name)
    expect(panel.get_by_role("status")).to_contain_text(name)
    expect(panel).to_have_attribute("data-phase", "failed")


def test_a_slow_server_is_sent_fewer_frames_and_no_queue(panel: Locator, server: FakeServer) -> None:
    server.script.media_delay_s = 0.2
    choose(panel, "Test pattern")
    start(panel)
    server.wait_for_media("camera", 8)
    expect(panel.locator(".input-figures")).to_have_text(re.compile(r"^(?!0\.0)[0-6]\.\d fps .* [1-9]\d* skipped$"))
    panel.get_by_role("button", name="Stop").click()
    arrived = len(server.published)
    everything_read(panel.page, server, "reset")
    assert len(server.published) - arrived < A_QUEUE


PUBLISH = """async () => {
  const { connect } = await import("/static/client/reactor.js");
  const session = connect(location.origin);
  await session.ready();
  const [light] = (await navigator.mediaDevices.getUserMedia({ video: true })).getVideoTracks();
  const capture = await session.publish("camera", light, { width: 320, height: 240 });
  const counts = { sent: 0, skipped: 0, ended: 0 };
  for (const name in counts) capture.addEventListener(name, () => (counts[name] += 1));
  Object.assign(window, { light, capture, counts });
}"""


def test_a_program_publishes_as_the_page_does(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    server.script.media_delay_s = 0.5
    page.goto(f"{server.url}?role=viewer")
    page.evaluate(PUBLISH)
    server.wait_for_media("camera", 4)
    sent, arrived = page.evaluate("counts.sent"), len(server.published)
    assert sent - arrived < A_QUEUE
    page.wait_for_function("() => counts.skipped > counts.sent")
    assert is_green(newest(server))
    assert newest(server).shape == (240, 320, 3)
    page.evaluate("light.stop()")
    page.wait_for_function("() => counts.ended === 1")


def test_a_stopped_capture_ends_once_and_leaves_its_source_running(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    page.goto(f"{server.url}?role=viewer")
    page.evaluate(PUBLISH)
    server.wait_for_media("camera")
    ends = page.evaluate("() => (capture.stop(), capture.stop(), [counts.ended, light.readyState])")
    assert ends == [1, "live"]


def test_an_encoder_that_cannot_be_loaded_is_reported(browser: Browser, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    page = browser.new_page()  # the browser itself complains of what is missing
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(DRAWER)
    page.route("**/client/publish/encoder_worker.js", lambda route: route.abort())
    page.goto(server.url)
    panel = page.locator("[data-input=camera]")
    choose(panel, "Test pattern")
    panel.get_by_role("button", name="Start").click()
    expect(panel.get_by_role("status")).to_contain_text("the encoder can't be loaded")
    expect(panel).to_have_attribute("data-phase", "failed")
    page.close()


def test_an_unplugged_camera_is_reported(panel: Locator, page: Page) -> None:
    start(panel)
    page.evaluate(GONE)
    expect(panel).to_have_attribute("data-phase", "failed")
    expect(panel.get_by_role("status")).to_contain_text("unplugged")
    expect(panel.get_by_role("status")).to_contain_text("Connect it or choose another, then press Start")
    start(panel)


def test_a_muted_camera_is_reported_until_it_sends_again(panel: Locator, page: Page) -> None:
    start(panel)
    page.evaluate(f"{LIGHT}.dispatchEvent(new Event('mute'))")
    expect(panel.get_by_role("status")).to_contain_text("covered or switched off")
    page.evaluate(f"{LIGHT}.dispatchEvent(new Event('unmute'))")
    expect(panel.get_by_role("status")).to_have_text("Sending, also while this tab is hidden.")


def test_a_hidden_page_sends_nothing_that_is_not_drawn(panel: Locator, page: Page, server: FakeServer) -> None:
    page.evaluate(COUNT)
    choose(panel, "Test pattern")
    start(panel)
    server.wait_for_media("camera")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.wait_for_function("() => copied > 0 && copied === encoded")
    everything_read(page, server, "reset")
    before = len(server.published)
    page.evaluate(TEN_PICTURES_LATER)
    everything_read(page, server, "save")
    assert len(server.published) == before


def test_sending_pauses_without_a_session_and_continues_with_the_next(panel: Locator, server: FakeServer) -> None:
    start(panel)
    server.wait_for_media("camera", 3)
    server.broadcast("reactor.session", phase="ended", reason="model_error", message="over")
    expect(panel.get_by_role("status")).to_contain_text("Not sent")
    before = len(server.published)
    server.close(1011)
    expect(panel.page.locator("html[data-phase=connected]")).to_be_attached()
    expect(panel.get_by_role("status")).to_have_text("Sending, also while this tab is hidden.")
    server.wait_for_media("camera", 3)
    assert len(server.published) > before


def test_a_camera_that_is_sent_to_no_session_turns_off(page: Page, server: FakeServer) -> None:
    page.clock.install()
    server.script.inputs = {"camera": None}
    page.goto(server.url)
    panel = page.locator("[data-input=camera]")
    start(panel)
    server.broadcast("reactor.session", phase="ended", reason="finished", message="over")
    expect(panel.get_by_role("status")).to_contain_text("Not sent")
    page.clock.fast_forward(31_000)
    expect(panel).to_have_attribute("data-phase", "off")
    expect(panel.get_by_role("status")).to_contain_text("there was no session")


@pytest.mark.parametrize("reason", ["turn_over", "idle"])
def test_the_end_of_the_turn_turns_the_camera_off(panel: Locator, server: FakeServer, reason: str) -> None:
    start(panel)
    light = panel.page.evaluate_handle(LIGHT)
    server.broadcast("reactor.session", phase="ended", reason=reason, message="")
    expect(panel.get_by_role("status")).to_have_text("Off: your turn is over.")
    assert light.evaluate("track => track.readyState") == "ended"


def test_losing_the_turn_turns_the_camera_off(panel: Locator, server: FakeServer) -> None:
    start(panel)
    light = panel.page.evaluate_handle(LIGHT)
    server.script.role = "viewer"
    server.close(1001)
    expect(panel).to_have_count(0)
    assert light.evaluate("track => track.readyState") == "ended"


def test_each_track_has_a_panel_and_its_own_pictures(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None, "style": None}
    page.goto(server.url)
    for name in ("camera", "style"):
        panel = page.locator(f"[data-input={name}]")
        choose(panel, "Test pattern")
        start(panel)
    for name in ("camera", "style"):
        assert len(server.wait_for_media(name, 3)) >= 3


# The page of a bundle requests it before it imports it.
@as_modules
def test_a_part_that_could_not_be_loaded_comes_with_the_next_session(browser: Browser, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    page = browser.new_page()  # the browser itself complains of what is missing
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(DRAWER)
    page.route("**/inputs/inputs.js", lambda route: route.abort(), times=1)
    page.goto(server.url)
    expect(page.locator("#log")).to_contain_text("A part of the page can't be loaded")
    server.close(1001)
    expect(page.locator("[data-input=camera]")).to_be_visible()
    page.close()


def test_the_keyboard_is_enough(panel: Locator) -> None:
    panel.get_by_role("button", name="Start").focus()
    panel.page.keyboard.press("Enter")
    expect(panel).to_have_attribute("data-phase", "on")
    panel.page.keyboard.press("Tab")
    expect(panel.get_by_label("Source")).to_be_focused()
    panel.page.keyboard.press("Shift+Tab")
    panel.page.keyboard.press("Space")
    expect(panel).to_have_attribute("data-phase", "off")


SIMULATE = """async ([roundTripMs, linkMs]) => {
  const { SendWindow } = await import("/static/client/publish/track_sender.js");
  const window = new SendWindow();
  const arrivals = []; // of what is on its way, and when its answer is back
  let freeAt = 0, sent = 0, mostBehind = 0;
  for (let now = 0; now < 20000; now += 1) {
    while (arrivals[0]?.back <= now) window.answered(arrivals.shift().sentAt, now);
    if (now % 33 === 0 && window.hasRoom(now)) {
      freeAt = Math.max(freeAt, now) + linkMs; // the link takes so long for each
      arrivals.push({ sentAt: now, back: freeAt + roundTripMs });
      if (now > 2000) mostBehind = Math.max(mostBehind, freeAt - now - linkMs);
      window.sent(now);
      sent += 1;
    }
  }
  return [sent / 20, mostBehind];
}"""


@pytest.mark.parametrize(
    ("round_trip_ms", "link_ms", "least_fps", "most_behind_ms"),
    [(2, 1, 29, 1), (200, 1, 26, 1), (20, 100, 8.5, 100), (200, 100, 7.5, 140), (20, 400, 2.2, 400)],
    ids=["here", "far", "slow", "slow and far", "hardly"],
)
def test_frames_in_flight_fill_the_link_and_no_buffer(
    still: Page, round_trip_ms: int, link_ms: int, least_fps: float, most_behind_ms: float
) -> None:
    fps, behind_ms = still.evaluate(SIMULATE, [round_trip_ms, link_ms])
    assert fps >= least_fps
    assert behind_ms <= most_behind_ms
