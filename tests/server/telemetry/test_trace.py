from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.ipc.messages import Bundle, BundleFrame, TraceSpans
from reactor_runtime.server.encoding.encoded import Encoded
from reactor_runtime.server.telemetry.trace import Trace
from reactor_runtime.server.telemetry.trace_events import MOST_LANES, Stages, TraceNames
from tests.cli.command import reactor
from tests.fakes import frame_of
from tests.server.running import RunningServer, serving, started, write_project
from tests.server.session_client import several, visiting

MODEL = """
    class MyState(InputState):
        level: int = InputField(default=0, ge=0, le=255)


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = 30

        def inference(self):
            while True:
                yield MyOutput(main_video=gray(self.state.level))
"""
BLOCKS = """
    class MyModel(VideoModel):
        output: MyOutput

        def start_session(self):
            while not get_ctx().should_stop():
                get_ctx().emit_block(np.zeros((4, 32, 48, 3), np.uint8))
                time.sleep(0.02)
"""
WHOLE = Encoded((frame_of(0),), (), 1.2, 1.3, thread=7)
SMALLER = Encoded((frame_of(0, {3: b"", 5: b""}),), (), 1.25, 1.35, thread=8)
STAGES = Stages(arrived_at=1.1, jobs=(WHOLE,), ready_at=1.4, shown_at=1.6)

Event = dict[str, Any]


def bundle(number: int) -> Bundle:
    pictures = (BundleFrame("video", number, 0, 2, 2),)
    return Bundle("s", number, 1.5, 0.1, 1.0, 0, 0, 0.02, pictures, inputs=(0.9,))


def spans(events: list[Event]) -> Iterator[tuple[str, Event, float]]:
    """Return the durations in µs of all async spans; fail if a start has no end."""
    begun: dict[tuple[object, ...], Event] = {}
    for event in sorted(events, key=lambda event: float(event.get("ts", 0))):
        key = tuple(event.get(name) for name in ("cat", "id", "pid", "name"))
        if event["ph"] == "b":
            assert key not in begun, f"{key} begins twice"
            begun[key] = event
        elif event["ph"] == "e":
            began = begun.pop(key)
            yield event["name"], began, event["ts"] - began["ts"]
        elif event["ph"] == "X":
            yield event["name"], event, event["dur"]
    assert not begun, "what begins ends"


def lanes(events: list[Event]) -> dict[tuple[int, int], str]:
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}


def closed(path: Path) -> list[Event]:
    found: list[Event] = json.loads(path.read_bytes())
    return found


def cut_off(path: Path) -> list[Event]:
    found: list[Event] = json.loads(path.read_bytes() + b"]")
    return found


async def play(server: RunningServer) -> None:
    async with visiting(server.url) as controller, visiting(server.url, "viewer") as viewer:
        for level in (1, 2, 3):
            reply = await controller.send("set_level", level=level)
            await controller.frame(after=reply)
        await viewer.frame(after=reply)


