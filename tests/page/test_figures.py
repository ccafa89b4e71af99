"""The age of the picture, the stages of the delay, the graph and the trace: what is computed, and what people see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import as_modules_and_as_bundle
from .fake_server import FakeServer
from .test_phone import resize

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


def spans_of(trace: dict[str, Any], cat: str) -> dict[str, list[tuple[str, float, float]]]:
    """Return the spans of a category by their ids, each span before those inside it: name, begin and end in µs."""
    spans: dict[str, list[tuple[str, float, float]]] = {}
    opened: dict[str, list[int]] = {}
    for event in (event for event in trace["traceEvents"] if event.get("cat") == cat):
        id, name, at = str(event["id"]), event["name"], event["ts"]
        of_id = spans.setdefault(id, [])
        if event["ph"] == "b":
            opened.setdefault(id, []).append(len(of_id))
            of_id.append((name, at, at))
        else:
            index = opened[id].pop()
            assert of_id[index][0] == name
            of_id[index] = (name, of_id[index][1], at)
    assert not any(opened.values())
    return spans


def test_the_saved_trace_has_inputs_frames_and_skips(still: Page) -> None:
    origin, trace = computed(still, "trace", "[performance.timeOrigin, part.toChromeTrace(given, 'aurora')]", RECENT)

    def spans(cat: str) -> dict[str, list[tuple[str, float, float]]]:
        return {
            id: [(name, *(round(us / 1000 - origin) for us in times)) for name, *times in of_id]
            for id, of_id in spans_of(trace, cat).items()
        }

    assert spans("input") == {
        "0": [("set_x", 90, 150), ("sent", 90, 120), ("applied", 120, 150)],
        # Seen before its answer came.
        "1": [("set_x", 100, 150), ("sent", 100, 150), ("applied", 150, 150)],
        "2": [("set_y", 900, 1000), ("sent", 900, 1000)],
        "3": [("set_z", 700, 720), ("refused, or lost", 700, 720)],
    }
    frames = spans("frame")
    assert frames["main 1"] == [
        ("main", 100, 116), ("on the way", 100, 105), ("decode", 105, 110), ("held for the screen", 110, 116),
    ]  # fmt: skip
    assert frames["main 2"] == [("main", 133, 140), ("on the way", 133, 138), ("decode", 138, 140)]
    skips = {event["name"] for event in trace["traceEvents"] if event["ph"] == "i"}
    assert skips == {"main 2 left out for a newer one", "main: 2 not sent, before 5"}


def test_the_trace_begins_ten_seconds_before_it_is_saved(still: Page) -> None:
    recent = {**RECENT, "from": 108}
    origin, trace = computed(still, "trace", "[performance.timeOrigin, part.toChromeTrace(given, 'aurora')]", recent)
    assert min(event["ts"] for event in trace["traceEvents"] if "ts" in event) == pytest.approx(1000 * (origin + 108))
    assert [name for name, *_ in spans_of(trace, "frame")["main 1"]] == ["main", "decode", "held for the screen"]


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
    expect(chip(connected)).to_have_text(re.compile(r"^\d+\sfps\s· \d+\sms$"))
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
    # At one moment: a pong may change the shares.
    headline, *words = stages.evaluate("part => [...part.querySelectorAll('h2, li b')].map((each) => each.innerText)")
    total = float(re.findall(r"\d+", headline)[0])
    each = [float(share.split()[0]) for share in words]
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
    for width in (1280, 700):
        resize(connected, width, 800)
        assert connected.evaluate("document.documentElement.scrollWidth") <= width
        bottom, top = connected.evaluate(
            "[document.querySelector('.front').getBoundingClientRect().bottom, metrics.getBoundingClientRect().top]"
        )
        assert bottom <= top + 1 or width == 700


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
def test_the_trace_is_saved(connected: Page, server: FakeServer, tmp_path: Path) -> None:
    brighten(connected, server, "0.5")
    expect(connected.locator("[data-figure=delay]")).to_contain_text("ms")
    expect(connected.locator("[data-figure=age]")).to_contain_text("ms")
    chip(connected).click()
    # Once more: the trace has the last ten seconds.
    brighten(connected, server, "0.6")
    with connected.expect_download() as download:
        connected.get_by_role("button", name="Save trace").click()
    file = tmp_path / "trace.json"
    download.value.save_as(file)
    trace = json.loads(file.read_text())
    spans = [span for cat in ("input", "frame") for of_id in spans_of(trace, cat).values() for span in of_id]
    assert {"set_brightness", "sent", "main_video", "on the way", "decode"} <= {name for name, *_ in spans}
    assert all(begin <= end for _, begin, end in spans)


def test_who_watches_is_told_that_there_is_no_input_of_theirs(page: Page, server: FakeServer) -> None:
    page.goto(server.url + "?role=viewer")
    chip(page).click()
    expect(page.get_by_label("Stages of the delay")).to_contain_text("You are watching")
