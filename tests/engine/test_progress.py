from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.engine.progress import LONGEST, Progress, watch_output
from tests.printing import Streams, standard_streams


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with standard_streams(tmp_path) as streams:
        yield streams


def test_the_last_printed_or_logged_line_is_reported_and_still_written(streams: Streams) -> None:
    told: list[str] = []
    with watch_output(told.append, (streams.stdout, streams.stderr)):
        streams.stdout.write("one\ntwo")
        streams.stdout.write("\n")
        streams.stderr.write("three\n")
        logging.getLogger("theirs").warning("four %d", 4)
    assert [line for line in told if line] == ["two", "three", "four 4"]
    assert streams.out == "one\ntwo\n"
    assert streams.err == "three\n"


def test_a_progress_bar_s_newest_state_is_reported_without_colours(streams: Streams) -> None:
    told: list[str] = []
    with watch_output(told.append, (streams.stderr,)):
        streams.stderr.write("\r 10%|\x1b[32m#\x1b[0m   |\r 20%|##  |")
    assert told == ["20%|##  |"]


def test_equal_lines_are_reported_once_and_a_long_one_is_cut(streams: Streams) -> None:
    told: list[str] = []
    with watch_output(told.append, (streams.stdout,)):
        for _ in range(3):
            streams.stdout.write("x" * 1000 + "\n")
    assert told == ["x" * LONGEST]


def test_nothing_is_reported_after_load(streams: Streams) -> None:
    told: list[str] = []
    with contextlib.suppress(KeyError), watch_output(told.append, (streams.stderr,)):
        late = streams.stderr.observer
        raise KeyError("weights")
    streams.stderr.write("a request came\n")
    assert late is not None
    late("a thread was about to print this when load() returned\n")
    assert told == []


def test_a_log_line_with_the_wrong_arguments_is_no_reason_for_load_to_fail() -> None:
    told: list[str] = []
    before = list(logging.getLogger().handlers)
    with watch_output(told.append, ()):
        (watching,) = [each for each in logging.getLogger().handlers if each not in before]
        watching.handle(logging.makeLogRecord({"msg": "%d layers", "args": ("six",)}))
    assert told == ["%d layers"]


BAR = "Loading checkpoint shards:  50%|#####     | 2/4 [00:01<00:01]"
HALF = "Loading checkpoint shards 2/4 [00:01<00:01]"


def test_a_progress_bar_has_a_fraction_and_the_next_line_has_none() -> None:
    told: list[tuple[str, float | None]] = []
    progress = Progress(lambda *change: told.append(change))
    for line in (BAR, BAR, "compiling", " 100%|####|"):
        progress.add_line(line)
    assert told == [(HALF, 0.5), ("compiling", None), ("", 1.0)]


def test_a_reported_message_stays_until_the_next_report() -> None:
    told: list[tuple[str, float | None]] = []
    progress = Progress(lambda *change: told.append(change))
    progress.report(0.4004, "shard 2 of 4")
    progress.report(0.4001, "shard 2 of 4")
    progress.add_line(BAR)
    progress.report(0.6, "")
    progress.report(None, "warming up")
    progress.add_line("compiling")
    assert told == [("shard 2 of 4", 0.4), ("shard 2 of 4", 0.6), ("warming up", None)]


def test_lines_and_bars_follow_a_report_without_a_message() -> None:
    told: list[tuple[str, float | None]] = []
    progress = Progress(lambda *change: told.append(change))
    progress.add_line("reading")
    progress.report(0.4, "")
    progress.add_line(BAR)
    assert told == [("reading", None), ("reading", 0.4), (HALF, 0.4)]
