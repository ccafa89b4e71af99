"""The contract of a model, and the classes that have none."""

import json
from abc import ABC, abstractmethod
from typing import Any

import pytest

from reactor_runtime import Audio, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video, event
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.types_hash import types_hash
from reactor_runtime.errors import ClassError


class MyOutput(Output):
    main_video: Video
    main_audio: Audio


class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")


class Progress(ModelMessage):
    """Tell the step."""

    step: int


class MyModel(ReactorPipeline):
    state: MyState
    fps = 24

    @event(name="reset", description="Begin anew")
    def reset(self) -> None: ...


def test_the_contract_in_json_has_the_form_of_the_protocol() -> None:
    brightness = {
        "type": "number",
        "minimum": 0.0,
        "maximum": 2.0,
        "default": 1.0,
        "description": "Brightness multiplier",
    }
    described = Contract.of(MyModel).to_json()
    assert described["schema"].pop("types") == types_hash(described["tracks"], described["schema"])
    assert described == {
        "name": None,
        "tracks": [
            {"name": "main_video", "kind": "video", "direction": "out"},
            {"name": "main_audio", "kind": "audio", "direction": "out", "sample_rate": 48000},
        ],
        "schema": {
            "events": {
                "set_brightness": {
                    "description": "Brightness multiplier",
                    "field": "brightness",
                    "parameters": {
                        "type": "object",
                        "properties": {"brightness": brightness},
                        "required": ["brightness"],
                        "additionalProperties": False,
                    },
                    "replies": [None],
                },
                "reset": {
                    "description": "Begin anew",
                    "field": None,
                    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
                    "replies": [None],
                },
            },
            "messages": {
                "progress": {
                    "description": "Tell the step.",
                    "data": {
                        "type": "object",
                        "properties": {"step": {"type": "integer"}},
                        "required": ["step"],
                        "additionalProperties": False,
                    },
                },
                "done": {
                    "description": "Tell the last step.",
                    "data": {
                        "type": "object",
                        "properties": {"step": {"type": "integer"}},
                        "required": ["step"],
                        "additionalProperties": False,
                    },
                },
            },
        },
    }


class Done(Progress):
    """Tell the last step."""


class Answering(ReactorPipeline):
    state: MyState
    output: MyOutput

    @event(name="unsaid")
    # A handler without annotations.
    def unsaid(self): ...  # type: ignore[no-untyped-def]

    @event(name="nothing")
    def nothing(self) -> None: ...

    @event(name="one")
    async def one(self) -> Done:
        return Done(step=1)

    @event(name="derived")
    def derived(self) -> "Progress | None": ...

    @event(name="newest", dedupe=True)
    def newest(self) -> Done:
        return Done(step=1)

    @event(name="any")
    def any(self) -> ModelMessage:
        return Done(step=1)

    @event(name="other")
    def other(self) -> "Missing | None": ...  # type: ignore[name-defined]  # noqa: F821


class Overriding(Answering):
    def nothing(self) -> Done:  # type: ignore[override]
        return Done(step=1)

    def one(self):  # type: ignore[no-untyped-def]
        return Done(step=1)


def test_each_event_names_the_types_of_its_reply() -> None:
    events = Contract.of(Answering).to_json()["schema"]["events"]
    assert {name: spec["replies"] for name, spec in events.items()} == {
        "set_brightness": [None],
        "unsaid": None,
        "nothing": [None],
        "one": ["done"],
        "derived": ["progress", "done", None],
        "newest": ["done", None],
        "any": ["progress", "done"],
        "other": None,
    }


def test_an_override_names_its_own_reply_or_its_parent_s() -> None:
    events = Contract.of(Overriding).to_json()["schema"]["events"]
    assert (events["nothing"]["replies"], events["one"]["replies"]) == (["done"], ["done"])


def test_a_schema_of_more_than_1_mib_is_refused() -> None:
    class Large(ReactorPipeline):
        state: MyState

        @event(name="choose", description="x" * (1 << 20))
        def choose(self) -> None: ...

    with pytest.raises(ClassError, match=r"Large\.events has 1\.05 MB as JSON, Large 1\.05 MB; at most 1\.05 MB"):
        Contract.of(Large)


