"""The widget of each value: which one is chosen for it, and what it sends."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Locator, Page, expect

from reactor_runtime.manifest.page_settings import PageSettings
from reactor_runtime.server.routes.page_document import PageDocument

from .conftest import DRAWER, TIMEOUT_MS, open_page
from .fake_server import PAGE, FakeServer
from .schemas import NULL, action, setter

UNIT = {"type": "number", "minimum": 0.0, "maximum": 1.0}
TURN = {"type": "number", "minimum": 0, "maximum": 360}
PAIR = {"type": "array", "prefixItems": [UNIT, UNIT], "minItems": 2, "maxItems": 2}
FREE_PAIR = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2}
INTEGER = {"type": "integer"}
TEXT = {"type": "string", "default": ""}
MOMENT = {"type": "string", "format": "date-time"}
DATE = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "time-local"}
FILE = {"anyOf": [{"type": "object", "format": "upload"}, NULL], "default": None}

CHOSEN: list[Any] = [
    pytest.param("x", UNIT, "slider", id="a number with ends"),
    pytest.param("x", {"type": "number"}, "number", id="a number without ends"),
    pytest.param("x", INTEGER | {"minimum": 0, "maximum": 5_000_000}, "number", id="a very wide range"),
    pytest.param("noise_seed", INTEGER, "seed", id="a seed by its name"),
    pytest.param("seedling", INTEGER, "number", id="no seed by its name"),
    pytest.param("hue", TURN, "angle", id="an angle by its name and ends"),
    pytest.param("hue", UNIT, "slider", id="a hue without degrees"),
    pytest.param("x", {"enum": ["ink", "oil"]}, "radio", id="few choices"),
    pytest.param("x", {"enum": [1, 2, 3, 4, 5]}, "select", id="many choices"),
    pytest.param("x", {"enum": ["an effect with a long name", "another"]}, "select", id="long choices"),
    pytest.param("prompt", TEXT, "text", id="a text"),
    pytest.param("poem", TEXT | {"default": "a\nb"}, "multiline", id="a text of two lines"),
    pytest.param("api_token", TEXT, "password", id="a secret by its name"),
    pytest.param("tint_color", TEXT | {"default": "#ff8800"}, "color", id="a colour by its name and default"),
    pytest.param("color", TEXT | {"default": "red"}, "text", id="a colour that is a name"),
    pytest.param("focus", PAIR, "xy", id="a pair"),
    pytest.param("time_range", PAIR, "range", id="a pair by its name"),
    pytest.param("x", FREE_PAIR, "json", id="a pair without ends"),
    pytest.param("x", FREE_PAIR | {"x-reactor-bind": [{"kind": "pointer"}]}, "xy", id="a place on the frame"),
    pytest.param("x", MOMENT, "datetime", id="a date and time"),
    pytest.param("x", DATE, "date", id="a date"),
    pytest.param("x", TIME, "time", id="a time of day"),
    pytest.param("style_image", FILE, "image", id="an image by its name"),
    pytest.param("weights", FILE, "file", id="a file"),
    pytest.param("x", UNIT | {"x-reactor-ui": {"widget": "number"}}, "number", id="the author's widget"),
    pytest.param("x", UNIT | {"x-reactor-ui": {"widget": "knob"}}, "slider", id="an unknown widget"),
    pytest.param("x", UNIT | {"x-reactor-ui": {"widget": "color"}}, "slider", id="the widget of another type"),
]


@pytest.mark.parametrize(("name", "schema", "widget"), CHOSEN)
def test_the_widget_follows_from_schema_and_name(still: Page, name: str, schema: dict[str, Any], widget: str) -> None:
    script = """async ([name, schema]) => {
        const { describeParameter } = await import("/static/controls/parameters.js");
        return describeParameter(name, schema, {}).widget;
    }"""
    assert still.evaluate(script, [name, schema]) == widget


def test_the_author_s_step_is_that_of_the_slider_from_its_minimum(still: Page) -> None:
    script = """async (schema) => {
        const { describeParameter } = await import("/static/controls/parameters.js");
        const { min, max, step } = describeParameter("x", schema, {});
        return [min, max, step];
    }"""
    schema = {"type": "number", "minimum": 0.1, "maximum": 1.2, "x-reactor-ui": {"step": 0.25}}
    assert still.evaluate(script, schema) == [0.1, 1.2, 0.25]


def shown(schema: dict[str, Any], **ui: Any) -> dict[str, Any]:
    return schema | {"x-reactor-ui": ui}


EVENTS = {
    "set_seed": setter("seed", "", INTEGER | {"default": 0, "minimum": 5, "maximum": 9}),
    "set_hue": setter("hue", "", TURN | {"default": 350}),
    "set_mode": setter("mode", "", {"enum": ["ink", "oil"], "default": "ink"}),
    "set_poem": setter("poem", "", shown(TEXT, widget="multiline")),
    "set_token": setter("token", "", TEXT),
    "set_tint": setter("tint", "", shown(TEXT | {"default": "#ff8800"}, widget="color", group="Look", label="Tinge")),
    "set_focus": setter("focus", "", shown(PAIR | {"default": [0.5, 0.5]}, group="Look", step=0.25)),
    "set_time_range": setter("time_range", "", shown(PAIR | {"default": [0.2, 0.8]}, group="Look", order=-1)),
    "set_start": setter("start", "", MOMENT | {"default": "2026-11-24T18:30:00.5+00:00"}),
    "set_day": setter("day", "", DATE | {"default": "2026-11-24"}),
    "set_alarm": setter("alarm", "", {"anyOf": [TIME, NULL], "default": None}),
    "set_image": setter("image", "", FILE),
    "set_prompt": setter("caption", "", shown(TEXT | {"examples": ["a fox", "a crow"]}, placeholder="An animal")),
    "jump": action("", height={"type": "number", "default": 1, "x-reactor-bind": [{"kind": "key", "key": "KeyJ"}]}),
}


@pytest.fixture(scope="module")
def served(browser: Browser) -> Iterator[tuple[Page, FakeServer]]:
    """A page with all widgets, which each test leaves connected."""
    with FakeServer() as server, open_page(browser, server.url) as page:
        server.script.events = EVENTS
        page.goto("/")
        expect(page.locator("#controls [name]").first).to_be_enabled()
        yield page, server


def drag(area: Locator, x: float, y: float) -> None:
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    area.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    area.page.mouse.down()
    area.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    area.page.mouse.up()


def send_text(words: str) -> Callable[[Locator], None]:
    def act(control: Locator) -> None:
        control.locator("textarea, [type=password]").fill(words)
        control.get_by_text("Send").click()

    return act


def fill(value: str) -> Callable[[Locator], None]:
    return lambda control: control.locator("input:not([type=checkbox])").fill(value)


ACTS: list[Any] = [
    pytest.param("set_hue", lambda control: drag(control.locator(".dial"), 1.0, 0.5), {"hue": 90}, id="angle"),
    pytest.param("set_mode", lambda control: control.get_by_text("oil").click(), {"mode": "oil"}, id="radio"),
    pytest.param("set_poem", send_text("a\nb"), {"poem": "a\nb"}, id="multiline"),
    pytest.param("set_token", send_text("s3cret"), {"token": "s3cret"}, id="password"),
    pytest.param("set_tint", lambda c: c.locator("[type=color]").fill("#00ff00"), {"tint": "#00ff00"}, id="color"),
    pytest.param(
        "set_focus", lambda control: drag(control.locator(".pad"), 0.74, 0.01), {"focus": [0.75, 1.0]}, id="xy upwards"
    ),
    pytest.param("set_day", fill("2027-01-31"), {"day": "2027-01-31"}, id="date"),
    pytest.param("set_alarm", fill("07:05"), {"alarm": "07:05:00"}, id="time"),
    pytest.param("set_alarm", fill("07:05:09"), {"alarm": "07:05:09"}, id="time with seconds"),
    pytest.param(
        "set_time_range", lambda c: c.locator(".end").first.fill("0.9"), {"time_range": [0.8, 0.8]}, id="crossed ends"
    ),
    pytest.param(
        "set_prompt", lambda control: control.get_by_role("button", name="a crow").click(), {"caption": "a crow"},
        id="example",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "act", "value"), ACTS)
def test_each_widget_sends_its_value(
    served: tuple[Page, FakeServer], event: str, act: Callable[[Locator], object], value: dict[str, Any]
) -> None:
    page, server = served
    act(page.locator(f'[data-event="{event}"]'))
    assert server.wait_for(event, lambda data: data == value)


def test_a_date_and_time_is_shown_in_the_zone_of_the_browser_and_sent_in_utc(browser: Browser) -> None:
    with (
        FakeServer() as server,
        contextlib.closing(browser.new_context(timezone_id="Asia/Kolkata")) as context,
        contextlib.closing(context.new_page()) as page,
    ):
        server.script.events = EVENTS
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(DRAWER)
        page.goto(server.url)
        box = page.locator('[data-event="set_start"] input')
        expect(box).to_be_enabled()
        expect(box).to_have_value("2026-11-25T00:00")
        expect(page.locator('[data-event="set_start"] .reset')).to_have_class("reset idle")
        box.fill("2026-11-25T05:30:01")
        assert server.wait_for("set_start") == {"start": "2026-11-25T00:00:01+00:00"}


def test_no_year_is_sent_while_it_is_typed(served: tuple[Page, FakeServer]) -> None:
    page, server = served
    box = page.locator('[data-event="set_day"] input')
    box.focus()
    # The state follows each value that was sent, between the digits of the year too.
    page.keyboard.type("03042028", delay=200)
    server.wait_for("set_day", lambda data: data["day"].startswith("2028-"))
    years = {message.data["day"][:4] for message in server.received if message.type == "set_day"}
    assert years <= {"2026", "2027", "2028"}


def test_the_dice_send_a_number_within_the_limits(served: tuple[Page, FakeServer]) -> None:
    page, server = served
    page.get_by_role("button", name="Random seed").click()
    assert server.wait_for("set_seed")["seed"] in range(5, 10)


def test_controls_stand_in_their_groups_in_order(served: tuple[Page, FakeServer]) -> None:
    page, _ = served
    sections = page.locator(".section")
    expect(sections.locator("> summary")).to_have_text(["Look", "Keys and pointer"])
    expect(sections.first.locator("label[for]")).to_have_text(["Time range", "Tinge", "Focus"])
    expect(sections.last.locator("[data-event]")).to_have_attribute("data-event", "jump")
    expect(page.locator("[name=caption]")).to_have_attribute("placeholder", "An animal")


def test_a_chosen_image_is_shown(served: tuple[Page, FakeServer]) -> None:
    page, _ = served
    gif = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
    box = page.locator('[data-event="set_image"] [type=file]')
    expect(box).to_have_attribute("accept", "image/*")
    # The fake server takes no uploads; the value stays.
    page.route("**/uploads*", lambda route: route.fulfill(status=200, json={"id": "u-1"}))
    box.set_input_files(FilePayload(name="dot.gif", mimeType="image/gif", buffer=gif))
    expect(page.locator('[data-event="set_image"] img')).to_be_visible()
    expect(page.locator('[data-event="set_image"] .file-words')).to_have_text("dot.gif · 42 B")


def test_axe_finds_nothing_in_any_widget(served: tuple[Page, FakeServer]) -> None:
    axe = pytest.importorskip("axe_playwright_python.base")
    from .test_axe import RUN

    page, _ = served
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(axe.AXE_SCRIPT)
    assert page.evaluate(RUN) == []


def test_the_author_s_texts_and_presets_are_shown(page: Page, server: FakeServer) -> None:
    settings = PageSettings(
        title="Aurora", description="Paints *light*.", accent="#0a7d55", presets={"Storm": {"steps": 8, "frozen": True}}
    )
    document = PageDocument((PAGE / "index.html").read_text(encoding="utf-8"), settings)
    server.script.html = document.render("my-model", server.url, None)
    page.goto("/")
    page.get_by_role("button", name="Storm").click()
    assert server.wait_for("set_steps") == {"steps": 8}
    assert server.wait_for("set_frozen") == {"frozen": True}
    expect(page.get_by_role("heading", name="Aurora")).to_be_visible()
    expect(page).to_have_title(re.compile("Aurora"))
    expect(page.locator("#about")).to_have_text("Paints light.")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--authors')") == "#0a7d55"
