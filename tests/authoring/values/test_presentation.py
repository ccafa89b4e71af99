"""What `InputField` says about the control of a value: where it goes in the schema, and what does not fit."""

import json
from typing import Any, Literal

import numpy as np
import pydantic
import pytest

from reactor_runtime import InputField, InputState, UploadedFile
from reactor_runtime.authoring.events.state import StateSpec

NP: Any = np  # its scalars are no float and no int for a type checker


def declare(hint: Any, declared: Any) -> type[InputState]:
    return type("MyState", (InputState,), {"__annotations__": {"x": hint}, "x": declared, "__module__": __name__})


def schema(hint: Any, declared: Any) -> dict[str, Any]:
    [field] = StateSpec.of(declare(hint, declared)).fields
    return field.to_json()


def test_every_option_is_in_the_schema() -> None:
    declared = InputField(
        default="",
        label="Your prompt",
        group="Text",
        widget="multiline",
        placeholder="a fox in the snow",
        order=-1,
        examples=["a fox", "a crow"],
        prominent=True,
    )
    assert schema(str, declared) == {
        "type": "string",
        "default": "",
        "examples": ["a fox", "a crow"],
        "x-reactor-ui": {
            "label": "Your prompt",
            "group": "Text",
            "widget": "multiline",
            "placeholder": "a fox in the snow",
            "order": -1,
            "prominent": True,
        },
    }


def test_without_options_the_schema_has_no_keyword() -> None:
    assert schema(float, InputField(default=1.0)) == {"type": "number", "default": 1.0}


def test_the_unit_of_a_number_is_in_the_schema() -> None:
    assert schema(float, InputField(default=1.0, unit="s"))["x-reactor-ui"] == {"unit": "s"}


def test_order_zero_is_kept() -> None:
    assert schema(bool, InputField(default=True, order=0))["x-reactor-ui"] == {"order": 0}


def test_numbers_may_be_numpy_scalars() -> None:
    declared = InputField(default=1.0, step=NP.float32(0.5), order=NP.int64(2))
    assert json.dumps(schema(float, declared)["x-reactor-ui"]) == '{"step": 0.5, "order": 2}'


def test_an_optional_value_has_the_widgets_of_its_type() -> None:
    assert schema(int | None, InputField(default=None, widget="seed"))["x-reactor-ui"] == {"widget": "seed"}


def test_examples_are_converted_as_values_are() -> None:
    assert schema(tuple[float, float], InputField(default=(0, 0), examples=[(1, 2)]))["examples"] == [[1.0, 2.0]]


def test_limits_of_a_pair_are_those_of_each_number() -> None:
    pair = schema(tuple[float, float], InputField(default=(0.5, 0.5), ge=0, le=1, widget="xy", step=0.1))
    assert pair["prefixItems"] == [{"type": "number", "minimum": 0.0, "maximum": 1.0}] * 2
    with pytest.raises(TypeError, match=r"default: 1\.5 is above 1\.0"):
        declare(tuple[float, float], InputField(default=(0.5, 1.5), le=1))


def test_title_and_examples_of_a_pydantic_field_are_label_and_examples() -> None:
    described = schema(str, pydantic.Field("", title="Prompt", examples=["a fox"]))
    assert described["x-reactor-ui"] == {"label": "Prompt"}
    assert described["examples"] == ["a fox"]


WRONG: list[Any] = [
    pytest.param(
        float, {"widget": "slidr"}, "there is no widget 'slidr'; did you mean 'slider'?", id="misspelt widget"
    ),
    pytest.param(float, {"widget": "knob"}, "there are slider, number, seed", id="unknown widget"),
    pytest.param(float, {"widget": "colour"}, "did you mean 'color'?", id="British colour"),
    pytest.param(float, {"widget": "radio"}, "'radio' is for choices, Literal and Enum", id="radio of a number"),
    pytest.param(float, {"widget": "seed"}, "'seed' is for int", id="seed of a float"),
    pytest.param(float, {"widget": "slider", "ge": 0}, "'slider' needs the ends .*: give ge and le", id="no end"),
    pytest.param(
        tuple[float, float], {"default": (0, 0), "widget": "xy"}, "'xy' needs the ends", id="pair without ends"
    ),
    pytest.param(float, {"step": 0}, "step=0 is not a number above 0", id="step 0"),
    pytest.param(int, {"step": 0.5}, "step=0.5 of an int must be a whole number", id="half step of an int"),
    pytest.param(bool, {"default": True, "step": 1}, "step applies to int, float", id="step of a bool"),
    pytest.param(bool, {"default": True, "unit": "s"}, "unit applies to int, float", id="unit of a bool"),
    pytest.param(float, {"unit": 3}, "unit must be one line of text, not 3", id="unit no text"),
    pytest.param(float, {"placeholder": "a"}, "placeholder applies to str", id="placeholder of a number"),
    pytest.param(Literal["a"], {"default": "a", "prominent": True}, "prominent applies to str", id="prominent choice"),
    pytest.param(float, {"label": "a\nb"}, "label must be one line of text", id="label of two lines"),
    pytest.param(float, {"group": 3}, "group must be one line of text, not 3", id="group no text"),
    pytest.param(float, {"order": "first"}, "order='first' is not a whole number", id="order no number"),
    pytest.param(float, {"examples": []}, "examples must be a list with at least one", id="no examples"),
    pytest.param(float, {"le": 1, "examples": [2]}, r"examples: 2 is above 1\.0", id="example above le"),
    pytest.param(str, {"default": "red", "widget": "color"}, 'values like "#ff8800"; the default is', id="colour name"),
    pytest.param(
        UploadedFile | None, {"default": None, "examples": [1]}, "examples does not apply to UploadedFile", id="files"
    ),
]


@pytest.mark.parametrize(("hint", "options", "message"), WRONG)
def test_an_option_that_does_not_fit_names_class_and_field(hint: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        declare(hint, InputField(**{"default": 0, **options}))
    assert str(caught.value).startswith("MyState.x")