async def test_a_trace_has_every_stage_of_frames_and_events(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--trace", str(tmp_path / "trace.json")) as server:
        processes = server.process.pid, server.engine
        await play(server)
    events = closed(tmp_path / "trace.json")
    found = list(spans(events))
    wanted = {
        "step",
        "convert",
        "hand over",
        "frame",
        "arrive",
        "queue",
        "encode",
        "back",
        "hold",
        "send",
        "send message",
    }
    wanted |= {"set_level waits", "handler set_level", "input to frame"}
    assert wanted <= {name for name, _, _ in found} <= wanted | {"late", "frame, dropped"}
    assert all(0 <= duration < 60e6 for _, _, duration in found)
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["server", "model"]
    assert {event["pid"] for event in events} == set(processes)
    clients = {name for name in lanes(events).values() if name.startswith("client c-")}
    assert len(clients) == 2
    assert {"event loop", "model"} <= set(lanes(events).values())
    assert all((event["pid"], event["tid"]) in lanes(events) for _, event, _ in found)
    seqs = [event["args"]["seq"] for name, event, _ in found if name == "send"]
    assert set(seqs) >= {0, 1}


async def test_the_spans_of_a_lane_do_not_overlap(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--trace", str(tmp_path / "trace.json")) as server:
        await play(server)
    whole = [event for event in closed(tmp_path / "trace.json") if event["ph"] == "X"]
    for lane in {(event["pid"], event["tid"]) for event in whole}:
        ends = 0.0
        for event in sorted(
            (each for each in whole if (each["pid"], each["tid"]) == lane), key=lambda each: each["ts"]
        ):
            assert event["ts"] >= ends - 0.2, f"{event} begins before the one before ends"  # times are rounded to 0.1
            ends = event["ts"] + event["dur"]


async def test_blocks_are_in_the_lane_of_their_thread(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, BLOCKS), "--trace", str(tmp_path / "trace.json")) as server:
        async with visiting(server.url) as session:
            await several(session.frames(), 12)
    events = closed(tmp_path / "trace.json")
    block = next(event for name, event, _ in spans(events) if name == "block")
    assert lanes(events)[block["pid"], block["tid"]] == "session"
    assert block["args"]["frames"] == 4


async def test_the_file_of_a_killed_server_lacks_only_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with started(write_project(tmp_path, MODEL), "--trace", str(path)) as server:
        server.wait_for("ready in")
        await play(server)
        server.until(lambda: b"input to frame" in path.read_bytes(), "events of the server's in the file")
        server.until(lambda: b"set_level waits" in path.read_bytes(), "events of the engine's in the file")
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    assert "set_level waits" in {event["name"] for event in cut_off(path)}


async def test_the_engine_after_a_killed_one_has_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with serving(write_project(tmp_path, MODEL), "--trace", str(path)) as server:
        for engines in (1, 2):
            await play(server)
            server.until(lambda: path.read_bytes().count(b"process_name") > engines, "the engine in the file")  # noqa: B023
            os.kill(server.engine, signal.SIGKILL)
            server.wait_for("(?s)ready in.*ready in")
            server.wait_for_health("ready")
    names = [event for event in closed(path) if event["name"] == "process_name"]
    assert [event["args"]["name"] for event in names] == ["server", "model", "model"]


def test_a_file_that_can_t_be_written_is_a_usage_error(tmp_path: Path) -> None:
    outcome = reactor("run", "--port", "0", "--trace", "no/such/trace.json", cwd=write_project(tmp_path, MODEL))
    assert outcome.code == 2
    assert "can't write the trace to no/such/trace.json: No such file or directory" in outcome.err


def test_a_full_file_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = Trace(path, most_bytes=2000)
    for number in range(5):
        trace.shown(bundle(number), STAGES)
    trace.close()
    before, after = closed(tmp_path / "trace.json.1"), closed(path)
    assert [event["id"] for event in before if event["ph"] == "b" and event["name"] == "frame"] == [
        f"s.{number}" for number in range(5)
    ]
    assert (os.getpid(), 7) in lanes(before)
    assert list(lanes(after).values()) == ["event loop"]


def test_a_new_file_names_its_processes_and_lanes_again() -> None:
    names = TraceNames()
    names.begin()
    number, named = names.lane(4711, "model", 4711)
    assert [event["name"] for event in named] == ["process_name", "thread_name"]
    assert names.lane(4711, "model", 4711) == (number, [])
    names.begin()
    assert names.lane(4711, "model", 4711) == (number, named)


def test_the_lanes_used_last_are_remembered() -> None:
    names = TraceNames()
    names.begin()
    first, other = (names.lane(names.server, f"client {name}")[0] for name in ("first", "other"))
    for number in range(MOST_LANES - 1):
        names.lane(names.server, f"client {number}")
        names.lane(names.server, "client first")
    assert names.lane(names.server, "client first") == (first, [])
    again, named = names.lane(names.server, "client other")
    assert again != other
    assert [event["args"]["name"] for event in named] == ["client other"]


def test_each_encoding_job_is_recorded_with_its_rungs(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json")
    trace.shown(bundle(0), Stages(arrived_at=1.1, jobs=(WHOLE, SMALLER), ready_at=1.4, shown_at=1.6))
    trace.close()
    encodes = [(event, took) for name, event, took in spans(closed(tmp_path / "trace.json")) if name == "encode"]
    jobs = [(each["tid"], each["args"]["rungs"]["video"]) for each, _ in encodes if each["ph"] == "X"]
    assert sorted(jobs) == [(7, [0]), (8, [3, 5])]
    assert sorted(round(took) for _, took in encodes) == [100_000, 100_000, 150_000]


def test_records_above_the_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json", most_waiting=2, write_s=60.0)
    for number in range(5):
        trace.dropped(bundle(number), 1.0, "flushed")
    trace.close()
    assert [event["name"] for event in closed(tmp_path / "trace.json") if event["ph"] == "i"] == ["3 records lost"]


def test_a_full_disk_ends_only_the_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        trace = Trace(tmp_path / "trace.json")
        for number in range(50):
            trace.shown(bundle(number), STAGES)
        trace.close()
        trace.shown(bundle(50), STAGES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "the trace ends here" in caplog.text


def test_spans_of_the_model_belong_to_its_process(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json")
    span = {"lane": "model", "name": "step", "began": 1.0, "ended": 1.25, "args": {}}
    trace.spans(TraceSpans("s", 4711, [span]))
    trace.close()
    (step,) = [event for event in closed(tmp_path / "trace.json") if event["ph"] == "X"]
    assert (step["pid"], step["ts"], step["dur"]) == (4711, 1e6, 250_000.0)


def test_the_process_of_one_of_several_engines_has_its_number(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json")
    span = {"lane": "model", "name": "step", "began": 1.0, "ended": 1.25, "args": {}}
    for engine, process in (("1", 4711), ("2", 4712), ("1", 4713)):
        trace.spans(TraceSpans("s", process, [span]), engine)
    trace.close()
    events = closed(tmp_path / "trace.json")
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert [names[process] for process in (4711, 4712, 4713)] == [f"model, engine {n}" for n in (1, 2, 1)]
