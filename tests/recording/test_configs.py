from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from reactor_runtime.recording.configs import (
    MOST_BYTES,
    MOST_LEVELS,
    MOST_VALUES,
    ReplayConfig,
    config_differences,
    parse_config,
)


@pytest.mark.parametrize(
    ("recorded", "current", "lines"),
    [
        ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}, []),
        ({"a": math.nan}, {"a": math.nan}, []),
        ({"a": 1}, {"a": True}, ["a was 1, is True"]),
        ({"a": 1}, {}, ["a was 1, is missing"]),
        ({}, {"a": None}, ["a was missing, is None"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3, "d": 4}}, ["a.c was 2, is 3", "a.d was missing, is 4"]),
        ({"a": {"b": 1}}, {"a": "text"}, ["a was {'b': 1}, is 'text'"]),
        ({"a": "x" * 200}, {"a": "\x1b[2J"}, [f"a was '{'x' * 79}…, is '\\x1b[2J'"]),
    ],
    ids=["equal", "nan", "kind", "gone", "new", "nested", "mapping", "long"],
)
def test_each_value_that_differs_is_a_line(recorded: dict[str, Any], current: dict[str, Any], lines: list[str]) -> None:
    assert config_differences(recorded, current) == lines


def nested(levels: int) -> str:
    return "a: " + "[" * levels + "]" * levels


def repeated(values: int) -> str:
    """Return a short text of a config with so many values, most of them by aliases of a list with 100."""
    lists, more = divmod(values - 102, 100)
    return f"a: &a [{', '.join(['0'] * 99)}]\nb: [{', '.join(['*a'] * lists + ['0'] * more)}]"


@pytest.mark.parametrize(
    "text",
    ["", "{}", nested(MOST_LEVELS), repeated(MOST_VALUES), "a: " + "x" * (MOST_BYTES - 3)],
    ids=lambda text: text[:9],
)
def test_the_largest_config_is_read(text: str) -> None:
    assert parse_config(text) == (yaml.safe_load(text) or {})


@pytest.mark.parametrize(
    "text",
    [nested(MOST_LEVELS + 1), repeated(MOST_VALUES + 1), "a: " + "x" * (MOST_BYTES - 2), "text", "a: !!timestamp x"],
    ids=lambda text: text[:16],
)
def test_a_larger_one_or_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"the config|AttributeError"):
        parse_config(text)


def test_a_replay_uses_the_recorded_values_only_under_its_own() -> None:
    recorded = "a: 1\nb: {c: 2, d: 3}\n"
    assert ReplayConfig({"b": {"c": 5}}, over_recorded=True).of(recorded) == {"a": 1, "b": {"c": 5, "d": 3}}
    assert ReplayConfig({"b": {"c": 5}}).of(recorded) == {"b": {"c": 5}}
