"""`get_logger`: fields as keywords, in the formats of our logs and in a log of others."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from reactor_runtime import get_logger
from reactor_runtime.logs.handler import configure_logs


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


def written(format: str, message: str, level: str = "info", /, **fields: object) -> str:
    stream = io.StringIO()
    configure_logs("debug", "json" if format == "json" else "text", stream=stream)
    getattr(get_logger("pipeline"), level)(message, **fields)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("cat", "cat"),
        ("a cat", '"a cat"'),
        ("", '""'),
        ('say "hi"', r'"say \"hi\""'),
        ("a=b", '"a=b"'),
        ([1, 2], '"[1, 2]"'),
        (False, "False"),
        pytest.param(Unprintable(), "<Unprintable>", id="unprintable"),
    ],
    ids=repr,
)
def test_a_field_follows_the_message_as_text(value: object, text: str) -> None:
    assert written("text", "encoded", prompt=value)[9:] == f"info  pipeline: encoded prompt={text}\n"


@pytest.mark.parametrize("name", ["name", "message", "self", "level", "args", "msg", "stacklevel", "extra"])
def test_a_field_may_have_any_name(name: str) -> None:
    assert written("text", "step", **{name: 1}).endswith(f"pipeline: step {name}=1\n")
    line = json.loads(written("json", "step", **{name: 1}))
    assert (line["message"], line["logger"]) == ("step", "pipeline")
    assert line[f"{name}_" if name in ("message", "level") else name] == 1


def test_fields_that_are_none_are_left_out() -> None:
    assert written("text", "step", a=None, b=0).endswith("pipeline: step b=0\n")
    assert "a" not in json.loads(written("json", "step", a=None))


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_the_level_is_that_of_the_call(level: str) -> None:
    assert json.loads(written("json", "step", level))["level"] == level


def test_an_exception_has_its_traceback() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream=stream)
    try:
        raise ValueError("out of memory")
    except ValueError:
        get_logger("pipeline").exception("the step failed", n=3)
    line = json.loads(stream.getvalue())
    assert (line["message"], line["level"], line["n"]) == ("the step failed", "error", 3)
    assert "ValueError: out of memory" in line["traceback"]


@pytest.mark.parametrize(
    ("message", "arguments", "text"),
    [
        ("step %d of %s", (3, "4"), "step 3 of 4"),
        ("step %d", ("three",), '"step %d" three'),
        ("step", (3,), "step 3"),
        (Unprintable(), (), "<Unprintable>"),
        (ValueError("no"), (), "no"),
    ],
)
def test_arguments_are_inserted_as_logging_does(message: object, arguments: tuple[object, ...], text: str) -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    get_logger("pipeline").info(message, *arguments, n=1)
    assert stream.getvalue().endswith(f"info  pipeline: {text} n=1\n")


def test_a_percent_sign_is_text() -> None:
    assert written("text", "100 % done", share="50 %s").endswith('100 % done share="50 %s"\n')


def test_a_log_of_another_program_has_the_fields_and_the_author_s_line(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("pipeline").warning("slow", ms=12)
    (record,) = caplog.records
    assert (record.getMessage(), record.filename) == ("slow ms=12", "test_log.py")
