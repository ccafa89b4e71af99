from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.logs.handler import LogHandler, configure_logs
from reactor_runtime.logs.limits import MOST_OF_ADDRESS, LogLimits


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "uvicorn", "uvicorn.error", "uvicorn.access", "websockets")]
    loggers.append(logging.getLogger("asyncio"))
    before = [(logger, logger.level, list(logger.handlers), logger.propagate) for logger in loggers]
    for logger in loggers[1:]:  # as a server of another test in this process may have left them
        logger.handlers[:], logger.propagate = [], True
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate


@pytest.fixture
def logger() -> logging.Logger:
    return logging.getLogger("reactor_runtime.server.sessions.session")


def test_a_text_line_is_time_level_message(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", "text", stream=stream)
    logger.info("session started id=%s", "s-1")
    logger.warning("slow")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d info  session started id=s-1", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warn  slow", second)


def test_other_people_s_loggers_are_named() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logging.getLogger("diffusers.models").info("loaded")
    assert stream.getvalue().endswith("info  diffusers.models: loaded\n")


def test_all_lines_of_an_engine_say_which_it_is() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream, engine="2")
    logging.getLogger("mine").info("loaded", extra={"engine": "V8"})
    assert stream.getvalue().endswith("info  engine 2: mine: loaded\n")
    configure_logs("info", "json", stream=stream, engine="2")
    logging.getLogger("mine").info("loaded", extra={"engine": "V8"})
    assert json.loads(stream.getvalue().splitlines()[-1])["engine"] == "2"


def test_the_rank_that_wrote_a_line_is_a_field() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logging.getLogger("mine").info("loaded\nin two lines", extra={"rank": "1"})
    assert stream.getvalue().endswith("info  mine: loaded rank=1\n    in two lines\n")
    configure_logs("info", "json", stream=stream)
    logging.getLogger("mine").info("loaded", extra={"rank": "1"})
    assert json.loads(stream.getvalue().splitlines()[-1])["rank"] == "1"


def test_a_line_of_ours_may_say_which_engine_it_is_about(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logger.info("session started", extra={"engine": "2"})
    logging.getLogger("mine").info("loaded", extra={"engine": "V8"})
    ours, others = stream.getvalue().splitlines()
    assert ours.endswith("info  engine 2: session started")
    assert others.endswith("info  mine: loaded")


def test_lines_below_the_level_are_left_out(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("warning", stream=stream)
    logger.info("quiet")
    logger.error("loud")
    assert "quiet" not in stream.getvalue()
    assert "error loud" in stream.getvalue()


@pytest.mark.parametrize("name", ["uvicorn.error", "uvicorn.access", "websockets.server"])
def test_web_libraries_speak_from_warning_on(name: str) -> None:
    stream = io.StringIO()
    configure_logs("debug", stream=stream)
    logging.getLogger(name).info("connection open")
    logging.getLogger(name).warning("trouble")
    assert stream.getvalue().count("\n") == 1


def test_web_libraries_stay_below_a_higher_level() -> None:
    stream = io.StringIO()
    configure_logs("error", stream=stream)
    logging.getLogger("uvicorn.error").warning("trouble")
    assert stream.getvalue() == ""


def test_a_traceback_follows_its_line_indented(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("handler failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("error handler failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: no"


def test_a_client_s_text_forges_neither_lines_nor_terminal_sequences(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logger.info("unknown event name=%s", "a\n12:00:00 info  all is well\x1b[2J\r\x9b")
    assert stream.getvalue().count("\n") == 2
    assert "\n    12:00:00" in stream.getvalue()
    assert "\\x1b[2J\\x0d\\x9b" in stream.getvalue()


def test_json_lines_carry_what_was_given(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream=stream)
    logger.info("session %s\nstarted", "s-1", extra={"session": "s-1", "message_count": 3, "odd": object, "_own": 1})
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert line.pop("odd") == str(object)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "reactor_runtime.server.sessions.session",
        "message": "session s-1\nstarted",
        "session": "s-1",
        "message_count": 3,
    }


def test_a_json_line_holds_its_traceback(logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream=stream)
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("failed")
    (text,) = stream.getvalue().splitlines()
    assert json.loads(text)["traceback"].endswith("ValueError: no")


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
    ids=["terminal", "NO_COLOR", "empty NO_COLOR", "dumb", "file"],
)
def test_only_a_terminal_that_wants_it_gets_colour(
    logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    variables: dict[str, str],
    coloured: bool,
) -> None:
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    configure_logs("info", stream=stream)
    logger.info("hello")
    assert ("\x1b[32minfo \x1b[0m hello" in stream.getvalue()) is coloured


def test_configuring_again_replaces_and_keeps_other_handlers(logger: logging.Logger) -> None:
    first, second, foreign = io.StringIO(), io.StringIO(), logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    configure_logs("info", stream=first)
    configure_logs("info", stream=second)
    logger.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
    assert foreign in logging.getLogger().handlers


@pytest.mark.parametrize(("level", "format"), [("loud", "text"), ("info", "xml")])
def test_unknown_settings_are_refused(level: str, format: str) -> None:
    with pytest.raises(ValueError, match="unknown log"):
        configure_logs(level, format)  # type: ignore[arg-type]  # what a caller without types may pass


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Odd(),
        {(1, 2): 3},
        {"a": Odd()},
        circle(),
        deep(),
        10**5000,
        "\ud800",
        "\u2028\x00é😀",
    ],
    ids=["nan", "inf", "no repr", "tuple key", "no repr inside", "circle", "deep", "huge", "half a pair", "odd text"],
)
def test_a_json_line_is_valid_whatever_is_logged(logger: logging.Logger, value: object) -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream=stream)
    logger.info("%s", "fine", extra={"value": value})
    text = stream.getvalue()
    assert text.isascii()
    assert text.count("\n") == 1
    line = json.loads(text, parse_constant=pytest.fail)
    assert line["message"] == "fine"
    assert "\ud800" not in str(line["value"])


