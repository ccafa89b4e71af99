"""The values that a client may send for each type, and the errors for others."""

# ruff: noqa: UP007, UP045 - authors write Optional and Union as well

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, NewType, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime import InputField
from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.fields import compile_field
from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.errors import InvalidEvent


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    YES = True
    HALF = 0.5
    WHOLE = 2.0


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Path:
    name: str
    points: list[Point] = field(default_factory=list)
    length: float = field(default=0.0, init=False)


@dataclass
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x == 13:
            raise ValueError("13 brings bad luck")
        if self.x == 14:
            raise KeyError("secret")


@dataclass
class Node:
    children: "list[Node]"


def payload(hint: Any, declared: Any = None) -> EventArguments:
    declared = InputField() if declared is None else declared
    return EventArguments("set", [compile_field("x", hint, declared, Scope(globals()), "S.x")])


def convert(hint: Any, text: str, declared: Any = None) -> Any:
    return payload(hint, declared).validate(f'{{"x": {text}}}')["x"]


def complaints(hint: Any, text: str, declared: Any = None) -> list[str]:
    with pytest.raises(InvalidEvent) as caught:
        convert(hint, text, declared)
    return [f"{error.path}: {error.message}" for error in caught.value.fields]


GOOD: list[tuple[Any, str, Any]] = [
    (float, "3", 3.0),
    (float, "-0.5e1", -5.0),
    (int, "8.0", 8),
    (int, "-3", -3),
    (int, "12345678901234567890", 12345678901234567890),
    (str, '""', ""),
    (str, '"é😀"', "é😀"),
    (bool, "true", True),
    (datetime, '"2026-11-24T18:30:00Z"', datetime(2026, 11, 24, 18, 30, tzinfo=UTC)),
    (datetime, '"2026-11-24T18:30:00.25-01:30"', datetime(2026, 11, 24, 20, 0, 0, 250_000, UTC)),
    (date, '"2024-02-29"', date(2024, 2, 29)),
    (time, '"18:30:00"', time(18, 30)),
    (time, '"18:30:00.000001"', time(18, 30, 0, 1)),
    (date | None, "null", None),
    (list[date], '["2026-11-24"]', [date(2026, 11, 24)]),
    (Optional[int], "null", None),
    (Union[None, float], "1", 1.0),
    (int | None, "2.0", 2),
    (Literal["a", 1, None], "1", 1),
    (Literal["a", 1, None], "null", None),
    (Color, '"red"', Color.RED),
    (Level, "2", Level.HIGH),
    (Mixed, "1", Mixed.ONE),
    (Mixed, "0.5", Mixed.HALF),
    (Mixed, "2", Mixed.WHOLE),
    (list[float], "[1, 2.5]", [1.0, 2.5]),
    (list[Color], '["red", "green"]', [Color.RED, Color.GREEN]),
    (dict[str, int], '{"a": 1.0}', {"a": 1}),
    (tuple[int, str], '[1.0, "a"]', (1, "a")),
    (tuple[float, ...], "[1, 2, 3]", (1.0, 2.0, 3.0)),
    (list, '[1, "a", {"b": null}]', [1, "a", {"b": None}]),
    (dict, '{"a": [true, 0.5]}', {"a": [True, 0.5]}),
    (tuple, '[1, "a"]', (1, "a")),
    (dict[str, Any], '{"a": 1}', {"a": 1}),
    (list | None, "null", None),
    (Point, '{"x": 1}', Point(1.0)),
    (list[Point], '[{"x": 1, "y": 2}]', [Point(1.0, 2.0)]),
    (Path, '{"name": "p", "points": [{"x": 3}]}', Path("p", [Point(3.0)])),
    (Path | None, "null", None),
]


@pytest.mark.parametrize(("hint", "text", "expected"), GOOD, ids=[f"{hint} {text}" for hint, text, _ in GOOD])
def test_good_value_arrives_converted(hint: Any, text: str, expected: object) -> None:
    value = convert(hint, text)
    assert value == expected
    assert type(value) is type(expected)


def test_one_and_true_are_different_values_of_an_enum() -> None:
    class Truth(enum.Enum):
        YES = True

    assert convert(Truth, "true") is Truth.YES
    assert complaints(Truth, "1") == ["set.x: 1 is not one of true"]


