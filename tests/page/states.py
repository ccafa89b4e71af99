"""What the page can be seen in: each state brings a page there, and waits until all of it is on screen."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from .bound import PAINTER, WALKER
from .fake_server import FakeServer
from .reloads import RELOADS
from .schemas import MANY, READ_ONLY, SCHEMA, TIMING, action, setter
from .test_session import expect_phase

# The time on the button of a recording that has lasted a second or more: a look may come late.
A_SECOND = re.compile(r"\d:(?!00)\d\d")
State = Callable[[Page, FakeServer], None]
FILE = {"type": "object", "format": "upload", "properties": {"upload": {"type": "string"}}, "required": ["upload"]}
LONG = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 21.4 GiB already allocated)"


def connected(page: Page, server: FakeServer, query: str = "") -> None:
    page.goto(server.url + query)
    expect(page.locator("html[data-live]")).to_be_attached()
    expect(page.locator("canvas[data-seq]").first).to_be_attached()
    expect(page.locator(".tools, html[data-embed]").first).to_be_attached()
    expect(page.locator("#controls .group").first).to_be_attached()


def wait_for_frames(page: Page, server: FakeServer) -> None:
    """Wait until a clip has ten frames: the toolbar keeps those that come after it was made."""
    expect(page.locator(".tools")).to_be_attached()
    server.wait_for_frames(10)


def connecting(page: Page, server: FakeServer) -> None:
    server.script.held_loading = True
    page.goto(server.url)
    server.wait_for("reactor.ping")
    expect_phase(page, "connecting")


def loading(page: Page, server: FakeServer) -> None:
    server.script.loading, server.script.held_loading = ("Loading checkpoint shards 2/4",), True
    server.script.progress = 0.5
    page.goto(server.url)
    expect_phase(page, "loading")
    expect(page.locator("#controls .placeholder")).to_be_attached()


def waiting(page: Page, server: FakeServer) -> None:
    server.script.held_loading = True
    page.goto(server.url)
    server.wait_for("reactor.ping")
    server.broadcast("reactor.queue", position=3, length=5, wait_s=290)
    server.broadcast("reactor.stats", watching=13)
    expect_phase(page, "waiting")
    expect(page.get_by_text("12 watching")).to_be_attached()
    expect(page.locator("#controls .placeholder")).to_be_attached()


def watching(page: Page, server: FakeServer) -> None:
    connected(page, server, "?role=viewer")
    expect_phase(page, "watching")


def alone(page: Page, server: FakeServer) -> None:
    server.script.session = None
    page.goto(f"{server.url}?role=viewer")
    expect(page.locator("#notice")).to_contain_text("Nobody controls")
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page.locator("#controls .group").first).to_be_attached()


def two_pictures(page: Page, server: FakeServer) -> None:
    server.script.tracks = ("main_video", "depth")
    connected(page, server)


def many_controls(page: Page, server: FakeServer) -> None:
    server.script.events = MANY
    connected(page, server)


def long_descriptions(page: Page, server: FakeServer) -> None:
    steps = {"type": "integer", "minimum": 1, "maximum": 8, "default": 4}
    server.script.events = {"set_steps": setter("steps", 9 * LONG, steps), "save": action(9 * LONG)}
    connected(page, server)
    expect(page.get_by_role("button", name="more")).to_have_count(2)
    page.get_by_role("button", name="more").first.click()


def walking(page: Page, server: FakeServer) -> None:
    # The page decides whether the drawer of this model is open, as for a new user.
    server.script.model = "walker"
    server.script.events = {**WALKER, "set_zoom": PAINTER["set_zoom"], "drop": PAINTER["drop"]}
    connected(page, server)
    expect(page.locator(".legend")).to_be_attached()


def walking_in_two_pictures(page: Page, server: FakeServer) -> None:
    server.script.tracks = ("main_video", "depth")
    walking(page, server)


def sending(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None, "microphone": 16000}
    connected(page, server)
    for name, source in {"camera": "Test pattern", "microphone": "Test tone"}.items():
        panel = page.locator(f"[data-input={name}]")
        panel.get_by_label("Source").select_option(label=source)
        panel.get_by_role("button", name="Start").click()
        expect(panel).to_have_attribute("data-phase", "on")
        expect(panel.locator(".input-figures")).not_to_be_empty()


def refused_camera(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    connected(page, server)
    panel = page.locator("[data-input=camera]")
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "failed")


def sounding(page: Page, server: FakeServer) -> None:
    server.script.sounds = {"music": 44100}
    connected(page, server)
    page.get_by_role("switch", name="Sound").click()
    expect(page.get_by_role("switch", name="Sound")).to_be_checked()


def only_sound(page: Page, server: FakeServer) -> None:
    server.script.tracks, server.script.sounds = (), {"music": 44100}
    page.goto(server.url)
    expect(page.locator("canvas[data-track=music]:not([data-empty])")).to_be_attached()
    expect(page.locator(".tools")).to_be_attached()


def forms(page: Page, server: FakeServer) -> None:
    server.script.events = {
        "set_picture": setter("picture", "What to begin with", {"anyOf": [FILE, {"type": "null"}], "default": None}),
        "take": action("Take a file once", file=FILE, note={"type": "string", "default": ""}),
        "spawn": SCHEMA["spawn"],
        "reset": SCHEMA["reset"],
        "save": SCHEMA["save"],
    }
    connected(page, server)


def faults(page: Page, server: FakeServer) -> None:
    connected(page, server)
    page.locator('[data-event="set_steps"] .number').fill("99")
    page.locator('[data-event="set_steps"] .number').blur()
    expect(page.locator('[data-error-for="set_steps"]')).not_to_be_empty()
    page.locator('[data-event="save"] button').click()
    page.locator("#log details summary").last.click()
    server.broadcast("reactor.error", code="model_slow", message=LONG)
    expect(page.locator("#log .error").first).to_be_attached()


def sharing(page: Page, server: FakeServer) -> None:
    connected(page, server)
    if page.locator(".tools-more").is_visible():
        page.locator(".tools-more").click()
    page.get_by_role("button", name="Links").click()
    expect(page.get_by_role("textbox", name="Link to watch")).to_be_visible()


def last_minute(page: Page, server: FakeServer) -> None:
    connected(page, server)
    server.broadcast("reactor.session", phase="ending", seconds=42)
    expect(page.locator("#role[data-soon]")).to_be_attached()


def showing_values(page: Page, server: FakeServer) -> None:
    walking_with_values(page, server)
    server.broadcast("timing", gpu_ms=178.6)
    expect(page.locator(".value:not([hidden])")).to_have_count(6)


def walking_with_values(page: Page, server: FakeServer) -> None:
    server.script.read_only, server.script.messages = READ_ONLY, TIMING
    walking(page, server)
    expect(page.locator(".value:not([hidden])")).to_have_count(5)


def asked(page: Page, server: FakeServer) -> None:
    connected(page, server)
    server.broadcast("reactor.session", phase="idle", seconds=30)
    expect_phase(page, "idle")


def ended(page: Page, server: FakeServer) -> None:
    connected(page, server)
    server.broadcast("reactor.session", phase="ended", reason="turn_over", message="Your turn is over")
    expect_phase(page, "ended")


def failed(page: Page, server: FakeServer) -> None:
    server.script.failed = LONG
    page.goto(server.url)
    expect_phase(page, "failed")
    expect(page.locator("#log .error").first).to_be_attached()


def offline(page: Page, server: FakeServer) -> None:
    connected(page, server)
    server.stop()
    expect_phase(page, "offline")


def failed_reload(page: Page, server: FakeServer) -> None:
    server.script.reload = RELOADS["failed"]
    connected(page, server)
    expect(page.locator(".reload")).to_be_visible()


def sharing_a_clip(page: Page, server: FakeServer) -> None:
    server.script.reload = RELOADS["applied"]
    connected(page, server)
    expect(page.locator("#reload")).to_be_visible()
    if page.locator(".tools-more").is_visible():
        page.locator(".tools-more").click()
    wait_for_frames(page, server)
    page.get_by_role("button", name="Share clip").click()
    dialog = page.get_by_role("dialog", name="Share clip")
    # The clip, or why there is none.
    made = dialog.get_by_role("button", name="Download", disabled=False)
    expect(made.or_(dialog.locator(".clip-status:not(:empty)"))).to_be_visible()
    expect(dialog.locator(".clip-status")).to_be_empty()
    page.locator("#keep").click()
    server.wait_for("reactor.keep")
    server.broadcast("reactor.keep", file="/home/me/recordings/a.mcap", message="the recording ended", hint="reload")
    expect(page.locator(".kept")).to_contain_text("Kept the recording")


def loading_again(page: Page, server: FakeServer) -> None:
    server.script.reload = RELOADS["loading"]
    connected(page, server)
    expect(page.locator(".reload")).to_be_visible()


def embedded(page: Page, server: FakeServer) -> None:
    server.script.events = WALKER
    connected(page, server, "?embed")


STATES: dict[str, State] = {
    state.__name__: state
    for state in (
        connecting,
        loading,
        waiting,
        connected,
        watching,
        alone,
        two_pictures,
        many_controls,
        long_descriptions,
        walking,
        walking_in_two_pictures,
        sending,
        refused_camera,
        sounding,
        only_sound,
        forms,
        faults,
        sharing,
        last_minute,
        showing_values,
        asked,
        ended,
        failed,
        offline,
        failed_reload,
        sharing_a_clip,
        loading_again,
        embedded,
    )
}
