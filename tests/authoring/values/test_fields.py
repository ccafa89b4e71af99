"""Declarations that can't be: wrong defaults and limits, named when the class is defined."""

import dataclasses
import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
import pydantic
import pytest

from reactor_runtime import InputField, InputState, MessageField
from reactor_runtime.authoring.events.state import StateSpec

NP: Any = np  # its scalars are no float and no int for a type checker


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: float = 0.0


@dataclass(frozen=True)
class Fixed:
    x: float = 0.0


def declare(hint: Any, declared: Any) -> type[InputState]:
    return type("MyState", (InputState,), {"__annotations__": {"x": hint}, "x": declared, "__module__": __name__})


WRONG: list[Any] = [
    pytest.param(float, InputField(), r"x needs a default", id="no default"),
    pytest.param(float, InputField(default_factory=float), "default_factory can't be used", id="default_factory"),
    pytest.param(float, dataclasses.field(default_factory=float), "default_factory can't be used", id="field factory"),
    pytest.param(float, dataclasses.field(), "x needs a default", id="field without default"),
    pytest.param(list[int], [], r"the default \[\] is mutable", id="mutable default"),
    pytest.param(list[int], InputField([1]), r"the default \[1\] is mutable", id="mutable InputField default"),
    pytest.param(dict[str, int], {}, r"the default \{\} is mutable", id="mutable dict"),
    pytest.param(Point, Point(), "is mutable", id="mutable dataclass"),
    pytest.param(float, MessageField(1.0), "MessageField is for messages", id="MessageField"),
    pytest.param(float, InputField(3.2, le=2), r"default: 3\.2 is above 2\.0", id="default above le"),
    pytest.param(float, "a", 'default: "a" is not a number', id="default of another type"),
    pytest.param(float, True, "default: true is not a number", id="bool for a float"),
    pytest.param(float, float("nan"), "default: nan", id="nan"),
    pytest.param(bool, 1, "default: 1 is not true or false", id="int for a bool"),
    pytest.param(str, None, r"the default None needs a type that allows it: str \| None", id="None for a str"),
    pytest.param(Color, "red", "default: 'red' is not Color", id="value instead of member"),
    pytest.param(str, Color.RED, "default: .* is not str", id="member instead of value"),
    pytest.param(float, object(), "object can't be sent", id="object"),
    pytest.param(str, InputField("c", choices=["a"]), '"c" is not one of "a"', id="default not a choice"),
    pytest.param(str, InputField("a", choices=[]), "choices must be a list", id="no choices"),
    pytest.param(str, InputField("a", choices="abc"), "choices must be a list", id="choices as text"),
    pytest.param(str, InputField("a", choices=["a", 3]), "choices: 3 is not a string", id="choice of another type"),
    pytest.param(str, InputField("a", pattern="("), r"the pattern .*can.t be used: [a-z]", id="broken pattern"),
    pytest.param(str, InputField("a", pattern=3), "pattern must be a str", id="pattern no str"),  # type: ignore[arg-type]
    pytest.param(float, InputField(1, ge="0"), "ge='0' is not a finite number", id="ge as text"),  # type: ignore[arg-type]
    pytest.param(float, InputField(1, ge=float("nan")), "ge=nan is not a finite number", id="ge nan"),
    pytest.param(float, InputField(1, ge=True), "ge=True is not a finite number", id="ge bool"),
    pytest.param(int, InputField(1, ge=0.5), r"ge=0\.5 of an int must be a whole number", id="half bound of an int"),
    pytest.param(float, InputField(1, ge=2, le=1), "no value has ge=2 and le=1", id="ge above le"),
    pytest.param(float, InputField(1, multiple_of=0), "multiple_of=0 is not above 0", id="multiple of nothing"),
    pytest.param(str, InputField("a", min_length=-1), "min_length=-1 is not a whole number", id="negative length"),
    pytest.param(str, InputField("a", min_length=3, max_length=1), "no value has min_length=3", id="lengths crossed"),
]


