from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.logs import prints
from reactor_runtime.logs.handler import configure_logs
from tests.printing import Streams, standard_streams


class Printing:
    """Streams whose lines are logged, and the log."""

    def __init__(self, streams: Streams) -> None:
        self.stdout, self.stderr = streams.stdout, streams.stderr
        self._streams = streams
        self._log = io.StringIO()
        self._handlers, self._level = list(logging.getLogger().handlers), logging.getLogger().level
        configure_logs("error", "json", stream=self._log)
        self.end = prints.log_prints({"stdout": streams.stdout, "stderr": streams.stderr})

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The logger and the message of each line of the log."""
        read: list[dict[str, Any]] = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return [(line["logger"], line["message"]) for line in read]

    def close(self) -> None:
        self.end()
        logging.getLogger().handlers[:] = self._handlers
        logging.getLogger().setLevel(self._level)


@pytest.fixture
def printing(tmp_path: Path) -> Iterator[Printing]:
    with standard_streams(tmp_path) as streams, contextlib.closing(Printing(streams)) as printing:
        yield printing


def test_each_line_printed_is_a_line_of_the_log_whatever_its_level(printing: Printing) -> None:
    printing.stdout.write("one\ntwo\r")
    printing.stderr.write("three\r\n\n")
    assert printing.lines == [("stdout", "one"), ("stdout", "two"), ("stderr", "three")]


def test_half_a_line_waits_for_its_other_half(printing: Printing) -> None:
    printing.stdout.write("ha")
    printing.stdout.flush()
    assert printing.lines == []
    printing.stdout.write("lf\n")
    assert printing.lines == [("stdout", "half")]


def test_half_a_line_is_logged_at_the_end_and_a_very_long_one_before(printing: Printing) -> None:
    printing.stdout.write("x" * (prints.LONGEST + 1))
    assert len(printing.lines) == 1
    printing.stdout.write("end")
    printing.end()
    assert printing.lines[1:] == [("stdout", "end")]


def test_a_handler_that_prints_what_is_logged_doesn_t_go_round_in_circles(printing: Printing) -> None:
    logging.getLogger().addHandler(logging.StreamHandler(printing.stderr))
    printing.stdout.write("hello\n")
    assert printing.lines == [("stdout", "hello")]


def test_a_stream_that_is_logged_is_no_terminal(printing: Printing) -> None:
    assert not printing.stdout.isatty()
    assert printing.stdout.encoding


def test_what_is_printed_after_the_end_goes_to_the_stream_again(tmp_path: Path) -> None:
    with standard_streams(tmp_path) as streams, contextlib.closing(Printing(streams)) as printing:
        printing.end()
        streams.stdout.write("late\n")
        assert streams.out == "late\n"
        assert printing.lines == []
