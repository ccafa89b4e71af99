"""Keeping, recording and enlarging the picture, and links that carry values, a role or nothing but the picture."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

from .conftest import as_modules_and_as_bundle, expect_recorded, record
from .fake_server import FakeServer
from .schemas import setter
from .states import A_SECOND, wait_for_frames


def open_connected(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator('html[data-phase="connected"]')).to_be_attached()
    expect(page.locator("canvas[data-seq]")).to_be_visible()


def link(page: Page, label: str) -> str:
    page.get_by_role("button", name="Links").click()
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
    expect(record).to_contain_text(A_SECOND)
    with page.expect_download() as download:
        record.click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.suffix in (".webm", ".mp4")
    assert file.stat().st_size > 1000
    expect(record).to_have_attribute("aria-pressed", "false")


def open_clip(page: Page) -> Locator:
    page.get_by_role("button", name="Share clip").click()
    return page.get_by_role("dialog", name="Share clip")


@as_modules_and_as_bundle
def test_the_last_seconds_are_shared_with_their_sound(page: Page, server: FakeServer, tmp_path: Path) -> None:
    server.script.sounds = {"voice": 16000}
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    wait_for_frames(page, server)
    record(page, "Boolean(document.querySelector('dialog.clip progress')?.checkVisibility())")
    dialog = open_clip(page)
    # While the clip is made; it can be seen then and afterwards.
    expect_recorded(page, True)
    expect(dialog.locator("video")).to_have_js_property("videoWidth", 640)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name.startswith("aurora-clip-")
    assert file.stat().st_size > 1000
    assert page.evaluate("window.films[0].tracks") == ["audio live", "video live"]
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).not_to_be_attached()


def test_a_clip_goes_to_the_apps_of_the_device_with_title_and_prompt(page: Page, server: FakeServer) -> None:
    prompt = {"type": "string", "default": "a fox", "maxLength": 200}
    server.script.events = {"set_prompt": setter("prompt", "What to draw", prompt)}
    page.add_init_script("""
      navigator.canShare = ({ files }) => files.length === 1;
      navigator.share = async ({ files, title, text }) => {
        window.shared = [files[0].name, files[0].size > 1000, title, text];
      };
    """)
    open_connected(page, server.url)
    wait_for_frames(page, server)
    dialog = open_clip(page)
    expect(dialog).to_contain_text("aurora — a fox")
    share = dialog.get_by_role("button", name="Share", exact=True)
    # From the start, so that the buttons beside it stay where they are.
    assert share.is_visible()
    share.click()
    page.wait_for_function("() => window.shared")
    name, has_content, title, text = page.evaluate("window.shared")
    assert (has_content, title, text) == (True, "aurora", "aurora — a fox")
    assert name.startswith("aurora-clip-")


def test_the_link_of_a_clip_has_the_values_and_no_token(page: Page, server: FakeServer) -> None:
    page.add_init_script("navigator.clipboard.writeText = async (text) => { window.copied = text; };")
    open_connected(page, server.url + "?token=secret")
    page.locator('[data-event="set_brightness"] input[type="range"]').fill("0.5")
    expect(page.locator("canvas[data-applied='1']")).to_be_attached()
    dialog = open_clip(page)
    dialog.get_by_role("button", name="Copy link").click()
    expect(dialog.get_by_role("status")).to_have_text("Link copied")
    assert json.loads(parse_qs(urlsplit(page.evaluate("window.copied")).query)["set"][0]) == {"brightness": 0.5}
    assert "secret" not in page.evaluate("window.copied")


def test_a_clip_that_fails_leaves_no_recording(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    wait_for_frames(page, server)
    page.evaluate("() => { globalThis.createImageBitmap = () => Promise.reject(new Error('broken')) }")
    dialog = open_clip(page)
    expect(dialog.get_by_role("status")).to_have_text("The clip can't be made: broken")
    page.wait_for_function("() => window.films[0].state === 'inactive'")
    assert page.evaluate("window.films[0].stream.getTracks().every(({ readyState }) => readyState === 'ended')")


def test_a_session_that_is_over_can_still_be_shared(page: Page, server: FakeServer) -> None:
    open_connected(page, server.url)
    wait_for_frames(page, server)
    expect(page.get_by_role("button", name="Share clip")).to_be_visible()
    server.broadcast("reactor.session", phase="ended", reason="turn_over", message="Your turn is over")
    expect(page.locator('html[data-phase="ended"]')).to_be_attached()
    expect(page.get_by_role("button", name="Save the frame")).to_be_hidden()
    expect(open_clip(page).get_by_role("button", name="Download")).to_be_enabled()


def test_a_closed_dialog_stops_the_recording(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    wait_for_frames(page, server)
    dialog = open_clip(page)
    page.wait_for_function("() => window.films.length")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_attached()
    page.wait_for_function("() => window.films[0].state === 'inactive'")


KEPT_PIECES = """async () => {
  const { LastSeconds } = await import("/static/toolbar/last_seconds.js");
  const tracks = [["main", "video"], ["voice", "audio"]].map(([name, kind]) => ({ name, kind, direction: "out" }));
  const session = Object.assign(new EventTarget(), { tracks });
  const kept = new LastSeconds(session);
  const emit = (name, detail) => session.dispatchEvent(new CustomEvent(name, { detail }));
  const frame = (seq, ptsS, isPainted = true) => {
    const header = { track: "main", seq, ptsS };
    emit("encoded", { header, bytes: new ArrayBuffer(8) });
    if (isPainted) emit("painted", header);
  };
  const sound = (ptsS) => emit("sound", { track: "voice", ptsS, samples: new Int16Array(8) });
  const times = () => {
    const { frames, sounds } = kept.pieces;
    return [frames, sounds].map((pieces) => pieces.map(({ atS }) => Math.round(100 * atS) / 100));
  };
  %s
}"""


def kept_pieces(page: Page, script: str) -> object:
    return page.evaluate(KEPT_PIECES % script)


def test_a_clip_has_only_frames_that_were_painted(still: Page) -> None:
    script = "frame(0, 0); frame(1, 0.1, false); frame(2, 0.2); sound(0.1); return times();"
    assert kept_pieces(still, script) == [[0, 0.2], [0.1]]


def test_a_clip_has_the_last_ten_seconds(still: Page) -> None:
    script = "sound(0); frame(0, 0); frame(1, 1); frame(2, 11); sound(11); return times();"
    assert kept_pieces(still, script) == [[0, 10], [10]]


PIECES = """
  const asked = [];
  session.notify = (type, { track }) => asked.push(`${type} ${track}`);
  const piece = (seq, ptsS, isKey = false) =>
    emit("encoded", { header: { track: "main", seq, ptsS }, bytes: new ArrayBuffer(8), isKey });