@pytest.mark.parametrize(("hint", "declared", "message"), WRONG)
def test_wrong_declaration_names_class_and_field(hint: Any, declared: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        declare(hint, declared)
    assert str(caught.value).startswith("MyState.x")


IGNORED: list[Any] = [
    pytest.param(str, InputField("a", ge=1), "ge does not apply to str", id="ge of str"),
    pytest.param(float, InputField(1.0, max_length=1), "max_length does not apply to float", id="length of float"),
    pytest.param(bool, InputField(True, le=1), "le does not apply to bool", id="le of bool"),
    pytest.param(
        Literal["a"], InputField("a", pattern="a"), "pattern does not apply to Literal", id="pattern of Literal"
    ),
    pytest.param(Fixed, InputField(Fixed(), ge=1), "ge does not apply to Fixed", id="ge of dataclass"),
    pytest.param(
        tuple[int, int],
        InputField((1, 2), max_length=2),
        "max_length does not apply to tuple of",
        id="length of a pair",
    ),
]


@pytest.mark.parametrize(("hint", "declared", "message"), IGNORED)
def test_a_limit_that_does_not_apply_is_ignored(hint: Any, declared: Any, message: str) -> None:
    (field,) = StateSpec.of(declare(hint, declared)).fields
    (ignored,) = field.ignored
    assert ignored.startswith(message)
    assert declare(hint, declared)().x == declared.default  # type: ignore[attr-defined]


RIGHT: list[Any] = [
    pytest.param(float, 3, 3.0, id="int for a float"),
    pytest.param(float, np.float64(0.5), 0.5, id="numpy float"),
    pytest.param(int, 8.0, 8, id="whole float for an int"),
    pytest.param(Color, Color.RED, Color.RED, id="Enum"),
    pytest.param(list[int] | None, None, None, id="None"),
    pytest.param(tuple[float, ...], (1, 2), (1.0, 2.0), id="tuple"),
    pytest.param(Fixed, Fixed(2), Fixed(2.0), id="frozen dataclass"),
    pytest.param(str, dataclasses.field(default="a"), "a", id="dataclasses.field"),
    pytest.param(float, dataclasses.field(default=3), 3.0, id="dataclasses.field converted"),
]


@pytest.mark.parametrize(("hint", "declared", "expected"), RIGHT)
def test_the_default_is_the_value_of_a_fresh_state(hint: Any, declared: Any, expected: object) -> None:
    state = vars(StateSpec.of(declare(hint, declared)).fresh())
    assert state == {"x": expected}
    assert type(state["x"]) is type(expected)


def test_public_field_without_anything_needs_a_default() -> None:
    with pytest.raises(TypeError, match=r"MyState\.x needs a default"):

        class MyState(InputState):
            x: float


@pytest.mark.parametrize(
    ("hint", "declared", "default"),
    [
        (float, np.float32(0.5), 0.5),
        (float, InputField(np.float64(0.5), ge=NP.float32(0), le=NP.int64(2)), 0.5),
        (int, InputField(np.int64(3), ge=NP.uint8(1), choices=[np.int32(3), np.int32(4)]), 3),
        (bool, np.bool_(True), True),
        (str, InputField("ab", max_length=NP.int64(2)), "ab"),
    ],
    ids=["float", "limits", "int", "bool", "length"],
)
def test_defaults_and_limits_may_be_numpy_scalars(hint: Any, declared: Any, default: object) -> None:
    (field,) = StateSpec.of(declare(hint, declared)).fields
    assert field.default == default
    assert type(field.default) is hint
    json.dumps(field.to_json())


@pytest.mark.parametrize(
    ("hint", "pydantic_field", "own_field"),
    [
        (float, pydantic.Field(default=1.0, ge=0, le=2, description="How bright"),
         InputField(1.0, ge=0, le=2, description="How bright")),
        (int, pydantic.Field(4, gt=1, lt=9, multiple_of=2, strict=True), InputField(4, gt=1, lt=9, multiple_of=2)),
        (str, pydantic.Field("a", min_length=1, max_length=3, pattern="^a", title="Text"),
         InputField("a", min_length=1, max_length=3, pattern="^a", label="Text")),
        (float | None, pydantic.Field(None, ge=0), InputField(None, ge=0)),
    ],
    ids=["float", "int", "str", "optional"],
)  # fmt: skip
def test_a_pydantic_field_is_equivalent_to_an_input_field(hint: Any, pydantic_field: Any, own_field: Any) -> None:
    (theirs,) = StateSpec.of(declare(hint, pydantic_field)).fields
    (own,) = StateSpec.of(declare(hint, own_field)).fields
    assert (theirs.to_json(), theirs.default) == (own.to_json(), own.default)


def test_a_state_starts_with_the_default_of_a_pydantic_field() -> None:
    class State(InputState):
        level: int = pydantic.Field(default=3, le=9)
        _hidden: int = pydantic.Field(default=4)

    assert (State().level, State()._hidden) == (3, 4)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (pydantic.Field(1.0, alias="y"), r"x: .*alias=…\) is not supported; use InputField"),
        (pydantic.Field(1.0, max_digits=3), r"x: .*max_digits=…\) is not supported"),
        (pydantic.Field(ge=0), "x needs a default"),
        (pydantic.Field(default_factory=float), "default_factory can't be used"),
    ],
    ids=["alias", "digits", "no default", "factory"],
)
def test_unsupported_options_of_a_pydantic_field_are_refused(field: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        declare(float, field)
