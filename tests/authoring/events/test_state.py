"""The state of a session: public and private fields, inheritance, and what changed since the last look."""

import copy
import dataclasses
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import pytest

from reactor_runtime import InputField, InputState, UploadedFile
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.authoring.values.jsonable import MOST_JSON_BYTES


class Mode(Enum):
    A = "a"
    B = "b"


@dataclass
class Point:
    x: float = 0.0


class Picture(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")
    mode: Mode = Mode.A
    name: str = ""
    points: list[Point] | None = None
    counted: ClassVar[list[int]] = []
    _seen: list[int] = dataclasses.field(default_factory=list)
    _hidden: int = 3


SPEC = StateSpec.of(Picture)


def test_public_fields_are_in_order_and_private_ones_are_not_there() -> None:
    assert [field.name for field in SPEC.fields] == ["brightness", "mode", "name", "points"]
    assert SPEC.fields[0].description == "Brightness multiplier"


def test_each_session_gets_a_fresh_state() -> None:
    one, two = SPEC.fresh(), SPEC.fresh()
    assert isinstance(one, Picture)
    assert isinstance(two, Picture)
    one._seen.append(1)
    one.brightness = 0.5
    assert (two._seen, two.brightness, two._hidden) == ([], 1.0, 3)


def test_state_in_json_has_the_public_fields() -> None:
    assert SPEC.to_json(SPEC.fresh()) == {"brightness": 1.0, "mode": "a", "name": "", "points": None}


def test_changes_are_those_since_the_last_look() -> None:
    state = Picture()
    last = SPEC.to_json(state)
    assert SPEC.changes(state, last) == {}
    state.brightness, state.mode, state._hidden = 0.5, Mode.B, 9
    assert SPEC.changes(state, last) == {"brightness": 0.5, "mode": "b"}
    assert SPEC.changes(state, last) == {}
    assert last["mode"] == "b"


def test_setting_the_same_value_changes_nothing() -> None:
    state = Picture(name="abc")
    last = SPEC.to_json(state)
    state.name = "".join(["a", "bc"])
    state.brightness = float("1.0")
    assert SPEC.changes(state, last) == {}


def test_change_inside_of_a_container_is_noticed() -> None:
    state = Picture(points=[Point(1.0)])
    last = SPEC.to_json(state)
    assert state.points is not None
    state.points[0].x = 2.0
    assert SPEC.changes(state, last) == {"points": [{"x": 2.0}]}
    state.points.append(Point(3.0))
    assert SPEC.changes(state, last) == {"points": [{"x": 2.0}, {"x": 3.0}]}
    assert SPEC.changes(state, last) == {}


def test_a_change_from_1_to_true_is_a_change() -> None:
    class Loose(InputState):
        value: int = 1

    spec, state = StateSpec.of(Loose), Loose()
    last = spec.to_json(state)
    state.value = True
    assert spec.changes(state, last) == {"value": True}


class Loose(InputState):
    by_name: dict[str, Any] | None = None


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), ([0, [1.0]], [0, [1]]), ({"b": False}, {"b": 0})],
    ids=["int to bool", "float to int in a list", "bool to int in a dict"],
)
def test_a_value_inside_a_container_that_changes_its_type_is_a_change(before: Any, after: Any) -> None:
    spec, state = StateSpec.of(Loose), Loose(by_name={"a": before})
    last = spec.to_json(state)
    state.by_name = {"a": after}
    assert json.dumps(spec.changes(state, last)) == json.dumps({"by_name": {"a": after}})
    assert spec.changes(state, last) == {}


def test_the_order_of_keys_inside_a_container_is_no_change() -> None:
    spec, state = StateSpec.of(Loose), Loose(by_name={"a": 1, "b": 2})
    last = spec.to_json(state)
    state.by_name = {"b": 2, "a": 1}
    assert spec.changes(state, last) == {}


