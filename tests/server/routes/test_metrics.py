"""`/metrics` of a real server, parsed by prometheus-client."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.docs.snippets import one
from tests.server.bare import bare
from tests.server.client import client, controlling
from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

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

        @event(name="refuse")
        def refuse(self):
            raise CommandError("out_of_paint", "buy some")
"""

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
Samples = dict[tuple[str, str], float]


def samples(server: RunningServer) -> Samples:
    """Return each sample by its name and its track, or the value of its last label."""
    status, text = server.get("/metrics")
    assert status == 200
    found = [sample for family in parse_text(text) for sample in family.samples]
    last = [next(reversed(sample.labels.values()), "") for sample in found]
    return {
        (sample.name, sample.labels.get("track", label)): sample.value
        for sample, label in zip(found, last, strict=True)
    }


async def test_a_session_is_counted_in_the_metrics(server: RunningServer) -> None:
    before = samples(server)
    async with controlling(server.url) as controller, client(server.url, role="viewer"):
        await controller.ask("set_level", {"level": 9})
        await controller.frame(applied=1)
        await controller.ask("refuse")
        await controller.ask("paint")
        await controller.socket.send("{")
        await controller.message("reactor.error", code="invalid_json")
        await controller.frame(applied=2)
        for _ in range(5):
            await controller.frame()
        during = samples(server)
        async with client(server.url) as waiting:
            await waiting.message("reactor.queue", position=1)
            assert samples(server)["reactor_controllers_waiting", ""] == 1
    server.wait_for_health("ready")
    after = samples(server)
    assert (during["reactor_sessions_active", ""], during["reactor_viewers", ""]) == (1, 1)
    assert (after["reactor_sessions_active", ""], after["reactor_viewers", ""]) == (0, 0)
    assert after["reactor_sessions_total", "left"] == before["reactor_sessions_total", "left"] + 1
    for code in ("out_of_paint", "unknown_event", "invalid_json"):
        assert after["reactor_errors_total", code] == 1
    for what in ("emitted", "encoded", "sent"):
        assert during[f"reactor_frames_{what}_total", "main_video"] >= 5
    assert during["reactor_sent_bytes_total", "video"] > 5 * 500
    assert during["reactor_messages_received_total", "event"] >= 3
    assert during["reactor_input_to_frame_seconds_count", ""] == before["reactor_input_to_frame_seconds_count", ""] + 2
    for what in ("step", "encode", "send", "input_to_frame"):
        assert during[f"reactor_{what}_seconds_count", ""] >= 2
        assert 0 < during[f"reactor_{what}_seconds_sum", ""] < TIMEOUT_S


async def test_a_lost_engine_is_counted_as_a_restart_and_an_ended_session(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        os.kill(server.engine, signal.SIGKILL)
        await controller.closed()
    server.wait_for_health("ready")
    after = samples(server)
    assert after["reactor_engine_restarts_total", "1"] == 1
    assert after["reactor_sessions_total", "model_died"] == 1
    assert after["reactor_engine_state", "ready"] == 1


def test_names_follow_the_conventions_of_prometheus(server: RunningServer) -> None:
    families = list(parse_text(server.get("/metrics")[1]))
    for family in families:
        assert family.name.startswith(("reactor_", "process_")), family.name
        assert family.documentation
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
        if family.type == "counter":
            assert {sample.name for sample in family.samples} <= {f"{family.name}_total"}
    (build,) = [sample for family in families for sample in family.samples if family.name == "reactor_build_info"]
    assert build.labels.keys() == {"version", "python", "model"}
    assert build.labels["model"] == "my-model"


def test_openmetrics_is_sent_on_request(server: RunningServer) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers=accept)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        families = list(parse_openmetrics(response.read().decode()))  # type: ignore[no-untyped-call]  # not annotated
    assert "reactor_step_seconds" in [family.name for family in families]


def test_starting_a_server_does_not_import_prometheus_client() -> None:
    program = "import sys, reactor_runtime.server.run; sys.exit('prometheus_client' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0


def test_the_documentation_names_exactly_the_metrics_that_exist(server: RunningServer) -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = {sample.name for family in parse_text(server.get("/metrics")[1]) for sample in family.samples}
    explained = set(re.findall(r"^\| `(reactor_\w+)`", page, re.MULTILINE))
    assert explained == {re.sub(r"_(bucket|sum|count)$", "", name) for name in names if name.startswith("reactor_")}
    assert set(re.findall(r"reactor_[a-z_]+", page)) <= names | explained


@pytest.mark.parametrize("title", ["prometheus.yml", "reactor.rules.yml", "workers.yml"])
def test_the_documented_configuration_is_valid(title: str) -> None:
    shown = yaml.safe_load(one("metrics.md", title).text)
    if title == "prometheus.yml":
        assert shown["rule_files"] == ["reactor.rules.yml"]
        assert shown["scrape_configs"][0]["static_configs"][0]["targets"]
    elif title == "workers.yml":
        assert [list(job)[1] for job in shown["scrape_configs"]] == ["static_configs", "http_sd_configs"]
    else:
        for rule in shown["groups"][0]["rules"]:
            assert {"alert", "expr", "annotations"} <= rule.keys()


async def test_refusals_are_counted_by_status(server: RunningServer) -> None:
    before = samples(server)
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    whole = f"{upgrade}Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    refused = {
        "GET /ws HTTP/1.1\r\nHost: evil.example\r\n" + whole: "421",
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n" + whole: "403",
        "GET /elsewhere HTTP/1.1\r\nHost: localhost\r\n" + whole: "403",
        "GET /ws?role=nobody HTTP/1.1\r\nHost: localhost\r\n" + whole: "400",
        "GET /ws?generation=fast HTTP/1.1\r\nHost: localhost\r\n" + whole: "400",
        "GET /ws HTTP/1.1\r\nHost: localhost\r\n" + upgrade: "400",
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" + whole: "400",
        "no request\r\n": "400",
        "GET /elsewhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n": "404",
    }
    for asked in refused:
        async with bare(server) as (reader, writer):
            writer.write(f"{asked}\r\n".encode())
            await asyncio.wait_for(reader.read(), TIMEOUT_S)
    after = samples(server)
    for status, count in Counter(refused.values()).items():
        key = "reactor_refusals_total", status
        assert after[key] == before.get(key, 0) + count, status
