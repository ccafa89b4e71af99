"""Authors' values as JSON, and the place of those that can't be."""

import enum
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.authoring.values.jsonable import to_json
from tests.torched import torch


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: float
    color: Color = Color.RED


GOOD: list[Any] = [
    pytest.param(None, None, id="None"),
    pytest.param(True, True, id="bool"),
    pytest.param(3, 3, id="int"),
    pytest.param(1.5, 1.5, id="float"),
    pytest.param("é😀", "é😀", id="str"),
    pytest.param(Color.RED, "red", id="Enum"),
    pytest.param(Level.HIGH, 3, id="IntEnum"),
    pytest.param(datetime(2026, 11, 24, 18, 30, tzinfo=UTC), "2026-11-24T18:30:00+00:00", id="datetime"),
    pytest.param(date(2026, 11, 24), "2026-11-24", id="date"),
    pytest.param(time(18, 30), "18:30:00", id="time"),
    pytest.param(np.datetime64("2026-11-24"), "2026-11-24", id="numpy date"),
    pytest.param(Point(1.0), {"x": 1.0, "color": "red"}, id="dataclass"),
    pytest.param((1, [2, {"a": None}]), [1, [2, {"a": None}]], id="nested"),
    pytest.param(MappingProxyType({"a": 1}), {"a": 1}, id="mapping"),
    pytest.param(np.float32(0.5), 0.5, id="numpy float"),
    pytest.param(np.longdouble(0.5), 0.5, id="numpy longdouble"),
    pytest.param(np.int64(7), 7, id="numpy int"),
    pytest.param(np.bool_(True), True, id="numpy bool"),
    pytest.param(np.str_("x"), "x", id="numpy str"),
    pytest.param(np.arange(4).reshape(2, 2), [[0, 1], [2, 3]], id="numpy array"),
    pytest.param(np.array(3.0), 3.0, id="numpy scalar array"),
    pytest.param(PurePosixPath("/data/cat.png"), "/data/cat.png", id="path"),
    pytest.param({"points": [Point(1.0)]}, {"points": [{"x": 1.0, "color": "red"}]}, id="dataclass in list in dict"),
]


@pytest.mark.parametrize(("value", "expected"), GOOD)
def test_value_becomes_plain_json(value: object, expected: object) -> None:
    result = to_json(value, "Progress.step")
    assert result == expected
    assert type(result) is type(expected)


def test_tensors_are_converted_wherever_they_are() -> None:
    weights = torch.ones(2, requires_grad=True)
    value = {"loss": torch.tensor(0.5), "points": [weights, torch.arange(2)], "on": torch.tensor([True])}
    assert to_json(value, "Progress") == {"loss": 0.5, "points": [[1.0, 1.0], [0, 1]], "on": [True]}
    with pytest.raises(TypeError, match=r"Progress\.loss\.1: nan"):
        to_json({"loss": torch.tensor([0.0, float("nan")])}, "Progress")


BAD: list[Any] = [
    pytest.param(float("nan"), r"Progress\.step: nan can't be sent", id="nan"),
    pytest.param([1.0, float("inf")], r"Progress\.step\.1: inf", id="infinity in a list"),
    pytest.param(np.array([np.nan]), r"Progress\.step\.0: nan", id="nan in an array"),
    pytest.param(object(), r"Progress\.step: object can't be sent as JSON", id="object"),
    pytest.param(b"x", "bytes can't be sent", id="bytes"),
    pytest.param({1, 2}, "set can't be sent", id="set"),
    pytest.param(1j, "complex can't be sent", id="complex"),
    pytest.param(np.array([1j]), "complex can't be sent", id="complex array"),
    pytest.param({"a": {1: 2}}, r"Progress\.step\.a: the key 1 is int", id="int key"),
    pytest.param(Point, "type can't be sent", id="a class"),
    pytest.param(Point(object()), r"Progress\.step\.x", id="inside a dataclass"),  # type: ignore[arg-type]
    pytest.param("\ud800", "surrogate", id="half a surrogate pair"),
    pytest.param(10**5000, "too large", id="huge int"),
]


@pytest.mark.parametrize(("value", "message"), BAD)
def test_unrepresentable_value_names_its_place(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        to_json(value, "Progress.step")


def test_largest_integer_a_client_can_send_can_be_sent_back() -> None:
    largest = 10**4300 - 1
    assert json.loads(json.dumps(to_json(largest, "x"))) == largest


def test_list_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested more than 100 deep"):
        to_json(loop, "Progress.step")


def test_result_does_not_follow_changes_of_the_value() -> None:
    value = {"a": [1]}
    result = to_json(value, "x")
    value["a"].append(2)
    assert result == {"a": [1]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_values_stay_as_they_are(value: object) -> None:
    assert to_json(value, "x") == value
