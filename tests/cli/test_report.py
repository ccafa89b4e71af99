from __future__ import annotations

import json

import pytest

from reactor_cli.report import ConnectReport, format_metrics, format_values, legible


def test_text_of_a_server_cannot_control_the_terminal() -> None:
    assert legible("a\x1b[2J\x9bb\nü\u202e") == "a\\x1b[2J\\x9bb\\nü\\u202e"
    assert format_values({"x": "\x1b]0;\x07", "y": "\x9b1A"}) == 'x="\\u001b]0;\\u0007" y="\\x9b1A"'


def test_spaces_and_joined_characters_of_other_scripts_are_kept() -> None:
    assert legible("日本　語 👩\u200d💻") == "日本　語 👩\u200d💻"


def test_results_go_to_stdout_and_the_rest_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    report = ConnectReport(as_json=False, screen=None)
    report.print_fact("message", "progress  step=1", type="progress")
    report.print_fact("status", "connected", phase="connected")
    assert capsys.readouterr() == ("progress  step=1\n", "connected\n")


def test_json_output_is_an_object_for_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    ConnectReport(as_json=True, screen=None).print_fact("status", "connected", phase="connected")
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"kind": "status", "phase": "connected"}, "")


def test_unknown_metrics_are_left_out() -> None:
    metrics = {"fps": {"main": 29.7}, "delay_ms": 4.21, "input_delay_ms": None, "rtt_ms": 0.5, "skipped": 3}
    assert format_metrics(metrics) == "30 fps main · delay 4.2 ms · round trip 0.5 ms · skipped 3"
    nothing = dict.fromkeys(metrics) | {"fps": {}}
    assert format_metrics(nothing) == "no frame yet"
