"""Events of an author that replace the `set_<field>` of a state field: they keep the field's control."""

from __future__ import annotations

from typing import Any, Literal

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.interface import InputField, InputState, ReactorModel, event


class Look(InputState):
    prompt: str = InputField(
        default="", prominent=True, placeholder="A scene", examples=["a fox", "a harbour"], description="What to paint"
    )
    strength: float = InputField(default=0.5, ge=0.0, le=1.0, widget="slider", step=0.1, label="Effect", group="Look")
    tint: str = InputField(default="#ff8800", widget="color", order=3, examples=["#000000", "#ffffff"])


def schema_of(model: type, name: str) -> dict[str, Any]:
    described: dict[str, Any] = Contract.of(model).to_json()["schema"]["events"][f"set_{name}"]
    return {"of event": described["description"], **described["parameters"]["properties"][name]}


def test_the_control_of_the_field_stays() -> None:
    class Model(ReactorModel):
        state: Look

        @event(name="set_prompt")
        def set_prompt(self, prompt: str) -> None: ...

    assert schema_of(Model, "prompt") == {
        "type": "string",
        "of event": "What to paint",
        "examples": ["a fox", "a harbour"],
        "x-reactor-ui": {"placeholder": "A scene", "prominent": True},
    }


def test_the_event_s_own_options_have_precedence() -> None:
    class Model(ReactorModel):
        state: Look

        @event(name="set_prompt", description="Begin anew")
        def set_prompt(self, prompt: str = InputField(placeholder="Anything", label="Prompt")) -> None: ...

    schema = schema_of(Model, "prompt")
    assert schema["of event"] == "Begin anew"
    assert schema["x-reactor-ui"] == {"label": "Prompt", "placeholder": "Anything", "prominent": True}


def test_options_that_do_not_fit_the_type_of_the_parameter_are_left_out() -> None:
    class Model(ReactorModel):
        state: Look

        @event(name="set_strength")
        def set_strength(self, strength: float) -> None: ...

        @event(name="set_tint")
        def set_tint(self, tint: Literal["red", "#000000"]) -> None: ...

    # A slider needs limits, and the parameter has none.
    assert schema_of(Model, "strength") == {
        "type": "number",
        "of event": "",
        "x-reactor-ui": {"label": "Effect", "group": "Look", "step": 0.1},
    }
    assert schema_of(Model, "tint")["x-reactor-ui"] == {"order": 3}
    assert "examples" not in schema_of(Model, "tint")


def test_an_event_of_several_parameters_keeps_its_form() -> None:
    class Model(ReactorModel):
        state: Look

        @event(name="set_prompt")
        def set_prompt(self, prompt: str, seed: int = 0) -> None: ...

    assert "x-reactor-ui" not in schema_of(Model, "prompt")
