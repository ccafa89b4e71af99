from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

from reactor_runtime import logs, prints


@contextlib.contextmanager
def printing() -> Iterator[io.StringIO]:
    """Log what is printed, for the duration of the block; no fixture, since pytest changes the streams in between."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure("error", "json", stream=stream)
    end = prints.log_prints()
    try:
        yield stream
    finally:
        end()
        root.handlers[:] = handlers
        root.setLevel(level)


def lines(stream: io.StringIO) -> list[tuple[str, str]]:
    read: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [(line["logger"], line["message"]) for line in read]


def test_each_line_printed_is_a_line_of_the_log_whatever_its_level() -> None:
    with printing() as stream:
        sys.stdout.write("one\ntwo\r")
        sys.stderr.write("three\r\n\n")
        assert lines(stream) == [("stdout", "one"), ("stdout", "two"), ("stderr", "three")]


def test_half_a_line_waits_for_its_other_half() -> None:
    with printing() as stream:
        sys.stdout.write("ha")
        sys.stdout.flush()
        assert lines(stream) == []
        sys.stdout.write("lf\n")
        assert lines(stream) == [("stdout", "half")]


def test_half_a_line_is_logged_at_the_end_and_a_very_long_one_before() -> None:
    before = sys.stdout
    with printing() as stream:
        sys.stdout.write("x" * (prints.LONGEST + 1))
        assert len(lines(stream)) == 1
        sys.stdout.write("end")
    assert lines(stream)[1:] == [("stdout", "end")]
    assert sys.stdout is before


def test_a_handler_that_prints_what_is_logged_doesn_t_go_round_in_circles() -> None:
    with printing() as stream:
        logging.getLogger().addHandler(logging.StreamHandler(sys.stderr))
        sys.stdout.write("hello\n")
        assert lines(stream) == [("stdout", "hello")]


def test_what_asks_about_the_stream_gets_its_answer() -> None:
    with printing() as stream:
        assert not sys.stdout.isatty()
        assert sys.stdout.encoding
    assert stream.getvalue() == ""
