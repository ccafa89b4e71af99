"""Controls made from the schema: what the user does reaches the server, what the server says is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .fake_server import FakeServer
from .schemas import MANY, action


def say(words: str) -> Callable[[Locator], None]:
    def act(control: Locator) -> None:
        control.locator("textarea").fill(words)
        control.get_by_role("button", name=re.compile("^Send")).click()

    return act


def enter(number: str) -> Callable[[Locator], None]:
    def act(control: Locator) -> None:
        control.locator("[type=number]").fill(number)
        control.locator("[type=number]").press("Enter")

    return act


def control(page: Page, event: str) -> Locator:
    return page.locator(f'[data-event="{event}"]')


def error(page: Page, event: str) -> Locator:
    return page.locator(f'[data-error-for="{event}"]')


@pytest.fixture
def connected(page: Page, page_url: str) -> Page:
    page.goto(page_url)
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    expect(page.locator("#controls [name]").first).to_be_enabled()
    return page


def brightness_of(page: Page) -> float:
    mean = """canvas => { const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                          return data.reduce((sum, value, i) => i % 4 === 3 ? sum : sum + value, 0) / data.length; }"""
    value = page.locator("canvas").evaluate(mean)
    assert isinstance(value, float)
    return value


def test_slider_changes_the_picture_and_the_delay_is_measured(connected: Page) -> None:
    expect(connected.locator("canvas[data-seq]")).to_be_attached()
    before = brightness_of(connected)
    control(connected, "set_brightness").locator("[name=brightness]").fill("0.2")
    expect(connected.locator('canvas[data-applied="1"]')).to_be_attached()
    assert brightness_of(connected) < 0.5 * before
    expect(connected.locator("[data-figure=delay]")).to_contain_text(" ms · last ")


def test_dragging_sends_one_value_at_a_time_and_the_newest_last(connected: Page, server: FakeServer) -> None:
    server.script.reply_delay_s = 0.15
    slider = control(connected, "set_steps").locator("[name=steps]")
    # All at once: key presses may take longer than the replies.
    slider.evaluate("""slider => { for (let value = 1; value <= 8; value++) {
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
    } }""")
    server.wait_for("set_steps", lambda data: data["steps"] == 8)
    sent = [message.data["steps"] for message in server.received if message.type == "set_steps"]
    assert sent == [1, 8]
    expect(control(connected, "set_steps").locator("[type=number]")).to_have_value("8")


def test_a_refused_value_shows_its_message_until_the_next_reply(connected: Page) -> None:
    box = control(connected, "set_brightness").locator("[type=number]")
    enter("3.2")(control(connected, "set_brightness"))
    expect(error(connected, "set_brightness")).to_have_text("3.2 is outside 0.0 to 2.0")
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(connected.locator("#log .error")).to_contain_text("set_brightness.brightness: 3.2")
    enter("1.5")(control(connected, "set_brightness"))
    expect(error(connected, "set_brightness")).to_have_text("")


def test_controls_follow_the_state_but_not_under_the_users_hands(connected: Page, server: FakeServer) -> None:
    prompt = control(connected, "set_prompt").locator("[name=prompt]")
    prompt.fill("a hare")
    server.broadcast("reactor.state", prompt="a bear", steps=2, guidance=3.5)
    expect(control(connected, "set_steps").locator("[type=number]")).to_have_value("2")
    expect(control(connected, "set_guidance").locator("[name=guidance]")).to_have_value("3.5")
    expect(prompt).to_have_value("a hare")
    prompt.press("Escape")
    expect(prompt).to_have_value("a bear")


@pytest.mark.parametrize(
    ("event", "act", "value"),
    [
        ("set_prompt", say("a hare"), {"prompt": "a hare"}),
        ("set_palette", lambda control: control.get_by_text("deep sea").click(), {"palette": "deep sea"}),
        ("set_frozen", lambda control: control.get_by_role("switch").click(), {"frozen": True}),
        ("set_seed", enter("12"), {"seed": 12}),
        ("set_guidance", lambda control: control.get_by_label("none").uncheck(), {"guidance": 0}),
        ("set_pose", say('{"x": 1, "y": 2}'), {"pose": {"x": 1, "y": 2}}),
        ("reset", lambda control: control.get_by_role("button").click(), {}),
    ],
    ids=["text", "choice", "switch", "number", "optional", "json", "button"],
)
def test_each_kind_of_control_sends_its_value(
    connected: Page, server: FakeServer, event: str, act: Callable[[Locator], object], value: dict[str, Any]
) -> None:
    act(control(connected, event))
    assert server.wait_for(event) == value


def test_unreadable_json_is_said_at_once_and_not_sent(connected: Page, server: FakeServer) -> None:
    control(connected, "set_pose").locator("textarea").fill("{x: 1}")
    control(connected, "set_pose").locator("textarea").press("Control+Enter")
    expect(error(connected, "set_pose")).to_contain_text("not JSON")
    assert not [message for message in server.received if message.type == "set_pose"]


def test_a_form_sends_all_arguments_and_names_the_one_at_fault(connected: Page, server: FakeServer) -> None:
    form = control(connected, "spawn")
    form.locator("[name=thing]").fill("a whole herd of deer")
    form.get_by_role("button", name="Spawn").click()
    expect(form.locator('[data-error-param="thing"]')).to_have_text("20 characters, at most 12")
    form.locator("[name=thing]").fill("a deer")
    form.locator("[name=thing]").press("Enter")
    expect(error(connected, "spawn")).to_have_text("")
    assert server.wait_for("spawn", lambda data: data["thing"] == "a deer") == {
        "thing": "a deer",
        "size": 1,
        "sticky": False,
    }


def test_an_event_that_sets_one_value_without_a_state_shows_what_was_sent(page: Page, server: FakeServer) -> None:
    volume = {"type": "number", "minimum": 0, "maximum": 10, "default": 5}
    server.script.events = {
        "set_volume": action("How loud", volume=volume),
        "set_text": action("", words={"type": "string"}),
    }
    page.goto(server.url)
    slider = control(page, "set_volume").locator("[name=volume][type=range]")
    expect(slider).to_have_value("5")
    slider.fill("8")
    assert server.wait_for("set_volume", lambda data: data == {"volume": 8})
    # Escape returns to the value that the model has.
    slider.press("Escape")
    expect(slider).to_have_value("8")
    control(page, "set_volume").get_by_role("button", name="Reset").click()
    assert server.wait_for("set_volume", lambda data: data == {"volume": 5})
    expect(slider).to_have_value("5")
    # Its parameter has another name.
    expect(control(page, "set_text").locator("form")).to_be_attached()


def test_reset_all_sends_the_defaults_of_what_was_changed(connected: Page, server: FakeServer) -> None:
    control(connected, "set_steps").locator("[name=steps]").fill("7")
    control(connected, "set_frozen").get_by_role("switch").click()
    server.wait_for("set_frozen")
    connected.get_by_role("button", name="Reset all").click()
    assert server.wait_for("set_frozen", lambda data: data["frozen"] is False)
    assert server.wait_for("set_steps", lambda data: data["steps"] == 4)
    assert not [message for message in server.received if message.type == "set_prompt"]
    expect(connected.get_by_role("button", name="Reset all")).to_be_hidden()


def test_the_keyboard_alone_reaches_and_moves_a_control(connected: Page, server: FakeServer) -> None:
    for _ in range(8):
        connected.keyboard.press("Tab")
        if connected.evaluate("document.activeElement.name") == "brightness":
            break
    connected.keyboard.press("ArrowRight")
    assert server.wait_for("set_brightness") == {"brightness": 1.02}


def test_thirty_controls_scroll_beside_a_picture_that_stays(page: Page, server: FakeServer) -> None:
    server.script.events = MANY
    page.goto(server.url)
    expect(page.locator(".control")).to_have_count(30)
    control(page, "set_parameter_29").scroll_into_view_if_needed()
    expect(page.locator("canvas")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_without_events_says_so(page: Page, server: FakeServer) -> None:
    server.script.events = {}
    page.goto(server.url)
    expect(page.locator("#controls")).to_contain_text("takes no input")


def test_a_model_of_a_microphone_alone_takes_input(page: Page, server: FakeServer) -> None:
    server.script.events = {}
    server.script.inputs = {"microphone": 16_000}
    page.goto(server.url)
    expect(page.locator("[data-input=microphone]")).to_be_visible()
    expect(page.locator("#controls")).not_to_contain_text("takes no input")
