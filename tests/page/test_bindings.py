"""Keys, gamepad, mouse and fingers that an author has bound: what reaches the server, and that it is let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.timeouts import TIMEOUT_S

from .bound import PADS, PAINTER, WALKER, bound, key
from .conftest import REPAINTED
from .fake_server import FakeServer
from .schemas import SCHEMA, setter

HIDE = """() => { Object.defineProperty(document, "hidden", {value: true, configurable: true});
                   document.dispatchEvent(new Event("visibilitychange")); }"""


def show(page: Page, server: FakeServer, events: dict[str, Any], query: str = "") -> Page:
    server.script.events = events
    page.goto(server.url + query)
    expect(page.locator("canvas[data-seq]")).to_be_attached()
    if not query:
        expect(page.locator(".legend")).to_be_attached()
    return page


@pytest.fixture
def walker(page: Page, server: FakeServer) -> Page:
    page.add_init_script(PADS)
    return show(page, server, WALKER)


@pytest.fixture
def painter(page: Page, server: FakeServer) -> Page:
    return show(page, server, PAINTER)


def sent(server: FakeServer, event: str) -> list[Any]:
    """List what an event has carried: a single argument by itself."""
    found = [message.data for message in server.received if message.type == event]
    return [next(iter(data.values())) if len(data) == 1 else data for data in found]


def wait_for(server: FakeServer, event: str, value: object) -> None:
    server.wait_for(event, lambda data: next(iter(data.values()), None) == value)


def settled(page: Page, server: FakeServer) -> None:
    """Wait until all that the page has said so far has been answered, and what it has said then, and so once more."""
    page.evaluate(REPAINTED)
    for _ in range(3):
        server.wait_for_frames()


def slider(page: Page, name: str) -> Locator:
    return page.locator(f"[name={name}]")


def legend(page: Page) -> Locator:
    return page.get_by_role("list", name="Keys, mouse and gamepad")


def test_a_held_key_sets_its_end_and_goes_back_to_rest(walker: Page, server: FakeServer) -> None:
    for _ in range(4):
        walker.keyboard.down("w")  # the first is a press, the others repeat it
    wait_for(server, "set_walk", 1)
    expect(slider(walker, "walk")).to_have_value("1")
    walker.keyboard.up("w")
    wait_for(server, "set_walk", 0)
    expect(slider(walker, "walk")).to_have_value("0")
    assert sent(server, "set_walk") == [1, 0]


def test_a_modifier_that_is_bound_is_held_with_other_keys(page: Page, server: FakeServer) -> None:
    crouch = setter("crouch", "", bound({"type": "boolean", "default": False}, key("Control")))
    show(page, server, {**WALKER, "set_crouch": crouch})
    page.keyboard.down("Control")
    wait_for(server, "set_crouch", True)
    page.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    page.keyboard.up("Control")
    page.keyboard.up("w")
    wait_for(server, "set_crouch", False)
    wait_for(server, "set_walk", 0)


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_a_key_with_a_modifier_that_is_not_bound_is_left_to_the_browser(
    walker: Page, server: FakeServer, modifier: str
) -> None:
    walker.keyboard.down(modifier)
    walker.keyboard.down("g")
    walker.keyboard.up("g")
    walker.keyboard.up(modifier)
    settled(walker, server)
    assert sent(server, "set_gas") == []


@pytest.mark.parametrize(("press", "event", "held"), [("Shift", "set_run", True), ("g", "set_gas", 90)])
def test_a_key_turns_a_switch_or_takes_a_number_to_its_greatest(
    walker: Page, server: FakeServer, press: str, event: str, held: object
) -> None:
    walker.keyboard.down(press)
    wait_for(server, event, held)
    walker.keyboard.up(press)
    settled(walker, server)
    assert sent(server, event) == [held, {True: False, 90: 50}[held]]  # type: ignore[index]  # bool or int


def test_opposite_keys_cancel_out(walker: Page, server: FakeServer) -> None:
    walker.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    walker.keyboard.down("s")
    wait_for(server, "set_walk", 0)
    walker.keyboard.up("w")
    wait_for(server, "set_walk", -1)


def test_four_keys_make_a_pair_no_longer_than_one(painter: Page, server: FakeServer) -> None:
    painter.keyboard.down("ArrowUp")
    wait_for(server, "set_way", [0, 1])
    painter.keyboard.down("ArrowRight")
    wait_for(server, "set_way", [0.70711, 0.70711])
    painter.keyboard.up("ArrowUp")
    painter.keyboard.up("ArrowRight")
    wait_for(server, "set_way", [0, 0])


LEAVE: dict[str, Callable[[Page], object]] = {
    "the window loses the focus": lambda page: page.evaluate("window.dispatchEvent(new Event('blur'))"),
    "the tab is hidden": lambda page: page.evaluate(HIDE),
    "a text field is entered": lambda page: page.locator("[name=name]").focus(),
    "a number field is entered": lambda page: page.locator("[data-event=set_speed] [type=number]").focus(),
    "Meta comes up": lambda page: page.keyboard.press("Meta"),
}


@pytest.mark.parametrize("leave", LEAVE)
def test_a_key_is_let_go_when(walker: Page, server: FakeServer, leave: str) -> None:
    walker.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    LEAVE[leave](walker)
    wait_for(server, "set_walk", 0)


def test_keys_belong_to_a_text_field_that_has_the_focus(walker: Page, server: FakeServer) -> None:
    slider(walker, "name").focus()
    walker.keyboard.type("we go")
    expect(slider(walker, "name")).to_have_value("we go")
    walker.keyboard.press("Control+s")
    settled(walker, server)
    assert [message for message in server.received if message.type in WALKER] == []


def test_a_slider_keeps_its_arrows_and_leaves_letters(painter: Page, server: FakeServer) -> None:
    painter.get_by_text("Keys and pointer").click()
    slider(painter, "zoom").focus()
    painter.keyboard.press("ArrowRight")
    wait_for(server, "set_zoom", 1.51)
    assert sent(server, "set_way") == []
    painter.locator("canvas").click()  # gives them back
    painter.keyboard.press("ArrowRight")
    wait_for(server, "set_way", [0, 0])


def test_bound_keys_do_not_scroll(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 500, "height": 500})
    show(page, server, {**WALKER, **PAINTER, "look": {"field": None}})
    for pressed in ("Space", "ArrowDown", "ArrowDown"):
        page.keyboard.press(pressed)
    settled(page, server)
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("PageDown")  # which nobody has bound
    page.wait_for_function("() => scrollY > 0")


def test_each_press_of_a_trigger_sends_its_event_once(walker: Page, server: FakeServer) -> None:
    for _ in range(2):
        walker.keyboard.down("Space")
        walker.keyboard.down("Space")  # repeats
        walker.keyboard.up("Space")
    settled(walker, server)
    assert [message.data for message in server.received if message.type == "jump"] == [{}, {}]


def test_only_the_newest_waiting_value_is_sent(walker: Page, server: FakeServer) -> None:
    server.script.reply_delay_s = 0.15
    # All at once: on a busy machine they may take longer than the reply.
    pressed = [[turn, f"Key{letter}"] for letter in "WSWS" for turn in ("keydown", "keyup")]
    walker.evaluate(
        "keys => { for (const [turn, code] of keys) window.dispatchEvent(new KeyboardEvent(turn, { code })); }",
        [*pressed, ["keydown", "KeyS"]],
    )
    wait_for(server, "set_walk", -1)
    assert sent(server, "set_walk") == [1, -1]


def middle_of_picture(page: Page) -> tuple[float, float]:
    """The stage is wider or higher than the picture, which is in its middle."""
    box = page.locator("canvas[data-seq]").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_place_on_the_picture_is_that_of_the_pointer(painter: Page, server: FakeServer) -> None:
    x, y = middle_of_picture(painter)
    painter.mouse.move(x, y)
    server.wait_for("set_aim", lambda data: data["aim"] == pytest.approx([0.5, 0.5], abs=0.01))
    assert sent(server, "paint") == []
    painter.mouse.down()
    server.wait_for(
        "paint", lambda data: data == {"x": pytest.approx(0.5, abs=0.01), "y": pytest.approx(0.5, abs=0.01)}
    )
    painter.mouse.move(x - 2000, y)
    server.wait_for("paint", lambda data: data["x"] == 0)
    painter.mouse.up()
    wait_for(server, "set_aim", None)


def test_a_click_carries_its_place(painter: Page, server: FakeServer) -> None:
    x, y = middle_of_picture(painter)
    painter.mouse.click(x, y)
    assert server.wait_for("drop") == {"x": pytest.approx(0.5, abs=0.01), "y": pytest.approx(0.5, abs=0.01)}
    painter.mouse.click(x, 52)  # above the picture
    settled(painter, server)
    assert len(sent(server, "drop")) == 1


def test_the_sheet_of_links_is_none_of_the_picture_below(painter: Page, server: FakeServer) -> None:
    painter.get_by_role("button", name="Links").click()
    address = painter.get_by_label("Link to watch", exact=True)
    address.click()
    painter.mouse.wheel(0, -100)
    settled(painter, server)
    assert [sent(server, event) for event in ("paint", "drop", "set_zoom")] == [[], [], []]
    assert address.evaluate("field => getComputedStyle(field).userSelect") == "text"


def test_the_wheel_goes_on_from_the_slider_and_stops_at_the_end(painter: Page, server: FakeServer) -> None:
    painter.get_by_text("Keys and pointer").click()
    slider(painter, "zoom").fill("1.2")
    wait_for(server, "set_zoom", 1.2)
    expect(painter.locator("[data-event=set_zoom] [type=number]")).to_have_value("1.2")
    settled(painter, server)
    painter.mouse.move(*middle_of_picture(painter))
    painter.mouse.wheel(0, -100)
    wait_for(server, "set_zoom", 1.45)
    for _ in range(4):
        painter.mouse.wheel(0, -100)
    wait_for(server, "set_zoom", 2)
    expect(slider(painter, "zoom")).to_have_value("2")


@pytest.mark.whole_browser
def test_a_click_locks_the_mouse_in_and_no_movement_is_lost(walker: Page, server: FakeServer) -> None:
    expect(walker.locator(".legend")).to_contain_text("Click the video to look around")
    server.script.reply_delay_s = 1.0
    x, y = middle_of_picture(walker)
    walker.mouse.click(x, y)
    expect(walker.locator(".legend")).to_contain_text("Esc releases the mouse")
    for step in range(1, 21):
        walker.mouse.move(x + 10 * step, y + 2 * step)
    with server.changed:
        assert server.changed.wait_for(lambda: sum(look["dx"] for look in sent(server, "look")) > 0.49, TIMEOUT_S)
    looks = sent(server, "look")
    assert sum(look["dx"] for look in looks) == pytest.approx(200 * 0.0025, abs=1e-3)
    assert sum(look["dy"] for look in looks) == pytest.approx(40 * 0.0025, abs=1e-3)
    assert len(looks) < 20
    walker.evaluate("document.exitPointerLock()")
    expect(walker.locator(".legend-hint")).to_be_empty()
    # Also in the next visit.
    walker.reload()
    expect(legend(walker)).to_contain_text("mouse look")
    expect(walker.locator(".legend-hint")).to_be_empty()


def test_where_the_mouse_can_not_be_locked_in_dragging_looks_around(walker: Page, server: FakeServer) -> None:
    walker.evaluate("() => { Element.prototype.requestPointerLock = () => Promise.reject(new Error('never')); }")
    x, y = middle_of_picture(walker)
    walker.mouse.click(x, y)
    expect(walker.locator(".legend")).to_contain_text("Drag the video to look around")
    walker.mouse.down()
    walker.mouse.move(x + 50, y)
    assert server.wait_for("look") == {"dx": pytest.approx(0.3), "dy": 0}


def test_a_gamepad_moves_presses_and_looks_until_it_is_unplugged(walker: Page, server: FakeServer) -> None:
    walker.evaluate("plug()")
    expect(walker.locator(".legend").get_by_role("status")).to_have_text("gamepad connected")
    expect(legend(walker)).to_contain_text("left stick walk")
    walker.evaluate("plug([0.1, -1, 1, 0], {0: 1, 6: 1, 7: 0.5})")
    wait_for(server, "set_walk", pytest.approx(1, abs=0.02))
    wait_for(server, "set_run", True)
    wait_for(server, "set_gas", 70)
    server.wait_for("jump")
    server.wait_for("look", lambda data: data["dx"] > 0 == data["dy"])
    walker.evaluate("unplug()")
    for event, rest in {"set_walk": 0, "set_run": False, "set_gas": 50}.items():
        wait_for(server, event, rest)
    expect(walker.locator(".legend").get_by_role("status")).to_have_text("")
    settled(walker, server)
    assert len(sent(server, "jump")) == 1


def test_a_stick_that_rests_beside_its_middle_says_nothing(walker: Page, server: FakeServer) -> None:
    walker.evaluate("plug([0.1, -0.1, 0.05, 0.12])")
    expect(legend(walker)).to_contain_text("left stick walk")
    settled(walker, server)
    assert sent(server, "set_walk") == sent(server, "look") == []


def test_a_gamepad_is_let_go_while_the_window_is_away(walker: Page, server: FakeServer) -> None:
    walker.evaluate("plug([0, -1, 0, 0])")
    wait_for(server, "set_walk", 1)
    walker.evaluate("window.dispatchEvent(new Event('blur'))")
    wait_for(server, "set_walk", 0)
    walker.evaluate("window.dispatchEvent(new Event('focus'))")
    with server.changed:
        assert server.changed.wait_for(lambda: sent(server, "set_walk") == [1, 0, 1], TIMEOUT_S)


def test_the_legend_says_what_does_what(walker: Page) -> None:
    expect(legend(walker).get_by_role("listitem")).to_have_text(
        ["W S walk", "shift run", "G gas", "mouse look", "space jump"]
    )


def test_a_session_that_is_resumed_hears_of_keys_let_go_meanwhile(walker: Page, server: FakeServer) -> None:
    walker.keyboard.down("w")
    wait_for(server, "set_walk", 1)
    # Until the key is up: the page may be quicker than a look at it.
    server.script.held_loading = True
    server.close(1001)
    expect(walker.locator("html:not([data-live])")).to_be_attached()
    walker.keyboard.up("w")
    server.release()
    wait_for(server, "set_walk", 0)


def test_a_key_let_go_is_said_again_where_the_server_had_too_much(walker: Page, server: FakeServer) -> None:
    walker.keyboard.down("w")
    expect(slider(walker, "walk")).to_have_value("1")
    server.script.too_often = 2
    walker.keyboard.up("w")
    with server.changed:
        assert server.changed.wait_for(lambda: sent(server, "set_walk") == [1, 0, 0, 0], TIMEOUT_S)
    expect(slider(walker, "walk")).to_have_value("0")


def test_the_next_session_is_bound_once(walker: Page, server: FakeServer) -> None:
    for _ in range(2):
        # Until it is gone: the page may be quicker than a look at it.
        server.script.held_loading = True
        server.close(1001)
        expect(walker.locator(".legend")).not_to_be_attached()
        server.release()
        expect(walker.locator(".legend")).to_be_attached()
    walker.keyboard.press("Space")
    server.wait_for("jump")
    settled(walker, server)
    assert len(sent(server, "jump")) == 1
    expect(walker.locator(".legend")).to_have_count(1)


@pytest.mark.parametrize(("query", "events"), [("?role=viewer", WALKER), ("?", SCHEMA)], ids=["viewer", "unbound"])
def test_nothing_is_loaded_for_who_has_no_use_for_it(
    page: Page, server: FakeServer, query: str, events: dict[str, Any]
) -> None:
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    show(page, server, events, query)
    page.keyboard.press("w")
    settled(page, server)
    assert [url for url in loaded if "/bindings" in url] == []
    expect(page.locator(".legend")).not_to_be_attached()
