from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pytest

from reactor_runtime.logs.limits import (
    MOST_OF_ADDRESS,
    MOST_OF_CLIENTS,
    MOST_OF_EXCEPTION,
    MOST_OF_PLACE,
    MOST_SOURCES,
    WINDOW_S,
    LogLimits,
)

OURS = "reactor_runtime.server.sessions.admission"


class Log:
    """What is written of the lines of a logger, at times that the test chooses."""

    def __init__(self) -> None:
        self.limits = LogLimits()
        self.records: list[logging.LogRecord] = []

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def line(
        self,
        text: str,
        now: float = 0.0,
        *,
        name: str = OURS,
        line: int = 1,
        address: str | None = None,
        level: int = logging.INFO,
    ) -> None:
        place = {"name": name, "levelno": level, "pathname": "admission.py", "lineno": line}
        record = logging.makeLogRecord({**place, "msg": text})
        if address is not None:
            record.address = address
        self.records += self.limits.admit(record, now)

    def failure(self, raises: Callable[[], object], now: float = 0.0, *, name: str = OURS) -> None:
        try:
            raises()
        except (ArithmeticError, TypeError, ValueError):
            fields = {"name": name, "msg": "the handler of event %s failed", "args": ("go",), "levelno": logging.ERROR}
            self.records += self.limits.admit(
                logging.makeLogRecord({**fields, "levelname": "ERROR", "exc_info": sys.exc_info()}), now
            )


def divide(by: int = 0) -> float:
    return 1 / by


class Unprintable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no")


def raise_unprintable() -> None:
    raise Unprintable


def test_a_repeated_exception_has_its_traceback_once_a_minute() -> None:
    log = Log()
    for now in (0.0, 0.1, WINDOW_S, WINDOW_S + 0.1):
        log.failure(divide, now)
    assert [record.exc_info is not None for record in log.records] == [True, False, True, False]
    assert log.lines[1] == "the handler of event go failed: ZeroDivisionError: division by zero"


def test_the_rest_of_a_minute_is_one_line_with_a_count_and_the_place() -> None:
    log = Log()
    for _ in range(MOST_OF_EXCEPTION + 4123):
        log.failure(divide, 1.0)
    assert len(log.lines) == MOST_OF_EXCEPTION
    assert log.limits.due_at == 1.0 + WINDOW_S
    assert log.limits.counts(60.9) == []
    (count,) = log.limits.counts(61.0)
    place = f"ZeroDivisionError at test_log_limits.py:{divide.__code__.co_firstlineno + 1}"
    assert count.getMessage() == f"… 4,123 more in the last minute: the handler of event go failed: {place}"
    assert (count.levelname, vars(count)["left_out"]) == ("ERROR", 4123)
    assert log.limits.counts(1e9) == []
    assert log.limits.due_at is None


def test_the_next_line_writes_a_count_that_is_due() -> None:
    log = Log()
    for _ in range(MOST_OF_EXCEPTION + 1):
        log.failure(divide)
    log.line("another", 61.0, line=2)
    assert log.lines[-2].startswith("… 1 more in the last minute")
    assert log.lines[-1] == "another"


def test_exceptions_of_other_kinds_and_places_have_their_own_tracebacks() -> None:
    log = Log()
    log.failure(divide)
    log.failure(lambda: 1 / 0)
    log.failure(lambda: divide("0"))  # type: ignore[arg-type]  # another exception at the same line
    log.failure(raise_unprintable)
    log.failure(raise_unprintable)
    assert [record.exc_info is not None for record in log.records] == [True, True, True, True, False]
    assert log.lines[-1] == "the handler of event go failed: Unprintable"


def test_an_exception_without_a_traceback_is_told_apart_by_its_type() -> None:
    log = Log()
    for kind in (ValueError, KeyError, ValueError):
        record = logging.makeLogRecord({"name": OURS, "msg": "failed", "exc_info": (kind, kind("no"), None)})
        log.records += log.limits.admit(record, 0.0)
    assert [record.exc_info is not None for record in log.records] == [True, True, False]


