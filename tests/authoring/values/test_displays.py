"""Values that the model sets: how their schemas say that they are shown, and what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args

import pytest

from reactor_runtime import InputField, InputState, Key, MessageField, ModelMessage, ReactorPipeline, event
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import message_schema
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.authoring.values.displays import Display
from reactor_runtime.errors import ClassError
from reactor_runtime.kinds import KINDS
from reactor_runtime.schema import outline, typed_python, typed_typescript
from reactor_runtime.wire import openapi


def state(hint: Any, declared: Any) -> type[InputState]:
    return type("MyState", (InputState,), {"__annotations__": {"x": hint}, "x": declared, "__module__": __name__})


def read_only(hint: Any, default: Any, **options: Any) -> dict[str, Any]:
    [field] = StateSpec.of(state(hint, InputField(default=default, read_only=True, **options))).fields
    return field.to_json()


def message(hint: Any, declared: Any) -> dict[str, Any]:
    members = {"__annotations__": {"x": hint}, "x": declared, "__module__": __name__}
    schema: dict[str, Any] = message_schema(type("Said", (ModelMessage,), members))["data"]["properties"]["x"]
    return schema


class Score(InputState):
    speed: float = InputField(default=1.0, ge=0.0, le=2.0)
    score: int = InputField(default=0, read_only=True, description="Points")


class Game(ReactorPipeline):
    state: Score

    def inference(self) -> Iterator[None]:
        yield None


def test_the_displays_of_all_kinds_are_those_of_a_message_field() -> None:
    assert {display for kind in KINDS.values() for display in kind.displays} == set(get_args(Display))


def test_the_schema_of_a_read_only_field_has_its_widget() -> None:
    assert read_only(int, 3, widget="bar", label="Health", unit="%", ge=0, le=9) == {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "default": 3,
        "readOnly": True,
        "x-reactor-ui": {"widget": "bar", "label": "Health", "unit": "%"},
    }


@pytest.mark.parametrize(
    ("hint", "default", "widget"),
    [
        (int, 0, "value"),
        (str, "", "value"),
        (bool, False, "light"),
        (Literal["a"], "a", "value"),
        (int | None, None, "value"),
    ],
    ids=["int", "str", "bool", "choice", "optional"],
)
def test_without_a_widget_the_type_chooses(hint: Any, default: Any, widget: str) -> None:
    assert read_only(hint, default)["x-reactor-ui"] == {"widget": widget}


def test_a_type_without_a_widget_is_not_shown() -> None:
    assert "x-reactor-ui" not in read_only(tuple[int, ...], ())


def test_a_message_field_is_shown_with_a_widget_alone() -> None:
    assert message(float, MessageField(ge=0, le=100, unit="%", widget="bar")) == {
        "type": "number",
        "minimum": 0.0,
        "maximum": 100.0,
        "x-reactor-ui": {"widget": "bar", "unit": "%"},
    }
    assert message(float, MessageField(1.0)) == {"type": "number"}


WRONG: list[Any] = [
    pytest.param(str, {"widget": "bar"}, "the widget 'bar' shows int and float", id="bar of a str"),
    pytest.param(list[int], {"widget": "value"}, "the widget 'value' shows int and float and str", id="list"),
    pytest.param(int, {"widget": "lamp"}, "no widget 'lamp' shows a value; there are value, bar", id="unknown"),
    pytest.param(int, {"widget": "clok"}, "did you mean 'clock'", id="typo"),
    pytest.param(bool, {"widget": "light", "unit": "s"}, "unit applies to int and float", id="unit of a bool"),
    pytest.param(int, {"widget": "clock", "unit": "s"}, "shown as value or bar", id="unit of a clock"),
    pytest.param(int, {"label": "Points"}, "label needs a widget", id="label alone"),
    pytest.param(int, {"widget": "value", "label": "a\nb"}, "label must be one line", id="two lines"),
    pytest.param(str, {"ge": 0}, "Said.x: ge does not apply to str", id="limit of a str"),
    pytest.param(int, {"ge": 2, "le": 1}, "no value has ge=2 and le=1", id="crossed limits"),
]


@pytest.mark.parametrize(("hint", "options", "reason"), WRONG)
def test_a_wrong_option_of_a_message_field_is_named(hint: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        message(hint, MessageField(**options))


INPUT_ONLY: list[Any] = [
    pytest.param({"bind": Key("w")}, "bind has no effect on a field that is read_only", id="bind"),
    pytest.param({"moderate": True}, "moderate has no effect", id="moderate"),
    pytest.param({"prominent": True}, "prominent has no effect", id="prominent"),
    pytest.param({"step": 1}, "step has no effect", id="step"),
    pytest.param({"widget": "slider"}, "no widget 'slider' shows a value", id="slider"),
    pytest.param({"read_only": 1}, "read_only=True or read_only=False, not 1", id="number"),
]


@pytest.mark.parametrize(("options", "reason"), INPUT_ONLY)
def test_an_option_about_input_is_refused_for_a_read_only_field(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        state(int, InputField(**{"default": 0, "read_only": True, **options}))


def test_a_parameter_and_a_private_field_can_not_be_read_only() -> None:
    with pytest.raises(TypeError, match="read_only is for fields of a state"):

        class Wrong(ReactorPipeline):
            state: Score

            @event(name="go")
            def go(self, to: int = InputField(default=0, read_only=True)) -> None: ...

    with pytest.raises(TypeError, match="drop read_only, or the underscore"):

        class Hidden(InputState):
            _score: int = InputField(default=0, read_only=True)


def test_no_event_sets_a_read_only_field() -> None:
    contract = Contract.of(Game)
    assert list(contract.events) == ["set_speed"]
    assert list(contract.to_json()["schema"]["state"]) == ["score"]


def test_an_event_with_the_name_of_its_setter_is_refused() -> None:
    class Written(Game):
        @event(name="set_score")
        def set_score(self, score: int) -> None: ...

    with pytest.raises(ClassError, match="set_score is the event set_score, but score is read_only"):
        Contract.of(Written)


def test_the_type_of_a_read_only_field_is_in_the_hash() -> None:
    class Other(Score):
        score: float = InputField(default=0.0, read_only=True)  # type: ignore[assignment]

    class OtherGame(Game):
        state: Other

    hashes = [Contract.of(model).to_json()["schema"]["types"] for model in (Game, OtherGame)]
    assert hashes[0] != hashes[1]


def test_typed_clients_and_documents_have_the_field_in_the_state() -> None:
    contract = Contract.of(Game).to_json()
    assert "    # Points\n    score: int\n" in typed_python.module("game", contract)
    assert "  /** Points */\n  score: number;\n" in typed_typescript.module("game", contract)
    document = openapi.document("game", "1", contract)
    assert document["components"]["schemas"]["State"]["properties"]["score"]["readOnly"] is True
    assert list(outline("game", Contract.of(Game))["state"]) == ["score"]
    json.dumps(document)
