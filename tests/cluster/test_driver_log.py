from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Literal

import pytest

from reactor_runtime.cluster.placement.driver_log import DriverLog
from reactor_runtime.logs.handler import configure_logs
from tests.timeouts import TIMEOUT_S

PREFIX = "(w-1 on gpu-1 pid=28641, ip=10.0.0.2) "


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    configure_logs("info", stream=io.StringIO())


def logged(*lines: str, format: Literal["text", "json"] = "text") -> list[str]:
    stream = io.StringIO()
    configure_logs("info", format, stream=stream)
    output = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    DriverLog(output, as_json=format == "json").join(TIMEOUT_S)
    assert output.closed
    return stream.getvalue().splitlines()


def test_a_line_of_a_worker_begins_with_its_name_and_node() -> None:
    assert logged(f"{PREFIX}15:13:01 info  ready", "(w-2 on b pid=1)   two") == [
        "w-1 on gpu-1: 15:13:01 info  ready",
        "w-2 on b:   two",
    ]


def test_in_json_the_name_and_node_are_fields() -> None:
    line, printed = logged(f'{PREFIX}{{"time": "1", "message": "ready"}}', f"{PREFIX}a crash", format="json")
    assert json.loads(line) == {"time": "1", "message": "ready", "worker": "w-1", "node": "gpu-1"}
    assert {"message": "a crash", "worker": "w-1", "node": "gpu-1"}.items() <= json.loads(printed).items()


def test_reports_of_ray_are_one_line_each_and_its_repeated_warnings_none() -> None:
    report = ["(raylet) Raylet is terminated.", "    - objects in use: 0", ""]
    warning = "[2026-11-23 15:49:57,017 W 19327 19327] gcs_client.cc:210: Failed"
    scaled = "(autoscaler +3s) Adding 1 node(s)."
    *texts, last = logged(*report, scaled, warning, *report, f"{PREFIX}on")
    assert [text[15:] for text in texts] == [f"ray: {report[0]}", f"ray: {scaled}", f"ray: {report[0]}"]
    assert last == "w-1 on gpu-1: on"
