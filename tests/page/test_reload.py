"""A model that is reloaded while the page shows it: the error over the video, the button, and the changed contract."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from reactor_runtime.manifest.page_settings import PageSettings
from reactor_runtime.server.routes.page_document import PageDocument
from reactor_runtime.server.routes.pages import PAGE
from reactor_runtime.wire.reload import ReloadError

from .bound import WALKER
from .conftest import as_modules, as_modules_and_as_bundle, expect_recorded, record
from .fake_server import FakeServer
from .reloads import ERROR, REASON, RELOADS
from .schemas import SCHEMA, action, setter
from .test_bindings import wait_for
from .test_controls import control

BUTTON = "#reload"
CARD = ".reload"


def open_with(page: Page, server: FakeServer, status: str, query: str = "") -> None:
    server.script.reload = RELOADS[status]
    page.goto(server.url + query)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    expect(page.locator(BUTTON)).to_be_visible()


def open_plain(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]").first).to_be_attached()
    expect(page.locator("#controls [name]").first).to_be_enabled()


@as_modules_and_as_bundle
def test_a_failed_reload_is_shown_over_the_video_until_the_next_one_is_applied(page: Page, server: FakeServer) -> None:
    open_with(page, server, "applied")
    card = page.locator(CARD)
    expect(card).to_be_hidden()
    server.report_reload(RELOADS["failed"])
    expect(card.locator("code")).to_have_text("pipeline.py:41")
    expect(card.locator("pre")).to_have_js_property("textContent", "yield frame * brightnes")
    expect(card).to_contain_text("NameError: name 'brightnes' is not defined")
    expect(card).to_contain_text("did you mean brightness?")
    shown = int(page.locator("canvas").get_attribute("data-seq") or 0)
    page.wait_for_function("seen => Number(document.querySelector('canvas').dataset.seq) > seen", arg=shown)
    expect(page.locator("canvas")).to_have_css("opacity", "1")
    expect(page.locator("#log")).to_contain_text("pipeline.py:41: NameError")
    of_a_step: ReloadError = {**ERROR, "message": "the model failed: ValueError: no frame"}
    server.report_reload({**RELOADS["failed"], "error": of_a_step})
    expect(card).to_contain_text("ValueError: no frame")
    expect(card).not_to_contain_text("the model failed")
    server.report_reload(RELOADS["applied"])
    expect(card).to_be_hidden()


def test_changed_texts_and_presets_of_the_manifest_are_shown_after_a_reload(page: Page, server: FakeServer) -> None:
    open_with(page, server, "applied")
    steps = control(page, "set_steps").locator("[type=number]")
    steps.evaluate("field => (field.dataset.mark = 'same')")
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    settings = PageSettings(
        title="Borealis", description="It *paints*.", accent="#0a7d55", presets={"Fine": {"steps": 8}}
    )
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    # Each progress comes as one more of these.
    server.report_reload(RELOADS["loading"])
    expect(page.locator(CARD)).to_be_visible()
    server.script.html = PageDocument(index, settings).render("my-model", server.url, None)
    server.report_reload(RELOADS["applied"])
    expect(page.get_by_role("heading", name="Borealis")).to_be_visible()
    assert fetched == [page.url]
    expect(page).to_have_title(re.compile("Borealis"))
    expect(page.locator("#about")).to_have_text("It paints.")
    page.get_by_role("button", name="Fine").click()
    assert server.wait_for("set_steps") == {"steps": 8}
    expect(steps).to_have_attribute("data-mark", "same")
    server.script.html = ""
    server.report_reload(RELOADS["applied"])
    expect(page.get_by_role("heading", name="Borealis")).not_to_be_attached()
    expect(page.get_by_role("button", name="Fine")).not_to_be_attached()
    expect(page.locator("#about")).not_to_be_attached()


def test_an_error_that_persists_is_shown_to_a_page_that_joins(page: Page, server: FakeServer) -> None:
    open_with(page, server, "failed", "?role=viewer")
    expect(page.locator(CARD)).to_contain_text("pipeline.py:41")
    expect(page.locator(BUTTON)).to_be_disabled()
    page.get_by_role("button", name="Share clip").click()
    expect(page.locator("#keep")).to_be_disabled()


def test_a_hidden_error_comes_back_with_the_next_save_that_fails(page: Page, server: FakeServer) -> None:
    open_with(page, server, "failed")
    page.locator(CARD).get_by_role("button", name="Hide").click()
    expect(page.locator(CARD)).to_be_hidden()
    server.report_reload(RELOADS["failed"])
    expect(page.locator(CARD)).to_be_visible()


def test_loading_again_shows_its_reason_and_progress_and_stays_hidden_if_the_user_hides_it(
    page: Page, server: FakeServer
) -> None:
    open_with(page, server, "applied")
    server.report_reload(RELOADS["loading"])
    expect(page.locator(CARD)).to_contain_text(REASON)
    expect(page.locator(CARD).get_by_role("progressbar")).to_have_js_property("value", 0.5)
    expect(page.locator("#log li", has_text=REASON)).to_have_count(1)
    page.locator(CARD).get_by_role("button", name="Hide").click()
    server.report_reload({**RELOADS["loading"], "progress": 0.75})
    expect(page.locator(CARD).get_by_role("progressbar", include_hidden=True)).to_have_js_property("value", 0.75)
    expect(page.locator(CARD)).to_be_hidden()
    server.report_reload(RELOADS["restarting"])
    expect(page.locator(CARD)).to_contain_text("reactor.yaml has changed")
    expect(page.locator(CARD).get_by_role("progressbar")).to_be_hidden()


def test_the_button_reloads_by_hand(page: Page, server: FakeServer) -> None:
    open_with(page, server, "applied")
    page.locator(BUTTON).click()
    expect(page.locator(BUTTON)).to_have_text("Reloading")
    assert server.wait_for("reactor.reload") == {}
    record(page, "document.getElementById('reload').textContent")
    server.report_reload(RELOADS["applied"])
    expect_recorded(page, "Reloaded")
    server.report_reload({**RELOADS["applied"], "reason": "old code still runs in self.net"})
    expect(page.locator("#log")).to_contain_text("Reloaded: old code still runs in self.net")
    expect(page.locator(BUTTON)).to_have_text("Reload")


def test_without_reload_there_is_neither_button_nor_module(page: Page, server: FakeServer) -> None:
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    open_plain(page, server)
    expect(page.locator(".tools")).to_be_attached()
    expect(page.locator(BUTTON)).not_to_be_attached()
    assert not [url for url in loaded if "reload" in url]


def test_a_click_on_the_error_is_no_input_of_the_model(page: Page, server: FakeServer) -> None:
    server.script.events = {"point": {**WALKER["jump"], "parameters": TAPPED}}
    open_with(page, server, "failed")
    expect(page.locator("[data-pointer=tap]")).to_be_attached()
    page.locator(CARD).locator("pre").click()
    page.locator("canvas").click(position={"x": 20, "y": 400})
    server.wait_for("point")
    assert [message.type for message in server.received].count("point") == 1


PLACE = {"type": "number"}
TAPPED = {
    "type": "object",
    "properties": {"x": PLACE, "y": PLACE},
    "required": ["x", "y"],
    "x-reactor-bind": [{"kind": "tap"}],
}


def changed(name: str, **schema: Any) -> dict[str, Any]:
    """Return all events, with a change of the schema of one field."""
    event = SCHEMA[f"set_{name}"]
    properties = {name: {**event["parameters"]["properties"][name], **schema}}
    return {**SCHEMA, f"set_{name}": {**event, "parameters": {**event["parameters"], "properties": properties}}}


def test_controls_that_stay_keep_elements_values_and_focus(page: Page, server: FakeServer) -> None:
    open_plain(page, server)
    steps = control(page, "set_steps").locator("[type=number]")
    steps.fill("7")
    steps.press("Enter")
    server.wait_for("set_steps")
    pose = control(page, "set_pose").locator("textarea")
    pose.fill('{"x": 9')
    pose.evaluate("field => { field.setSelectionRange(3, 3); field.dataset.mark = 'same'; }")
    new = {"set_zoom": setter("zoom", "", {"type": "number", "minimum": 0, "maximum": 4, "default": 3})}
    rest = {name: event for name, event in changed("brightness", maximum=9.0).items() if name != "set_seed"}
    server.change_contract(events={**new, **rest})
    expect(control(page, "set_zoom").locator("[name=zoom]")).to_have_value("3")
    expect(control(page, "set_seed")).not_to_be_attached()
    expect(control(page, "set_brightness").locator("[type=range]")).to_have_attribute("max", "9")
    expect(steps).to_have_value("7")
    expect(pose).to_have_attribute("data-mark", "same")
    expect(pose).to_have_value('{"x": 9')
    expect(pose).to_be_focused()
    assert pose.evaluate("field => field.selectionStart") == 3
    control(page, "set_brightness").locator("[type=number]").fill("8")
    control(page, "set_brightness").locator("[type=number]").press("Enter")
    assert server.wait_for("set_brightness") == {"brightness": 8}


def test_a_changed_control_keeps_the_value_and_a_text_that_was_not_sent(page: Page, server: FakeServer) -> None:
    server.script.events = {**SCHEMA, "set_note": setter("note", "", {"type": "string", "default": "old"})}
    open_plain(page, server)
    control(page, "set_steps").locator("[type=number]").fill("7")
    control(page, "set_steps").locator("[type=number]").press("Enter")
    server.wait_for("set_steps")
    control(page, "set_note").locator("textarea").fill("half a sent")
    longer = setter("note", "What to note", {"type": "string", "default": "new"})
    server.change_contract(events={**changed("steps", maximum=20), "set_note": longer})
    expect(control(page, "set_steps").locator("[type=range]")).to_have_attribute("max", "20")
    expect(control(page, "set_steps").locator("[type=number]")).to_have_value("7")
    expect(control(page, "set_note").locator("textarea")).to_have_value("half a sent")
    control(page, "set_note").locator("textarea").press("Escape")
    expect(control(page, "set_note").locator("textarea")).to_have_value("old")


def test_a_changed_form_keeps_what_was_entered_and_takes_new_defaults(page: Page, server: FakeServer) -> None:
    thing, size = {"type": "string"}, {"type": "number", "minimum": 0, "maximum": 9, "default": 1}
    kind = {"type": "string", "enum": ["a", "b", "c", "d", "e"], "default": "a"}
    server.script.events = {"spawn": action("", thing=thing, size=size, kind=kind)}
    open_plain(page, server)
    form = control(page, "spawn")
    form.locator("[name=thing]").fill("a deer")
    form.locator("[name=kind]").select_option("e")
    less = {**kind, "enum": ["a", "b", "c", "d", "f"]}
    server.change_contract(
        events={"spawn": action("", thing=thing, size={**size, "default": 4}, kind=less, fast=thing)}
    )
    expect(form.locator("[name=fast]")).to_be_attached()
    expect(form.locator("[name=thing]")).to_have_value("a deer")
    expect(form.locator("[name=size][type=range]")).to_have_value("4")
    expect(form.locator("[name=kind]")).to_have_value("a")


def test_the_prompt_bar_stays_with_what_is_typed(page: Page, server: FakeServer) -> None:
    open_plain(page, server)
    bar = page.locator("#prompt textarea")
    bar.fill("a hare in")
    bar.evaluate("field => (field.dataset.mark = 'same')")
    server.change_contract(events={name: event for name, event in SCHEMA.items() if name != "set_seed"})
    expect(control(page, "set_seed")).not_to_be_attached()
    expect(bar).to_have_attribute("data-mark", "same")
    server.change_contract(events=changed("prompt", maxLength=99, description="In a few words"))
    expect(page.locator("#prompt textarea[data-mark]")).not_to_be_attached()
    expect(bar).to_have_value("a hare in")
    expect(bar).to_be_enabled()
    bar.press("Enter")
    assert server.wait_for("set_prompt") == {"prompt": "a hare in"}


def test_a_closed_group_stays_closed(page: Page, server: FakeServer) -> None:
    grouped = changed("steps", **{"x-reactor-ui": {"group": "Fine"}})
    server.script.events = grouped
    open_plain(page, server)
    page.locator("summary", has_text="Fine").click()
    server.change_contract(events={**grouped, "extra": action("Something new")})
    expect(control(page, "extra")).to_be_visible()
    expect(control(page, "set_steps")).to_be_hidden()


def test_a_key_that_is_held_stays_held_unless_its_binding_changes(page: Page, server: FakeServer) -> None:
    server.script.events = WALKER
    open_plain(page, server)
    expect(page.locator(".legend")).to_be_attached()
    page.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    server.change_contract(events={**WALKER, "extra": action("Something new")})
    expect(control(page, "extra")).to_be_attached()
    page.keyboard.up("w")
    wait_for(server, "set_walk", 0)
    other = {**WALKER, "set_fly": WALKER["set_walk"] | {"field": "fly"}}
    del other["set_run"]
    server.change_contract(events=other)
    expect(page.locator(".legend")).not_to_contain_text("run")


def test_a_model_gets_its_first_binding_and_its_first_control(page: Page, server: FakeServer) -> None:
    server.script.events = {}
    page.goto(server.url)
    expect(page.locator("#controls .placeholder")).to_have_text("This model takes no input.")
    server.change_contract(events=WALKER)
    expect(page.locator(".legend")).to_be_attached()
    expect(page.locator("#controls .placeholder")).not_to_be_attached()
    page.keyboard.down("w")
    wait_for(server, "set_walk", 1)


def test_video_tracks_come_and_go_while_the_others_continue(page: Page, server: FakeServer) -> None:
    open_plain(page, server)
    page.locator("canvas").evaluate("canvas => (canvas.dataset.mark = 'same')")
    server.change_contract(tracks=("main_video", "depth"))
    expect(page.locator("canvas[data-track=depth][data-seq]")).to_be_attached()
    expect(page.locator("canvas[data-track=main_video][data-mark]")).to_be_attached()
    server.change_contract(tracks=("depth",))
    expect(page.locator("canvas")).to_have_count(1)
    server.wait_for("reactor.ack", lambda data: data["track"] == "depth")


def test_an_input_that_stays_continues_to_send_beside_a_new_one(page: Page, server: FakeServer) -> None:
    server.script.inputs = {"camera": None}
    open_plain(page, server)
    panel = page.locator("[data-input=camera]")
    panel.get_by_label("Source").select_option(label="Test pattern")
    panel.get_by_role("button", name="Start").click()
    expect(panel).to_have_attribute("data-phase", "on")
    server.change_contract(inputs={"camera": None, "microphone": 16000})
    expect(page.locator("[data-input=microphone]")).to_be_attached()
    expect(page.get_by_role("button", name="Use your microphone")).to_be_visible()
    expect(panel).to_have_attribute("data-phase", "on")
    assert server.wait_for_media("camera")
    server.change_contract(inputs={})
    expect(page.locator("[data-input]")).to_have_count(0)


def test_the_first_sound_brings_its_button_and_plays_on(page: Page, server: FakeServer) -> None:
    open_plain(page, server)
    button = page.get_by_role("switch", name="Sound")
    expect(button).to_be_hidden()
    server.change_contract(sounds={"music": 16000})
    button.click()
    expect(button).to_be_checked()
    server.change_contract(events={"extra": action("Something new")})
    expect(control(page, "extra")).to_be_attached()
    expect(button).to_be_checked()
    server.change_contract(sounds={})
    expect(button).to_be_hidden()


@as_modules
def test_a_contract_that_comes_before_the_controls_are_loaded_is_the_one_they_show(
    page: Page, server: FakeServer
) -> None:
    routes: list[Any] = []
    page.route("**/panels.js", lambda route: routes.append(route))
    with page.expect_request("**/panels.js"):
        page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    server.report_reload(RELOADS["failed"])
    server.change_contract(events={"extra": action("Something new")}, tracks=("main_video", "depth"))
    routes[0].continue_()
    expect(control(page, "extra")).to_be_attached()
    expect(page.locator("#controls [data-event]")).to_have_count(1)
    expect(page.locator("canvas")).to_have_count(2)
    expect(page.locator(CARD)).to_be_visible()


def test_a_server_that_is_gone_leaves_no_reload_behind(page: Page, server: FakeServer) -> None:
    open_with(page, server, "loading")
    expect(page.locator(CARD)).to_be_visible()
    server.stop()
    expect(page.locator(CARD)).to_be_hidden()
    server.script.reload = None
    server.start()
    expect(page.locator("html[data-live]")).to_be_attached()
    expect(page.locator(BUTTON)).to_be_hidden()


@pytest.mark.parametrize("reload", [RELOADS["failed"] | {"error": None}, {"status": "of a later version"}], ids=str)
def test_a_reload_with_less_than_all_members_does_no_harm(page: Page, server: FakeServer, reload: Any) -> None:
    open_with(page, server, "applied")
    server.report_reload(reload)
    server.report_reload(RELOADS["failed"])
    expect(page.locator(CARD)).to_contain_text("pipeline.py:41")


BEGIN = """async () => {
  const { connect } = await import(new URL("static/client/reactor.js", location));
  window.session = connect(location.href);
  window.changed = new Promise((done) => session.addEventListener("contract", ({ detail }) => done(detail)));
  await session.ready();
  window.frames = { depth: session.frames("depth"), first: session.frames() };
  for (const each of Object.values(frames)) await each.next();
}"""
FOLLOW = """async () => {
  const { tracks, schema } = await changed;
  let gone = null;
  try {
    for await (const frame of frames.depth) frame.bitmap.close();
  } catch (error) {
    gone = `${error.name}: ${error.message}`;
  }
  const { done } = await frames.first.next();
  const names = (list) => list.map(({ name }) => name);
  const [events, now, state] = [Object.keys(schema.events), names(session.tracks), Object.keys(session.state)];
  return { tracks: names(tracks), events, now, state, gone, done };
}"""


def test_a_client_continues_with_the_tracks_that_stay(page: Page, server: FakeServer) -> None:
    server.script.html, server.script.tracks = "<!doctype html><title>A client</title>", ("main_video", "depth")
    page.goto(server.url)
    page.evaluate(BEGIN)
    server.change_contract(tracks=("main_video",), events={"set_seed": SCHEMA["set_seed"]})
    assert page.evaluate(FOLLOW) == {
        "tracks": ["main_video"],
        "events": ["set_seed"],
        "now": ["main_video"],
        "state": ["seed"],
        "gone": "TypeError: the model sends no video track depth; it sends main_video",
        "done": False,
    }
    assert page.evaluate("session.lastReload") is None
    server.report_reload(RELOADS["failed"])
    page.wait_for_function("() => session.lastReload?.error.line === 41")
    page.evaluate("session.reload()")
    server.wait_for("reactor.reload")
    page.evaluate("session.close()")


KEPT = {"file": "/home/me/my model/recordings/2026-11-23_14-05-09.mcap", "message": None, "hint": None}


def test_the_last_minute_is_kept_from_the_dialog_of_the_clip(page: Page, server: FakeServer) -> None:
    open_with(page, server, "applied")
    page.get_by_role("button", name="Share clip").click()
    button, part = page.locator("#keep"), page.locator(".kept")
    button.click()
    assert server.wait_for("reactor.keep") == {}
    expect(button).to_have_text("Keeping")
    server.broadcast("reactor.keep", **KEPT)
    expect(button).to_have_text("Keep the last minute")
    expect(part).to_contain_text("Kept the last minute")
    expect(part.locator("pre")).to_have_text(f"reactor replay '{KEPT['file']}'")
    button.click()
    server.broadcast("reactor.keep", file=None, message="the session has more than 512 MB", hint="start with --record")
    expect(part).to_contain_text("The session can't be kept")
    expect(part).to_contain_text("start with --record")
    expect(page.locator("#log")).to_contain_text("the session has more than 512 MB")
