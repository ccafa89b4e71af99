"""The age of the picture, the stages of the delay, the graph and the trace: what is computed, and what people see."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from .bound import key, sent_by
from .conftest import as_modules_and_as_bundle
from .fake_server import FakeServer
from .schemas import SCHEMA, action

STATS = {"step_ms": 14, "arrive_ms": 1, "queue_ms": 1, "encode_ms": 3, "back_ms": 1, "hold_ms": 2, "late_ms": 0.5}
STAGES = ["up", "wait", "model", "encode", "hold", "down", "paint"]
MEASURED = {"totalMs": 60, "backMs": 12, "paintMs": 5, "rttMs": 8, "stats": STATS}


def computed(page: Page, part: str, expression: str, argument: Any = None) -> Any:
    script = f"async (given) => {{ const part = await import('/static/metrics/{part}.js'); return {expression}; }}"
    return page.evaluate(script, argument)


def split(still: Page, **changes: Any) -> dict[str, float]:
    result: dict[str, float] = computed(still, "charts", "part.splitDelay(given)", MEASURED | changes)
    assert list(result) == STAGES
    assert min(result.values()) >= 0
    assert sum(result.values()) == pytest.approx(max(0, changes.get("totalMs", 60)))
    return result


def test_each_stage_has_its_share_and_they_add_up(still: Page) -> None:
    wanted = {"up": 4, "wait": 25, "model": 14, "encode": 6, "hold": 2.5, "down": 3.5, "paint": 5}
    assert split(still) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "changes",
    [
        {"stats": {}},
        {"rttMs": None},
        {"totalMs": 0},
        {"totalMs": -3},
        {"backMs": -4},
        {"paintMs": 900},
        {"rttMs": 5000},
        {"backMs": 2},
        {"stats": {"step_ms": -5, "late_ms": -1, "encode_ms": 400}},
    ],
    ids=json.dumps,
)
def test_no_stage_is_negative_whatever_the_estimates_say(still: Page, changes: dict[str, Any]) -> None:
    split(still, **changes)


def test_estimates_that_say_too_much_share_what_there_was(still: Page) -> None:
    result = split(still, totalMs=26, backMs=12, paintMs=5)
    assert result["wait"] == 0
    assert result["up"] / result["model"] == pytest.approx(4 / 14)


CLOCK = """given
    .reduce((clock, [sent, server, now]) => (clock.pong(sent, 1000 * server, now), clock), new part.ServerClock())
    .toLocal(2_000_000)"""


def test_the_clock_goes_by_the_quickest_pong(still: Page) -> None:
    assert computed(still, "timings", CLOCK, []) is None
    exact, slow = [100, 1105, 110], [3000, 4190, 3200]  # the server is 1000 ms ahead; the slow one says 1090
    assert computed(still, "timings", CLOCK, [exact]) == 1000
    assert computed(still, "timings", CLOCK, [exact, slow]) == 1000
    assert computed(still, "timings", CLOCK, [slow, exact]) == 1000


def test_the_clock_forgets_after_a_minute(still: Page) -> None:
    exact, later = [100, 1105, 110], [70_000, 71_025, 70_050]  # by now it is 1000 ms ahead still, or so the newer says
    assert computed(still, "timings", CLOCK, [exact, [70_000, 70_525, 70_050]]) == 1500
    assert computed(still, "timings", CLOCK, [exact, later]) == 1000


def samples(*fps: float | None, step_ms: int = 500) -> list[dict[str, Any]]:
    return [
        {"at": i * step_ms, "fps": each, "ageMs": None, "delayMs": None, "skipped": i % 2} for i, each in enumerate(fps)
    ]


LINE = {"key": "fps", "unit": "", "least": 10, "ticks": "skipped"}


def test_the_graph_breaks_where_nothing_was_measured(still: Page) -> None:
    runs = computed(still, "charts", "part.pointsOf(...given)", [samples(30, 30, None, None, None, 15), LINE])
    assert [len(run) for run in runs] == [2, 1]
    assert runs[1][0] == pytest.approx([1, 15 / 33])
    assert computed(still, "charts", "part.pointsOf(...given)", [[], LINE]) == []


def test_the_graph_is_said_in_words(still: Page) -> None:
    words = "part.describe(...given)"
    assert computed(still, "charts", words, [samples(29.6, 12.2), LINE]) == "12 – 30 · 1 skipped"
    assert computed(still, "charts", words, [samples(None), LINE]) == "nothing yet"


def frame(seq: int, at: float, **times: float) -> dict[str, Any]:
    return {"track": "main", "seq": seq, "handedAt": at, "receivedAt": at + 5, **times}


RECENT = {
    "from": 0,
    "now": 1000,
    "inputs": [
        {"type": "set_x", "inputAt": 90, "repliedAt": 120, "n": 1, "shown": {"paintedAt": 150}},
        {"type": "set_x", "inputAt": 100, "repliedAt": 160, "n": 2, "shown": {"paintedAt": 150}},
        {"type": "set_y", "inputAt": 900},
        {"type": "set_z", "inputAt": 700, "repliedAt": 720},
    ],
    "frames": [
        frame(1, 100, decodedAt=110, paintedAt=116),
        frame(2, 133, decodedAt=140),
        frame(5, 140, decodedAt=147, paintedAt=150),
    ],
}


def test_lanes_tell_what_was_sent_painted_and_skipped(still: Page) -> None:
    lanes = {lane["name"]: lane for lane in computed(still, "trace", "part.lanesOf(given)", RECENT)}
    inputs = [(span["kind"], span["start"], span["end"], span["row"]) for span in lanes["Inputs"]["spans"]]
    assert ("sent", 90, 120, 0) in inputs
    assert ("applied", 120, 150, 0) in inputs
    assert ("sent", 100, 150, 1) in inputs  # beside the one before; seen before its answer came
    assert ("sent", 900, 1000, 0) in inputs
    assert lanes["Inputs"]["rows"] == 2
    assert "set_z: refused, or lost, 20.0 ms" in [span["text"] for span in lanes["Inputs"]["spans"]]
    assert [span["start"] for span in lanes["Painted"]["spans"]] == [116, 150]
    said = [span["text"] for span in lanes["Skipped"]["spans"]]
    assert said == ["main 2 left out here, for a newer one", "main: 2 not sent, before 5"] or said[::-1] == said
    assert len(lanes["On the way"]["spans"]) == 3


def test_the_saved_trace_is_what_perfetto_reads(still: Page) -> None:
    trace = computed(still, "trace", "part.toChromeTrace(part.lanesOf(given), 'aurora')", RECENT)
    events = trace["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert list(names.values())[:3] == ["Inputs 1", "Inputs 2", "On the way"]
    spans = [event for event in events if event["ph"] == "X"]
    assert min(event["ts"] for event in spans) == 0
    for tid in names:  # a viewer can't draw spans of a thread that overlap
        mine = sorted((event["ts"], event["ts"] + event["dur"]) for event in spans if event["tid"] == tid)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))


@pytest.fixture
def connected(page: Page, server: FakeServer) -> Page:
    page.goto(server.url)
    expect(page.locator("canvas[data-seq]")).to_be_visible()
    expect(chip(page)).to_be_visible()
    return page


def chip(page: Page) -> Locator:
    return page.locator(".metrics-chip")


def brighten(page: Page, server: FakeServer, value: str) -> None:
    page.locator('[data-event="set_brightness"] input[type="range"]').fill(value)
    server.wait_for("set_brightness", lambda data: data == {"brightness": float(value)})


def test_the_age_of_the_picture_is_a_figure(connected: Page) -> None:
    expect(connected.locator("[data-figure=age]")).to_have_text(re.compile(r"^\d+(\.\d)? ms$"))


def test_the_chip_shows_the_frame_rate_and_the_delay(connected: Page, server: FakeServer) -> None:
    expect(chip(connected)).to_have_text(re.compile(r"^\d+ fps · \d+ ms$"))
    server.script.sounds, server.script.tracks = {"music": 16000}, ()
    connected.reload()
    expect(chip(connected)).to_have_text("Metrics")


def test_the_chip_opens_the_stages_of_the_last_input(connected: Page, server: FakeServer) -> None:
    chip(connected).click()
    stages = connected.get_by_label("Stages of the delay")
    expect(stages).to_contain_text("Change something")
    server.broadcast("reactor.stats", **STATS)
    brighten(connected, server, "0.5")
    expect(stages.locator("h2")).to_have_text(re.compile(r"Last input to frame: \d+ ms"))
    total = float(re.findall(r"\d+", stages.locator("h2").inner_text())[0])
    each = [float(words.split()[0]) for words in stages.locator("li b").all_inner_texts()]
    assert len(each) == len(STAGES)
    assert sum(each) == pytest.approx(total, abs=1)


def test_the_graph_opens_and_is_open_the_next_time(connected: Page) -> None:
    expect(connected.locator(".graph")).to_have_count(0)
    chip(connected).click()
    chart = connected.get_by_role("img", name=re.compile(r"^fps: \d"))
    expect(chart).to_be_visible()
    expect(connected.locator("[data-line=fps] .graph-axis")).to_have_text("30 s agonow")
    for line, top in {"fps": r"^\d+ fps$", "ageMs": r"^\d+ ms$", "delayMs": r"^55 ms$"}.items():
        expect(connected.locator(f"[data-line={line}] .graph-plot span")).to_have_text(re.compile(top))
    assert chart.evaluate("({ width, clientWidth }) => width === Math.round(clientWidth * devicePixelRatio)")
    connected.reload()
    expect(chip(connected)).to_have_attribute("aria-expanded", "true")
    expect(chart).to_be_visible()
    connected.get_by_role("button", name="Close").click()
    expect(connected.locator("#metrics")).to_be_hidden()
    expect(chip(connected)).to_be_focused()
    connected.reload()
    expect(chip(connected)).to_have_attribute("aria-expanded", "false")


def test_the_stage_makes_room_for_the_metrics(connected: Page) -> None:
    chip(connected).click()
    expect(connected.locator(".opened > *")).to_have_count(2)
    for size in (ViewportSize(width=1280, height=800), ViewportSize(width=700, height=800)):
        connected.set_viewport_size(size)
        width = connected.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"]
        bottom, top = connected.evaluate(
            "[document.querySelector('.front').getBoundingClientRect().bottom, metrics.getBoundingClientRect().top]"
        )
        assert bottom <= top + 1 or size["width"] == 700


@pytest.mark.parametrize("width", [390, 860, 1241])
def test_no_figure_is_cut_off(page: Page, server: FakeServer, width: int) -> None:
    server.script.tracks, server.script.sounds = ("main_video", "depth"), {"main_audio": 48000}
    page.set_viewport_size({"width": width, "height": 620})
    page.goto(server.url)
    expect(page.locator("[data-figure=age]")).to_contain_text("ms")
    chip(page).click()
    server.broadcast("reactor.stats", rung=4, quality=60, scale=0.5, why="network")
    expect(page.locator("[data-figure=size]")).to_have_text("640×480 q60 network")
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"
    assert page.locator("#figures dd, #figures dt, #figures > div").evaluate_all(cut) == []


@as_modules_and_as_bundle
def test_t_opens_the_trace_and_escape_closes_it(connected: Page, server: FakeServer, tmp_path: Path) -> None:
    brighten(connected, server, "0.5")
    expect(connected.locator("[data-figure=delay]")).to_contain_text("ms")
    expect(connected.locator("[data-figure=age]")).to_contain_text("ms")
    connected.keyboard.press("t")
    dialog = connected.get_by_role("dialog", name="Trace of the last 10 s")
    expect(dialog).to_contain_text(re.compile(r"1 inputs? · [1-9]\d* painted"))
    expect(dialog.locator("canvas")).to_be_focused()
    with connected.expect_download() as download:
        dialog.get_by_role("button", name="Save").click()
    file = tmp_path / "trace.json"
    download.value.save_as(file)
    kinds = {event["name"] for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"}
    assert {"sent", "way", "decode", "painted"} <= kinds
    connected.keyboard.press("Escape")
    expect(connected.locator("dialog")).to_have_count(0)


def test_what_is_pointed_at_in_the_trace_is_said(connected: Page) -> None:
    expect(connected.locator("[data-figure=age]")).to_contain_text("ms")
    chip(connected).click()
    connected.get_by_role("button", name="Trace").click()
    canvas = connected.locator("dialog canvas")
    box = canvas.bounding_box()
    assert box is not None
    for _ in range(3):
        connected.keyboard.press("+")
    for _ in range(30):
        connected.keyboard.press("ArrowRight")
    said = connected.locator(".trace-said")
    help_ = said.inner_text()
    for x in range(int(box["width"]) - 2, 0, -4):  # frames come from the right
        connected.mouse.move(box["x"] + x, box["y"] + 90)
        if said.inner_text() != help_:
            break
    expect(said).to_have_text(re.compile(r"^main_video \d+ from the model to here, \d"))


def test_t_is_a_letter_where_somebody_types(connected: Page) -> None:
    prompt = connected.locator('[data-event="set_prompt"] textarea')
    prompt.press("t")
    expect(prompt).to_have_value(re.compile("t"))
    connected.keyboard.press("Control+t")
    expect(connected.locator("dialog")).to_have_count(0)


def test_t_is_the_model_s_where_it_has_bound_it(page: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"throw": sent_by(action("Throw it"), key("KeyT"))}
    page.goto(server.url)
    expect(page.locator(".legend")).to_be_attached()
    page.keyboard.press("t")
    server.wait_for("throw")
    expect(page.locator("dialog")).to_have_count(0)
    chip(page).click()
    page.get_by_role("button", name="Trace").click()
    expect(page.locator("dialog")).to_be_visible()


def test_keys_of_the_model_are_the_dialog_s_while_it_is_open(page: Page, server: FakeServer) -> None:
    server.script.events = SCHEMA | {"throw": sent_by(action("Throw it"), key("Minus"), key("KeyQ"))}
    page.goto(server.url)
    expect(page.locator(".legend")).to_be_attached()
    page.keyboard.press("t")
    expect(page.locator("dialog canvas")).to_be_focused()
    page.keyboard.press("-")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("q")
    server.wait_for("throw")
    assert len([message for message in server.received if message.type == "throw"]) == 1


def test_embedded_t_does_nothing(page: Page, server: FakeServer) -> None:
    page.goto(server.url + "?embed")
    expect(page.locator(".metrics-chip")).to_be_attached()
    expect(page.locator(".metrics-chip")).to_be_hidden()
    page.keyboard.press("t")
    page.evaluate("() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))")
    expect(page.locator("dialog")).to_have_count(0)


def test_who_watches_is_told_that_there_is_no_input_of_theirs(page: Page, server: FakeServer) -> None:
    page.goto(server.url + "?role=viewer")
    chip(page).click()
    expect(page.get_by_label("Stages of the delay")).to_contain_text("You are watching")