def test_the_record_itself_is_left_whole_for_other_handlers() -> None:
    log, error = Log(), ValueError("no")
    record = logging.makeLogRecord({"name": OURS, "msg": "%s", "args": ("a",), "exc_info": (ValueError, error, None)})
    for _ in range(2):
        log.limits.admit(record, 0.0)
    assert (record.exc_info, record.args) == ((ValueError, error, None), ("a",))


def test_lines_about_the_clients_of_an_address_share_a_limit() -> None:
    log = Log()
    for number in range(MOST_OF_ADDRESS + 50):
        log.line("client attached", line=number % 3, address="10.0.0.1")
    log.line("client attached", address="10.0.0.2")
    assert log.lines.count("client attached") == MOST_OF_ADDRESS + 1
    (count,) = log.limits.counts(WINDOW_S)
    assert count.getMessage() == "… 50 more in the last minute: lines about clients from=10.0.0.1"


def test_a_warning_about_an_address_has_one_line_a_minute_with_the_number_of_the_others() -> None:
    log = Log()
    for number in range(50):
        log.line("requests wait from=10.0.0.1", line=1, address="10.0.0.1", level=logging.WARNING)
        log.line(f"client {number}", address="10.0.0.1")
    for line, address in ((2, "10.0.0.1"), (1, "10.0.0.2")):
        log.line(f"another from={address}", line=line, address=address, level=logging.WARNING)
    warnings = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    assert warnings == ["requests wait from=10.0.0.1", "another from=10.0.0.1", "another from=10.0.0.2"]
    assert len(log.records) == 53
    (count,) = log.limits.counts(WINDOW_S)
    assert count.getMessage() == "… 49 more in the last minute: requests wait from=10.0.0.1"


def test_an_ipv6_network_is_one_address() -> None:
    log = Log()
    for host in range(MOST_OF_ADDRESS + 1):
        log.line("client attached", address=f"2001:db8::{host:x}")
    (count,) = log.limits.counts(WINDOW_S)
    assert count.getMessage().endswith("lines about clients from=2001:db8::/64")


def test_many_addresses_have_a_limit_together_and_no_line_is_lost_without_a_count() -> None:
    log = Log()
    sent = 0
    for address in range(3 * MOST_SOURCES):
        for _ in range(4):
            log.line("client attached", address=f"10.0.{address >> 8}.{address & 255}")
            sent += 1
    written = len(log.lines)
    assert written <= MOST_OF_CLIENTS
    assert written + sum(vars(count)["left_out"] for count in log.limits.counts(WINDOW_S)) == sent


def test_addresses_without_end_hide_no_line_about_the_server() -> None:
    log = Log()
    for address in range(3 * MOST_SOURCES):
        log.line("client attached", address=f"a{address}")
    log.line("the model's process was killed")
    assert log.lines[-1] == "the model's process was killed"


def test_a_place_in_the_code_has_a_limit_too() -> None:
    log = Log()
    for _ in range(MOST_OF_PLACE + 7):
        log.line("Invalid HTTP request received.", name="uvicorn.error")
    assert len(log.lines) == MOST_OF_PLACE
    (count,) = log.limits.counts(WINDOW_S)
    assert count.getMessage() == "… 7 more in the last minute: Invalid HTTP request received."


@pytest.mark.parametrize("name", ["author", "root", "stdout", "torch.hub"])
def test_lines_of_the_model_are_not_counted(name: str) -> None:
    log = Log()
    for _ in range(MOST_OF_PLACE + 7):
        log.line("step", name=name)
        log.failure(divide, name=name)
    assert len(log.lines) == 2 * (MOST_OF_PLACE + 7)
    assert log.limits.due_at is None


def test_each_minute_begins_anew() -> None:
    log = Log()
    for minute in range(3):
        for _ in range(MOST_OF_ADDRESS + 1):
            log.line("client attached", minute * WINDOW_S, address="10.0.0.1")
    assert log.lines.count("client attached") == 3 * MOST_OF_ADDRESS
    assert sum(line.startswith("… 1 more") for line in log.lines) == 2
