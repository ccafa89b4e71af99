"""What the page does in browsers that lack a part of the web: another way where there is one, else words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from .fake_server import PAGE, FakeServer
from .states import A_SECOND, connected, sounding, waiting, walking


@pytest.mark.parametrize(
    ("without", "tool"),
    [
        ("delete HTMLElement.prototype.popover", "Links"),
        ("delete Document.prototype.pictureInPictureEnabled", "Picture in picture"),
        ("delete Document.prototype.fullscreenEnabled", "Full screen"),
    ],
    ids=["popover", "picture in picture", "full screen"],
)
def test_a_tool_that_can_t_work_is_not_there(page: Page, server: FakeServer, without: str, tool: str) -> None:
    page.add_init_script(without)
    connected(page, server)
    expect(page.get_by_role("button", name="Save the frame")).to_be_attached()
    expect(page.get_by_role("button", name=tool)).to_have_count(0)
    expect(page.locator(".links")).to_be_hidden()


def test_films_need_no_generator_of_tracks(page: Page, server: FakeServer, tmp_path: Path) -> None:
    page.add_init_script("delete window.MediaStreamTrackGenerator")
    connected(page, server)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_contain_text(A_SECOND)
    with page.expect_download() as download:
        record.click()
    download.value.save_as(tmp_path / "film")
    assert (tmp_path / "film").stat().st_size > 1000


def test_a_browser_without_films_says_so(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete window.MediaRecorder")
    connected(page, server)
    page.get_by_role("button", name="Record").click()
    expect(page.locator("#log")).to_contain_text("this browser cannot record")


def test_without_the_clipboard_s_api_a_link_is_copied_all_the_same(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete Navigator.prototype.clipboard")
    connected(page, server)
    page.get_by_role("button", name="Links").click()
    page.get_by_role("button", name="Copy: Link to watch").click()
    expect(page.locator(".links")).to_contain_text("Copied")
    page.keyboard.press("Escape")
    prompt = page.locator("[data-event=set_prompt] textarea")
    prompt.fill("")
    prompt.press("Control+v")
    expect(prompt).to_have_value(f"{server.url}?role=viewer")


def test_a_link_that_can_t_be_copied_is_selected(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete Navigator.prototype.clipboard; document.execCommand = () => false;")
    connected(page, server)
    page.get_by_role("button", name="Links").click()
    page.get_by_role("button", name="Copy: Link to watch").click()
    expect(page.locator(".links")).to_contain_text("Press Ctrl+C")
    address = page.get_by_label("Link to watch", exact=True)
    assert address.evaluate("({ selectionStart, selectionEnd }) => selectionEnd - selectionStart") > 0


def test_where_no_mouse_is_locked_the_picture_is_dragged(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete Element.prototype.requestPointerLock")
    walking(page, server)
    page.locator("canvas").click()
    expect(page.locator(".legend-hint")).to_have_text("Drag the video to look around")


# Whether the next lock that is asked for was given; on a busy machine the answer may come later than the time here.
ANSWER = """() => {
  window.answer = new Promise((resolve) => {
    const settle = () => resolve(document.pointerLockElement !== null);
    document.addEventListener("pointerlockchange", settle, { once: true });
    document.addEventListener("pointerlockerror", settle, { once: true });
    setTimeout(settle, 5000);
  });
}"""


@pytest.mark.whole_browser
def test_a_lock_refused_soon_after_escape_is_had_by_the_next_click(page: Page, server: FakeServer) -> None:
    walking(page, server)
    stage = page.locator(".stage")
    words = page.locator(".legend")
    stage.click()
    expect(words).to_contain_text("Esc releases the mouse")
    page.evaluate("document.exitPointerLock()")
    expect(words).not_to_contain_text("Esc releases the mouse")
    stage.evaluate("stage => { stage.requestPointerLock = () => Promise.reject(new Error('soon')); }")
    page.mouse.down()
    page.locator("#drawer").hover()  # out of the stage, and let go there
    page.mouse.up()
    stage.evaluate("stage => { delete stage.requestPointerLock; }")
    # Chromium itself may refuse a lock for a second after the one before, and a busy page connects again meanwhile.
    for _ in range(20):
        page.evaluate(ANSWER)
        stage.click()
        if page.evaluate("answer"):
            break
        page.wait_for_timeout(200)
    expect(words).to_contain_text("Esc releases the mouse")


@pytest.mark.whole_browser
def test_a_lock_refused_at_first_is_had_by_the_next_click(page: Page, server: FakeServer) -> None:
    walking(page, server)
    stage = page.locator(".stage")
    stage.evaluate("stage => { stage.requestPointerLock = () => Promise.reject(new Error('soon')); }")
    stage.click()
    expect(page.locator(".legend-hint")).to_have_text("Drag the video to look around")
    stage.evaluate("stage => { delete stage.requestPointerLock; }")
    stage.click()
    expect(page.locator(".legend-hint")).to_have_text("Esc releases the mouse")


def test_sound_keeps_to_the_picture_without_the_time_of_the_loudspeaker(page: Page, server: FakeServer) -> None:
    page.add_init_script("delete AudioContext.prototype.getOutputTimestamp")
    sounding(page, server)
    expect(page.locator("[data-figure=sound]")).to_have_text(re.compile(r"[+−]\d+ ms"))


HEARD_NOW = """async ([currentTime, latency, pair]) => {
  const { clockDifference } = await import("/static/client/sound/mixer.js");
  const context = { currentTime, baseLatency: latency, outputLatency: latency, getOutputTimestamp: () => pair };
  return 10 + clockDifference(context, 10000); // what is heard at 10 s on the page's clock
}"""


@pytest.mark.parametrize(
    ("pair", "heard"),
    [
        ({"contextTime": 3.95, "performanceTime": 9990}, 3.96),
        ({"contextTime": 3.96, "performanceTime": 9960}, 3.96),
        ({"contextTime": 3.96, "performanceTime": 14000}, 3.96),
        ({"contextTime": 0.46, "performanceTime": 10460}, 3.96),
        ({"contextTime": 0, "performanceTime": 0}, 3.96),
    ],
    ids=["Chromium", "Firefox", "WebKit for Linux", "that, at the start", "before anything came out"],
)
def test_what_the_loudspeaker_plays_is_known_from_any_browser_s_times(
    still: Page, pair: dict[str, float], heard: float
) -> None:
    assert still.evaluate(HEARD_NOW, [4.0, 0.04, pair]) == pytest.approx(heard, abs=0.001)


ENTER = """(area, keyCode) => {
  const press = new KeyboardEvent("keydown", { key: "Enter", keyCode, cancelable: true });
  return area.dispatchEvent(press); // false where the page has taken it
}"""


def test_the_enter_that_ends_a_composition_sends_nothing(page: Page, server: FakeServer) -> None:
    connected(page, server)
    area = page.locator("textarea").first
    assert area.evaluate(ENTER, 229)
    assert not area.evaluate(ENTER, 13)


NO_ENCODER = """window.MediaRecorder = class {
  static isTypeSupported() { return true; }
  start() { this.state = "recording"; }
  stop() { this.state = "inactive"; this.ondataavailable({ data: new Blob() }); this.onstop(); }
};"""


def test_a_browser_that_makes_an_empty_film_says_so(page: Page, server: FakeServer) -> None:
    page.add_init_script(NO_ENCODER)
    connected(page, server)
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_contain_text("0:0")
    record.click()
    expect(page.get_by_text("Recording isn't possible: the browser made an empty recording")).to_be_visible()
    expect(record).to_have_attribute("aria-pressed", "false")


IN_THE_CLICK_ALONE = """window.asked = [];
HTMLVideoElement.prototype.requestPictureInPicture = function () {
  asked.push(window.event?.type === "click");
  return asked.at(-1) ? Promise.resolve() : Promise.reject(new DOMException("", "NotAllowedError"));
};"""


@pytest.mark.whole_browser
def test_the_window_of_the_picture_is_asked_for_in_the_click_itself(page: Page, server: FakeServer) -> None:
    page.add_init_script(IN_THE_CLICK_ALONE)
    connected(page, server)
    page.get_by_role("button", name="Picture in picture").hover()
    page.mouse.down()
    page.wait_for_function("() => document.querySelector('.floating')?.currentTime > 0")
    page.mouse.up()
    assert page.evaluate("asked") == [True]


def test_where_the_click_was_over_before_the_window_s_picture_was_ready_another_is_asked_for(
    page: Page, server: FakeServer
) -> None:
    page.add_init_script(IN_THE_CLICK_ALONE)
    connected(page, server)
    button = page.get_by_role("button", name="Picture in picture")
    button.press("Enter")
    expect(page.get_by_text("Picture in picture isn't possible: press once more")).to_be_visible()
    button.press("Enter")
    assert page.evaluate("asked") == [False, True]


def test_while_a_browser_waits_for_a_loudspeaker_the_button_says_so(page: Page, server: FakeServer) -> None:
    page.add_init_script("""Object.defineProperty(AudioContext.prototype, "state", { value: "suspended" });
                            AudioContext.prototype.resume = () => new Promise(() => {});""")
    server.script.sounds = {"music": 44100}
    connected(page, server)
    page.get_by_role("switch", name="Sound").click()
    expect(page.get_by_role("switch", name="Sound")).to_contain_text("starting")
    expect(page.get_by_role("switch", name="Sound")).not_to_be_checked()


def test_where_colours_can_t_follow_the_scheme_the_page_is_dark(page: Page, server: FakeServer) -> None:
    def older(route: Route) -> None:
        style = (PAGE / "style.css").read_text()
        route.fulfill(body=style.replace("light-dark(", "not-known("), content_type="text/css")

    page.route("**/style.css", older)
    page.emulate_media(color_scheme="light")
    waiting(page, server)
    expect(page.locator("html")).to_have_css("background-color", "rgb(14, 14, 16)")
    for words in ("h1", "#notice-headline"):
        expect(page.locator(words)).to_have_css("color", "rgb(237, 237, 235)")