def test_a_state_of_more_than_1_mib_names_its_largest_field_and_leaves_the_last_values() -> None:
    state = Picture()
    last = SPEC.to_json(state)
    state.brightness, state.name = 0.5, "x" * MOST_JSON_BYTES
    too_large = r"Picture\.name has 1\.05 MB as JSON, Picture 1\.05 MB; at most 1\.05 MB can be sent at once"
    with pytest.raises(ValueError, match=too_large):
        SPEC.changes(state, last)
    assert last == {"brightness": 1.0, "mode": "a", "name": "", "points": None}
    with pytest.raises(ValueError, match=too_large):
        SPEC.to_json(state)
    state.name = "é" * (MOST_JSON_BYTES // 2 - 20)
    assert set(SPEC.changes(state, last)) == {"brightness", "name"}


def test_numpy_values_of_an_author_are_sent_as_numbers() -> None:
    state = Picture()
    last = SPEC.to_json(state)
    state.brightness = np.float32(0.5)  # type: ignore[assignment]
    assert SPEC.changes(state, last) == {"brightness": 0.5}


@pytest.mark.parametrize("value", [object(), float("nan"), b"x"], ids=["object", "nan", "bytes"])
def test_a_value_that_json_lacks_names_the_field_and_leaves_the_last_values(value: Any) -> None:
    state = Picture()
    last = SPEC.to_json(state)
    state.brightness, state.name = 0.5, value
    with pytest.raises(TypeError, match=r"Picture\.name: "):
        SPEC.changes(state, last)
    assert last["brightness"] == 1.0


def test_child_keeps_the_fields_of_its_parents() -> None:
    class Sharp(Picture):
        sharpness: float = 0.5
        name: str = InputField("sharp", max_length=9)

    fields = StateSpec.of(Sharp).fields
    assert [field.name for field in fields] == ["brightness", "mode", "name", "points", "sharpness"]
    assert Sharp().name == "sharp"
    assert Picture().name == ""


def test_two_parents_join_their_fields() -> None:
    class Left(InputState):
        left: int = 1

    class Right(InputState):
        right: int = 2

    class Both(Left, Right):
        pass

    assert {field.name for field in StateSpec.of(Both).fields} == {"left", "right"}


def test_state_without_fields_is_fine() -> None:
    class Nothing(InputState):
        pass

    assert StateSpec.of(Nothing).to_json(Nothing()) == {}
    assert StateSpec.of(InputState).fields == ()


def test_an_undeclared_public_name_is_refused_and_a_private_one_is_free() -> None:
    class Base(InputState):
        speed: float = 1.0

    class Moving(Base):
        LARGEST = 9
        colour: str = "red"
        _seen: int = 0

        @property
        def doubled(self) -> float:
            return 2 * self.speed

        @doubled.setter
        def doubled(self, value: float) -> None:
            self.speed = value / 2

    state = Moving(colour="blue")
    with pytest.raises(AttributeError, match=r"Moving has no field sped: did you mean speed\? .*_sped"):
        state.sped = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no field total: Names of your own begin with _, as in _total"):
        state.total = 3  # type: ignore[attr-defined]
    assert "sped" not in vars(state)
    state.doubled, state.LARGEST, state._seen, state._cache = 6.0, 8, 1, {}  # type: ignore[attr-defined]
    assert (state.speed, state.colour, vars(state)["_cache"]) == (3.0, "blue", {})
    for duplicate in (copy.copy(state), copy.deepcopy(state), dataclasses.replace(state)):
        assert duplicate == state
        duplicate.speed = 4.0


def test_a_state_without_fields_refuses_all_public_names() -> None:
    with pytest.raises(AttributeError, match="InputState has no field speed"):
        InputState().speed = 3  # type: ignore[attr-defined]


def test_slots_state_has_no_other_attributes() -> None:
    @dataclass(slots=True)
    class Small(InputState):
        x: int = InputField(3, ge=0)

    spec = StateSpec.of(Small)
    state = spec.fresh()
    assert spec.to_json(state) == {"x": 3}
    with pytest.raises(AttributeError):
        state.y = 1  # type: ignore[attr-defined]


def test_constants_without_annotation_are_no_fields() -> None:
    class WithConstant(InputState):
        LARGEST = 9
        x: int = 3

        def double(self) -> int:
            return 2 * self.x

    assert [field.name for field in StateSpec.of(WithConstant).fields] == ["x"]
    assert WithConstant().double() == 6


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"x": InputField(1.0)}, r"MyState\.x needs an annotation"),
        ({"brightness": 0.5}, r"MyState\.brightness needs an annotation"),
        ({"__annotations__": {"_x": int}}, r"MyState\._x needs a default"),
    ],
    ids=["InputField", "parent's field", "private without default"],
)
def test_wrong_body_names_class_and_field(body: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("MyState", (Picture,), body)


def test_private_input_field_is_its_default() -> None:
    class Odd(InputState):
        _x: int = InputField(4)

    assert Odd()._x == 4


@pytest.mark.parametrize("wrapped", [lambda value: value, InputField], ids=["plain", "InputField"])
def test_a_private_mutable_default_is_copied_for_each_session(wrapped: Any) -> None:
    class Kept(InputState):
        _history: list[list[int]] = wrapped([[1]])
        _seen: set[int] = wrapped(set())

    first, second = StateSpec.of(Kept).fresh(), StateSpec.of(Kept).fresh()
    assert isinstance(first, Kept)
    first._history[0].append(2)
    first._seen.add(3)
    assert second == Kept()
    assert Kept()._history == [[1]]


def test_an_upload_is_an_empty_slot_without_a_default() -> None:
    class Slots(InputState):
        strength: float = 0.5
        image: UploadedFile  # type: ignore[misc]  # as programs have it
        mask: UploadedFile = None  # type: ignore[assignment]  # as programs have it
        depth: UploadedFile = InputField(description="A depth map")
        other: UploadedFile | None  # type: ignore[misc]

    spec = StateSpec.of(Slots)
    assert [field.name for field in spec.fields] == ["strength", "image", "mask", "depth", "other"]
    assert spec.to_json(spec.fresh()) == {"strength": 0.5, "image": None, "mask": None, "depth": None, "other": None}
    assert spec.fields[3].description == "A depth map"
    assert all(field.to_json()["anyOf"][1] == {"type": "null"} for field in spec.fields[1:])


def test_an_explicit_dataclass_may_have_an_empty_slot() -> None:
    @dataclass
    class Slots(InputState):
        strength: float = 0.5
        image: UploadedFile  # type: ignore[misc]  # as programs have it
        _seen: list[int] = []  # noqa: RUF008

    make: Any = Slots
    assert make() == make(0.5, None, [])


def test_frozen_state_is_refused() -> None:
    @dataclass(frozen=True)
    class Frozen(InputState):
        x: int = 3

    with pytest.raises(TypeError, match="Frozen is frozen, but events set its fields"):
        StateSpec.of(Frozen)