NO_MOMENT = "is not a date and time, such as 2026-11-24T18:30:00+00:00"
BAD: list[tuple[Any, str, str]] = [
    *(
        (datetime, json.dumps(text), f"set.x: {json.dumps(text)} {NO_MOMENT}")
        for text in (
            # No offset, no seconds, a space, the basic form, an impossible date, hour and offset, and other text.
            "2026-11-24T18:30:00",
            "2026-11-24T18:30Z",
            "2026-11-24 18:30:00Z",
            "20261124T183000Z",
            "2026-02-30T18:30:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T18:30:00+99:00",
            "2026-11-24",
            "1764009000",
            "",
            "2026-11-24T18:30:00Z\n",
        )
    ),
    (datetime, "1764009000", f"set.x: 1764009000 {NO_MOMENT}"),
    (date, '"2026-11-24T00:00:00Z"', 'set.x: "2026-11-24T00:00:00Z" is not a date, such as 2026-11-24'),
    (date, '"2026-W48-2"', 'set.x: "2026-W48-2" is not a date, such as 2026-11-24'),
    (date, '"20261124"', 'set.x: "20261124" is not a date, such as 2026-11-24'),
    (date, '"٢٠٢٦-11-24"', 'set.x: "٢٠٢٦-11-24" is not a date, such as 2026-11-24'),
    (date, '"2025-02-29"', 'set.x: "2025-02-29" is not a date, such as 2026-11-24'),
    (date, "20261124", "set.x: 20261124 is not a date, such as 2026-11-24"),
    (time, '"18:30"', 'set.x: "18:30" is not a time of day, such as 18:30:00'),
    (time, '"18:30:00Z"', 'set.x: "18:30:00Z" is not a time of day, such as 18:30:00'),
    (time, '"25:00:00"', 'set.x: "25:00:00" is not a time of day, such as 18:30:00'),
    (time, "66600", "set.x: 66600 is not a time of day, such as 18:30:00"),
    (float, '"abc"', 'set.x: "abc" is not a number'),
    (float, '"1"', 'set.x: "1" is not a number'),
    (float, "true", "set.x: true is not a number"),
    (float, "null", "set.x: null is not a number"),
    (float, "NaN", "set.x: nan is not a finite number"),
    (float, "-Infinity", "set.x: -inf is not a finite number"),
    (float, "1e999", "set.x: inf is not a finite number"),
    (float, "[1]", "set.x: a list is not a number"),
    (float, "{}", "set.x: an object is not a number"),
    (int, "8.5", "set.x: 8.5 is not a whole number"),
    (int, "false", "set.x: false is not a whole number"),
    (int, '"8"', 'set.x: "8" is not a whole number'),
    (int, "null", "set.x: null is not a whole number"),
    (int, "NaN", "set.x: nan is not a whole number"),
    (int, "1e999", "set.x: inf is not a whole number"),
    (str, "3", "set.x: 3 is not a string"),
    (bool, "1", "set.x: 1 is not true or false"),
    (bool, '"true"', 'set.x: "true" is not true or false'),
    (Optional[int], '"a"', 'set.x: "a" is not a whole number'),
    (Literal["a", 1], "true", 'set.x: true is not one of "a", 1'),
    (Literal["a", 1], "1.0", 'set.x: 1.0 is not one of "a", 1'),
    (Literal["a", 1], "[]", 'set.x: a list is not one of "a", 1'),
    (Color, '"blue"', 'set.x: "blue" is not one of "red", "green"'),
    (Color, '"RED"', 'set.x: "RED" is not one of "red", "green"'),
    (Level, "true", "set.x: true is not one of 1, 2"),
    (list[float], "3", "set.x: 3 is not a list"),
    (list[float], '{"a": 1}', "set.x: an object is not a list"),
    (list[float], "[1, true]", "set.x.1: true is not a number"),
    (dict[str, int], "[]", "set.x: a list is not an object"),
    (dict[str, int], '{"a": "b"}', 'set.x.a: "b" is not a whole number'),
    (tuple[int, str], "[1]", "set.x.1: missing"),
    (tuple[int, str], '[1, "a", 2]', "set.x: has more than 2 items"),
    (tuple[float, ...], '["a"]', 'set.x.0: "a" is not a number'),
    (Point, "[1, 2]", "set.x: a list is not an object"),
    (Point, "{}", "set.x.x: missing"),
    (Point, '{"x": 1, "z": 2}', "set.x.z: unknown key"),
    (Path, '{"name": "p", "length": 3}', "set.x.length: unknown key"),
    (list[Point], '[{"x": 1}, {"x": "a"}]', 'set.x.1.x: "a" is not a number'),
    (Checked, '{"x": 13}', "set.x: 13 brings bad luck"),
    (Checked, '{"x": 14}', "set.x: is not a valid Checked"),
]


