from __future__ import annotations

import logging
import sys

import pytest

from reactor_runtime.engine.progress import LONGEST, watch_output


def test_the_last_line_printed_or_logged_is_told_and_still_printed(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with watch_output(told.append):
        print("one\ntwo")  # noqa: T201  (what an author's load() does)
        print("three", file=sys.stderr)  # noqa: T201
        logging.getLogger("theirs").warning("four %d", 4)
    assert [line for line in told if line] == ["two", "three", "four 4"]
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    assert captured.err == "three\n"


def test_a_progress_bar_s_newest_state_is_told_without_colours() -> None:
    told: list[str] = []
    with watch_output(told.append):
        sys.stderr.write("\r 10%|\x1b[32m#\x1b[0m   |\r 20%|##  |")
    assert told == ["20%|##  |"]


def test_the_same_line_is_told_once_and_a_long_one_is_cut() -> None:
    told: list[str] = []
    with watch_output(told.append):
        for _ in range(3):
            print("x" * 1000)  # noqa: T201
    assert told == ["x" * LONGEST]


def test_streams_are_given_back_whatever_load_does() -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(KeyError), watch_output(lambda line: None):  # noqa: ARG005
        raise KeyError("weights")
    assert (sys.stdout, sys.stderr) == before


def test_a_stream_that_load_kept_tells_nothing_afterwards() -> None:
    told: list[str] = []
    with watch_output(told.append):
        kept = sys.stderr
    kept.write("a request came\n")
    assert told == []


def test_what_asks_about_the_stream_gets_its_answer() -> None:
    with watch_output(lambda line: None):  # noqa: ARG005
        assert sys.stdout.isatty() in (True, False)
        assert sys.stdout.encoding


def test_a_log_line_with_the_wrong_arguments_is_no_reason_for_load_to_fail() -> None:
    told: list[str] = []
    before = list(logging.getLogger().handlers)
    with watch_output(told.append):
        (watching,) = [each for each in logging.getLogger().handlers if each not in before]
        watching.handle(logging.makeLogRecord({"msg": "%d layers", "args": ("six",)}))
    assert told == ["%d layers"]