def test_contract_in_json_is_json() -> None:
    contract = Contract.of(MyModel).to_json()
    assert json.loads(json.dumps(contract, allow_nan=False)) == contract


def test_the_contract_has_the_classes() -> None:
    contract = Contract.of(MyModel)
    assert (contract.model, contract.outputs, contract.messages) == (
        MyModel,
        (MyOutput,),
        {"progress": Progress, "done": Done},
    )
    assert contract.state is not None
    assert contract.state.cls is MyState


def test_setter_needs_its_value() -> None:
    setter = Contract.of(MyModel).events["set_brightness"]
    assert (setter.method, setter.field, setter.is_async) == (None, "brightness", False)
    assert setter.validate('{"brightness": 2}') == {"brightness": 2.0}


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (ReactorPipeline, "ReactorPipeline is not a model"),
        (MyState, "MyState is not a model"),
        (int, "int is not a model"),
        (3, "3 is not a model"),
        (json, "is not a model"),
    ],
    ids=["our own class", "a state", "int", "a number", "a module"],
)
def test_a_class_that_is_no_model_has_no_contract(thing: Any, message: str) -> None:
    with pytest.raises(ClassError, match=message) as caught:
        Contract.of(thing)
    assert caught.value.hint == "derive it from one of ReactorPipeline, ReactorModel, ReactorApp, VideoModel"


def test_the_error_for_an_abstract_model_names_the_missing_method() -> None:
    class Half(ReactorPipeline, ABC):
        state: MyState

        @abstractmethod
        def render(self) -> None: ...

    with pytest.raises(ClassError, match="Half is abstract: it does not define render"):
        Contract.of(Half)


def test_error_points_at_the_class() -> None:
    class Common(ReactorPipeline):
        pass

    with pytest.raises(ClassError, match="Common needs a state") as caught:
        Contract.of(Common)
    where = caught.value.where
    assert where is not None
    assert where.file == __file__
    assert where.text.strip() == "class Common(ReactorPipeline):"


def test_two_messages_of_one_name_are_a_class_error() -> None:
    class One(ModelMessage):
        name = "same"

    class Two(ModelMessage):
        name = "same"

    class Model(ReactorPipeline):
        state: MyState

    with pytest.raises(ClassError, match=r"messages .*One and .*Two are both called 'same'"):
        Contract.of(Model)


def test_two_prominent_fields_are_a_class_error() -> None:
    class Texts(InputState):
        prompt: str = InputField(default="", prominent=True)
        caption: str = InputField(default="", prominent=True)

    class Model(ReactorPipeline):
        state: Texts

    with pytest.raises(ClassError, match=r"Model: set_prompt.prompt and set_caption.caption are prominent"):
        Contract.of(Model)


def test_a_prominent_parameter_of_an_event_that_is_a_form_is_a_class_error() -> None:
    class Ask(ReactorPipeline):
        state: MyState

        @event(name="ask", description="Ask")
        def ask(self, text: str = InputField(default="", prominent=True)) -> None: ...

    class Two(ReactorPipeline):
        state: MyState

        @event(name="set_text", description="Set two values")
        def write(self, text: str = InputField(default="", prominent=True), size: int = 1) -> None: ...

    for model, where in ((Ask, "ask.text"), (Two, "set_text.text")):
        with pytest.raises(ClassError, match=f"prominent=True has no effect on {where}; .* named set_text"):
            Contract.of(model)


def test_the_only_parameter_of_an_event_that_sets_it_may_be_prominent() -> None:
    class Model(ReactorPipeline):
        state: MyState

        @event(name="set_text", description="Set the text")
        def write(self, text: str = InputField(default="", prominent=True)) -> None: ...

    assert Contract.of(Model).events["set_text"].arguments.prominent == ("text",)


class Unfinished(ReactorPipeline):
    state: MyState


class AssignedInLoad(Unfinished):
    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        self.inference = lambda: iter(())  # type: ignore[method-assign]


def test_pipeline_that_can_never_have_an_inference_is_refused() -> None:
    with pytest.raises(ClassError, match=r"Unfinished has no inference\(\)"):
        Contract.of(Unfinished).style.check_finished(Unfinished)
    Contract.of(AssignedInLoad).style.check_finished(AssignedInLoad)