@pytest.mark.parametrize(("hint", "text", "expected"), BAD, ids=[f"{hint} {text}" for hint, text, _ in BAD])
def test_bad_value_is_named_and_shown(hint: Any, text: str, expected: str) -> None:
    assert complaints(hint, text) == [expected]


LIMITS: list[tuple[Any, dict[str, Any], str, str | None]] = [
    (float, {"ge": 0, "le": 2}, "2", None),
    (float, {"ge": 0, "le": 2}, "3.2", "3.2 is above 2.0"),
    (float, {"ge": 0, "le": 2}, "-1", "-1 is below 0.0"),
    (float, {"gt": 0}, "0", "0 is not above 0.0"),
    (float, {"lt": 1}, "1.0", "1.0 is not below 1.0"),
    (float, {"multiple_of": 0.1}, "0.3", None),
    (float, {"multiple_of": 0.1}, "0.35", "0.35 is not a multiple of 0.1"),
    (int, {"ge": 1.0, "le": 5}, "5.0", None),
    (int, {"ge": 1.0, "le": 5}, "0", "0 is below 1"),
    (int, {"multiple_of": 8}, "12", "12 is not a multiple of 8"),
    (Optional[int], {"ge": 1}, "null", None),
    (Optional[int], {"ge": 1}, "0", "0 is below 1"),
    (str, {"max_length": 3}, '"é😀x"', None),
    (str, {"max_length": 3}, '"abcd"', '"abcd" is longer than the greatest length, 3'),
    (str, {"min_length": 1}, '""', '"" is shorter than the least length, 1'),
    (str, {"pattern": "^#[0-9a-f]+$"}, '"#0f"', None),
    (str, {"pattern": "^#[0-9a-f]+$"}, '"red"', '"red" does not match ^#[0-9a-f]+$'),
    (str, {"choices": ["a", "b"]}, '"b"', None),
    (str, {"choices": ["a", "b"]}, '"c"', '"c" is not one of "a", "b"'),
    (str | None, {"choices": ["a"]}, "null", None),
    (float, {"choices": [1, 2.5]}, "1", None),
    (float, {"choices": [1, 2.5]}, "2", "2.0 is not one of 1.0, 2.5"),
    (Color, {"choices": [Color.RED]}, '"green"', '"green" is not one of "red"'),
    (list[int], {"min_length": 1}, "[]", "has fewer than 1 item"),
    (list[int], {"max_length": 2}, "[1, 2, 3]", "has more than 2 items"),
    (dict[str, int], {"max_length": 1}, '{"a": 1, "b": 2}', "has more than 1 item"),
    (tuple[int, ...], {"max_length": 1}, "[1, 2]", "has more than 1 item"),
]


@pytest.mark.parametrize(("hint", "limits", "text", "expected"), LIMITS, ids=[f"{h} {m} {t}" for h, m, t, _ in LIMITS])
def test_limits_hold(hint: Any, limits: dict[str, Any], text: str, expected: str | None) -> None:
    if expected is None:
        convert(hint, text, InputField(**limits))
    else:
        assert complaints(hint, text, InputField(**limits)) == [f"set.x: {expected}"]