@pytest.mark.parametrize(("message", "arguments"), [("%d layers", ("six",)), (Odd(), ()), ("%s", (Odd(),))])
def test_a_json_line_with_a_message_that_can_t_be_made_says_so(message: object, arguments: tuple[object, ...]) -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream=stream)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is stream:  # pytest's own would raise
            handler.handle(logging.makeLogRecord({"name": "author", "msg": message, "args": arguments}))
    assert "can't be formatted" in json.loads(stream.getvalue())["message"]


def test_only_json_lines_have_the_ids_of_the_session(logger: logging.Logger) -> None:
    stream, ids = io.StringIO(), {"session": "s-1"}
    configure_logs("info", "json", stream=stream, ids=ids)
    logger.info("one", extra={"session": "forged", 5: "five"})  # type: ignore[dict-item]  # what an author may write
    ids.clear()
    logger.info("two")
    one, two = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (one["session"], one["5"]) == ("s-1", "five")
    assert "session" not in two


def test_lines_that_were_left_out_are_counted_at_the_latest_when_the_log_ends(logger: logging.Logger) -> None:
    stream, other = io.StringIO(), io.StringIO()
    configure_logs("info", stream=stream)
    for _ in range(MOST_OF_ADDRESS + 2):
        logger.info("client gone", extra={"address": "10.0.0.1"})
    assert stream.getvalue().count("client gone") == MOST_OF_ADDRESS
    configure_logs("info", stream=other)
    assert stream.getvalue().endswith("info  … 2 more in the last minute: lines about clients from=10.0.0.1\n")
    assert other.getvalue() == ""


def test_a_count_is_written_without_another_line() -> None:
    stream = io.StringIO()
    handler = LogHandler(stream, LogLimits(window_s=0.01))
    while "more in the last minute" not in stream.getvalue():
        fields = {"name": "reactor_runtime", "levelno": logging.INFO, "msg": "gone", "address": "10.0.0.1"}
        handler.handle(logging.makeLogRecord(fields))
        if (counting := handler.counting) is not None:
            counting.join()
    assert handler.counting is None