"""


def test_a_clip_of_video_has_what_its_frames_need_to_be_decoded(still: Page) -> None:
    script = "piece(0, 0); piece(1, 1, true); piece(2, 2); piece(3, 15); return times();"
    assert kept_pieces(still, PIECES + script) == [[-14, -13, 0], []]
    script = "piece(0, 0, true); piece(1, 1); piece(2, 4, true); piece(3, 5); piece(4, 15); return times();"
    assert kept_pieces(still, PIECES + script) == [[-1, 0, 10], []]


def test_a_key_is_requested_once_where_video_began_before_it_was_kept(still: Page) -> None:
    script = "frame(0, 0); piece(1, 1); piece(2, 2); const first = times(); const { isVideo } = kept;"
    script += "piece(3, 3, true); piece(4, 4); return [asked, first, isVideo, times()];"
    assert kept_pieces(still, PIECES + script) == [["reactor.key main"], [[0], []], True, [[0, 3, 4], []]]


def test_a_clip_of_video_goes_on_over_a_jpeg_that_is_painted_after_the_key(still: Page) -> None:
    script = 'frame(1, 0, false); piece(1, 0, true); emit("painted", { track: "main", seq: 1, ptsS: 0 });'
    script += "for (const s of [1, 9, 19]) piece(s + 1, s); return [asked, times()];"
    assert kept_pieces(still, PIECES + script) == [[], [[-9, -8, 0, 10], []]]


def test_a_key_is_requested_once_if_there_was_none_for_a_minute(still: Page) -> None:
    script = "piece(0, 0, true); for (const s of [30, 61, 62]) piece(s, s); piece(70, 70, true); piece(71, 71);"
    assert kept_pieces(still, PIECES + script + "return asked;") == ["reactor.key main"]


def test_a_clip_continues_over_a_reconnection(still: Page) -> None:
    script = """
      emit("session", { session: "a" }); frame(4, 5); frame(5, 6);
      emit("session", { session: "a" }); frame(6, 7); sound(7);
      return times();"""
    assert kept_pieces(still, script) == [[0, 1, 2], [2]]


def test_a_clip_continues_into_the_next_session_without_a_gap(still: Page) -> None:
    script = """
      emit("session", { session: "a" }); frame(4, 5); frame(5, 6);
      emit("session", { session: "b" }); frame(0, 0); frame(1, 1);
      return times();"""
    assert kept_pieces(still, script) == [[0, 1, 1.03, 2.03], []]


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
    expect(record).to_contain_text(A_SECOND)
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


COUNT_FRAMES = """() => {
  window.shown = 0;
  const video = Object.assign(document.createElement("video"), { muted: true, srcObject: films[0].stream });
  const count = () => { window.shown += 1; video.requestVideoFrameCallback(count); };
  count();
  video.play();
}"""


def test_a_recording_goes_on_with_the_session_after_a_model_that_died(page: Page, server: FakeServer) -> None:
    page.add_init_script(FILMS)
    open_connected(page, server.url)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_have_attribute("aria-pressed", "true")
    page.evaluate(COUNT_FRAMES)
    server.script.loading, server.script.held_loading = ("Restarting",), True
    server.crash("the process was killed")
    expect(page.locator("html[data-phase=loading]")).to_be_attached()
    before = page.evaluate("shown")
    server.release()
    page.wait_for_function("before => shown > before + 5", arg=before)
    with page.expect_download():
        record.click()


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
    expect(record).to_contain_text(A_SECOND)
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
    expect(record).to_contain_text(A_SECOND)
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
    expect(page.locator("canvas[data-applied='1']")).to_be_attached()
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
    page.get_by_role("button", name="Links").click()
    dialog = page.get_by_role("dialog", name="Links")
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
    clip = page.get_by_role("button", name="Share clip")
    clip.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Save the frame")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(clip).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".tools :focus")).to_have_count(0)
