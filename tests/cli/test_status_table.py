from __future__ import annotations

from typing import Any

from rich.console import Console

from reactor_cli.status_table import status_table

ENGINE: dict[str, Any] = {
    "number": 1,
    "status": "busy",
    "session": "s-1",
    "worker": "",
    "node": "",
    "url": "",
    "gpu": "",
    "clients": 2,
    "viewers": 1,
    "fps": 29.97,
    "age_ms": 6.5,
    "late_ms": 0.25,
    "memory_bytes": 5_100_000_000,
    "uptime_s": 3725.9,
}
IDLE = {
    **ENGINE,
    "number": 2,
    "status": "ready",
    "session": None,
    "clients": 0,
    "fps": None,
    "age_ms": None,
    "late_ms": None,
}
HEALTH = {"status": "busy", "model": "m", "session": "s-1", "viewers": 1, "waiting": 3, "uptime_s": 90061.0}


def lines(*engines: dict[str, Any]) -> list[str]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_table({**HEALTH, "engines": engines}))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_row_has_the_session_of_a_slot_and_its_figures() -> None:
    summary, header, first, second = lines(ENGINE, IDLE)
    assert summary == "busy  m  1 of 2 sessions · 3 waiting · 5 clients · up 1 day, 1:01:01"
    assert header.split() == ["id", "status", "session", "clients", "fps", "age", "late", "memory", "up"]
    assert first.split() == ["1", "busy", "s-1", "2", "30.0", "6.5", "ms", "0.2", "ms", "5.1", "GB", "1:02:05"]
    assert second.split() == ["2", "ready", "0", "5.1", "GB", "1:02:05"]


def test_workers_have_their_node_and_a_gpu_of_several_workers_counts_once() -> None:
    worker = {**ENGINE, "worker": "w-1", "node": "n-1", "url": "http://n-1:9", "gpu": "0,1"}
    elsewhere = {**IDLE, "worker": "w-2", "node": "n-2", "gpu": "0"}
    summary, header, first, _, last = lines(worker, {**worker, "worker": "w-3", "gpu": "1"}, elsewhere)
    assert "2 of 3 sessions · 3 waiting · 7 clients · 3 GPUs" in summary
    assert header.split()[:5] == ["id", "node", "url", "gpu", "status"]
    assert first.split()[:5] == ["w-1", "n-1", "http://n-1:9", "0,1", "busy"]
    assert last.split()[:4] == ["w-2", "n-2", "0", "ready"]


def test_control_characters_of_a_server_are_escaped() -> None:
    assert "\\x1b[2J" in lines({**ENGINE, "worker": "\x1b[2J"})[2]


def test_a_server_without_slots_has_no_table() -> None:
    assert lines() == ["busy  m  0 of 0 sessions · 3 waiting · 3 clients · up 1 day, 1:01:01"]
