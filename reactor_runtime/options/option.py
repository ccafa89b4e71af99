"""How an option is declared, whoever takes it: the command line, or a program as a keyword; and its values.

The parsers take text, and values of Python that were given as keywords; they raise ValueError with a message that says
what a value should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}
LONGEST_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Option:
    """Declare an option: one line of `help`, its flag if that is not the field's name, and its values.

    `default_text` stands in the help for a default that the value does not show; the environment `variable` is one that
    gives the value on the command line.
    """

    help: str
    flag: str = ""
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    default_text: str = ""
    variable: str = ""

    def keyword(self, field: str) -> str:
        """Return the option's name in Python: ssl_certfile for --ssl-certfile."""
        return self.flag.removeprefix("--").replace("-", "_") or field


def whole_number(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """Return the parser of an option whose value is a whole number."""
    range_ = f"from {least} on" if most is None else f"from {least} to {most}"

    def parse(given: str | int) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise ValueError(f'"{given}" is not a whole number {range_}')
        return number

    return parse


def duration(given: str | float) -> float:
    """Return the seconds of a time such as 90, 90s, 5m or 1h; 0 means no limit."""
    number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([smh]?)", str(given).strip().lower())
    seconds = float(number[1]) * UNITS_S[number[2]] if number else -1.0
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f'"{given}" is not a time up to 30 days, such as 90, 90s, 5m or 1h')
    return seconds


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of an option whose value is one of some names, in upper or lower case."""

    def parse(given: str) -> str:
        if given.lower() not in names:
            raise ValueError(f'"{given}" is not one of {", ".join(names)}')
        return given.lower()

    return parse