SCHEMAS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (float, {"ge": 0, "le": 2}, {"type": "number", "minimum": 0.0, "maximum": 2.0}),
    (int, {"gt": 0, "lt": 9}, {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}),
    (int, {"multiple_of": 8}, {"type": "integer", "multipleOf": 8}),
    (
        str,
        {"min_length": 1, "max_length": 9, "pattern": "^a"},
        {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a"},
    ),
    (str, {"choices": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    (bool, {}, {"type": "boolean"}),
    (datetime, {}, {"type": "string", "format": "date-time"}),
    (date, {}, {"type": "string", "format": "date"}),
    (time, {}, {"type": "string", "format": "time-local"}),
    (
        date,
        {"choices": [date(2026, 11, 24)]},
        {"type": "string", "format": "date", "enum": ["2026-11-24"]},
    ),
    (Color, {}, {"type": "string", "enum": ["red", "green"]}),
    (Literal["a", 1], {}, {"enum": ["a", 1]}),
    (Optional[float], {"le": 1}, {"anyOf": [{"type": "number", "maximum": 1.0}, {"type": "null"}]}),
    (list[int], {"max_length": 3}, {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
    (
        dict[str, bool],
        {"min_length": 1},
        {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1},
    ),
    (
        tuple[int, str],
        {},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    (
        Point,
        {},
        {
            "type": "object",
            "title": "Point",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.parametrize(("hint", "limits", "expected"), SCHEMAS, ids=[str(hint) for hint, _, _ in SCHEMAS])
def test_json_schema_of_each_type(hint: Any, limits: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = compile_field("x", hint, InputField(**limits), Scope({}), "S.x")
    assert spec.to_json() == expected


UNSUPPORTED: list[tuple[Any, str]] = [
    (timedelta, "S.x: a client can't set a value of type timedelta; there are int, float, str, bool"),
    (bytes, "type bytes"),
    (Any, "type Any"),
    (object, "type object"),
    (int | str, "type int | str"),
    (Optional[int | str], "a client can't set"),
    (set[int], r"type set\[int\]"),
    (dict[int, str], r"the keys of a dict are JSON names; write dict\[str, str\]"),
    (list[timedelta], "type timedelta"),
    (Literal[b"x"], r"Literal\[b'x'\] can't come from a client"),
    (NewType("Meters", float), "a client can't set"),
    (Mapping[str, int], "a client can't set"),
    (None, "type None"),
    (3, "type 3"),
    (enum.Enum("Empty", []), "Empty has no members"),
    (enum.Enum("Pairs", {"A": (1, 2)}), "the values of Pairs must be"),
    (enum.Enum("Things", {"A": object()}), r"Things\.A"),
    (Node, r"Node contains itself"),
]


@pytest.mark.parametrize(("hint", "message"), UNSUPPORTED, ids=[str(hint) for hint, _ in UNSUPPORTED])
def test_unsupported_type_is_a_type_error_that_names_the_field(hint: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        compile_field("x", hint, InputField(), Scope(globals()), "S.x")
    assert str(caught.value).startswith("S.x")


def test_unsupported_type_in_a_dataclass_names_its_field() -> None:
    @dataclass
    class Meeting:
        when: timedelta

    with pytest.raises(TypeError, match=r"S\.x \(Meeting\.when\): a client can't set a value of type timedelta"):
        compile_field("x", Meeting, InputField(), Scope({}), "S.x")


HINTS: list[Any] = [hint for hint, _, _ in GOOD]
# The server refuses numbers that JSON lacks before they come here.
json_numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | json_numbers | st.text() | st.sampled_from(["red", "a", "x", "name"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyab") | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(HINTS), json_values)
def test_any_json_value_converts_or_is_an_invalid_event(hint: Any, value: object) -> None:
    try:
        converted = convert(hint, json.dumps(value))
    except InvalidEvent as error:
        complained = [field.path.startswith("set") and field.message for field in error.fields]
    else:
        again = compile_field("x", hint, InputField(), Scope(globals()), "S.x").type.convert(converted, "S.x")
        complained = [again == converted]
    assert complained
    assert all(complained)


@given(st.floats() | st.integers())
def test_float_within_its_bounds_or_refused(value: float) -> None:
    try:
        converted = convert(float, json.dumps(value), InputField(ge=-1.5, le=1.5))
    except InvalidEvent:
        assert not -1.5 <= value <= 1.5
    else:
        assert type(converted) is float
        assert converted == value


@pytest.mark.parametrize(
    ("hint", "default", "message"),
    [
        (datetime, datetime(2026, 11, 24), '"2026-11-24T00:00:00" is not a date and time'),
        (date, datetime(2026, 11, 24, tzinfo=UTC), "is not a date, such as"),
        (time, time(18, 30, tzinfo=UTC), '"18:30:00\\+00:00" is not a time of day'),
    ],
)
def test_a_default_of_another_form_is_refused_with_the_form(hint: Any, default: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compile_field("x", hint, default, Scope({}), "S.x")


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.timezones()) | st.dates() | st.times())
def test_every_date_and_time_is_read_as_it_is_written(value: datetime | date | time) -> None:
    read = convert(type(value), json.dumps(to_json(value, "x")))
    # In the hour that a zone repeats, Python finds times of two zones unequal.
    assert read == (value.astimezone(UTC) if isinstance(value, datetime) else value)
