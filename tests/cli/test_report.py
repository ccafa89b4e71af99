from __future__ import annotations

import json

import pytest

from reactor_cli.report import ConnectReport, figures_line, legible, shown


def test_nothing_a_server_says_moves_the_cursor() -> None:
    assert legible("a\x1b[2J\x9bb\nü") == "a�[2J�b�ü"
    assert shown({"x": "\x1b]0;\x07", "y": "\x9b1A"}) == 'x="\\u001b]0;\\u0007" y="�1A"'


def test_results_and_the_rest_go_different_ways(capsys: pytest.CaptureFixture[str]) -> None:
    report = ConnectReport(as_json=False, screen=None)
    report.say("message", "progress  step=1", type="progress")
    report.say("status", "connected", phase="connected")
    assert capsys.readouterr() == ("progress  step=1\n", "connected\n")


def test_for_programs_everything_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    ConnectReport(as_json=True, screen=None).say("status", "connected", phase="connected")
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"kind": "status", "phase": "connected"}, "")


def test_figures_that_are_not_known_are_left_out() -> None:
    figures = {"fps": {"main": 29.7}, "delay_ms": 4.21, "input_delay_ms": None, "rtt_ms": 0.5, "skipped": 3}
    assert figures_line(figures) == "30 fps main · delay 4.2 ms · round trip 0.5 ms · skipped 3"
    nothing = dict.fromkeys(figures) | {"fps": {}}
    assert figures_line(nothing) == "no picture yet"
