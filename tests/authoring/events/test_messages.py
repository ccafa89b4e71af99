"""Messages to clients: their type, their data, their schema."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import pytest

from reactor_runtime import ClientInfo, CommandError, InputField, MessageField, ModelMessage
from reactor_runtime.authoring.events.messages import message_schema, message_to_json, message_type
from reactor_runtime.authoring.values.jsonable import MOST_JSON_BYTES


class Stage(Enum):
    DONE = "done"


class Progress(ModelMessage):
    """Tell how far the
    model has come.

    The second paragraph is for readers of the code.
    """

    step: int
    stage: Stage = Stage.DONE
    note: str = MessageField("", description="For people")
    _secret: int = 3


def test_message_is_its_type_and_its_public_fields() -> None:
    assert message_to_json(Progress(step=3)) == ("progress", {"step": 3, "stage": "done", "note": ""})


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        ("Progress", "progress"),
        ("PromptAccepted", "prompt_accepted"),
        ("HTTPReady", "http_ready"),
        ("ReadyForHTTP", "ready_for_http"),
        ("Step2Done", "step2_done"),
        ("already_snake", "already_snake"),
        ("_Hidden", "hidden"),
    ],
)
def test_type_is_the_class_name_in_snake_case(class_name: str, expected: str) -> None:
    assert message_type(type(class_name, (ModelMessage,), {})) == expected


def test_name_attribute_sets_the_type_of_that_class_alone() -> None:
    class Renamed(ModelMessage):
        name = "my.type"
        step: int = 0

    class Child(Renamed):
        pass

    class Annotated(ModelMessage):
        name: ClassVar[str] = "other"

    assert message_to_json(Renamed()) == ("my.type", {"step": 0})
    assert message_type(Child) == "child"
    assert message_type(Annotated) == "other"


def test_name_may_be_a_field() -> None:
    class Named(ModelMessage):
        name: str

    class Child(Named):
        age: int = 3

    assert message_to_json(Named("x")) == ("named", {"name": "x"})
    assert message_to_json(Child("x")) == ("child", {"name": "x", "age": 3})


def test_protocol_types_are_refused() -> None:
    with pytest.raises(ValueError, match=r"types starting with 'reactor\.' belong to the protocol"):
        type("Bad", (ModelMessage,), {"name": "reactor.welcome"})


def test_name_must_be_text() -> None:
    with pytest.raises(TypeError, match=r"Bad\.name must be the type clients see"):
        type("Bad", (ModelMessage,), {"name": 3})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        ([Stage.DONE, None], ["done", None]),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (Progress(step=1), {"step": 1, "stage": "done", "note": "", "_secret": 3}),
    ],
    ids=["numpy scalar", "numpy array", "list", "dict", "dataclass"],
)
def test_values_are_converted(value: object, expected: object) -> None:
    class Report(ModelMessage):
        value: Any

    assert message_to_json(Report(value)) == ("report", {"value": expected})


@pytest.mark.parametrize("value", [pytest.param(object(), id="object"), float("nan"), [float("inf")], {1: 2}], ids=repr)
def test_value_json_cannot_say_names_the_field(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Progress\.step"):
        message_to_json(Progress(step=value))


@pytest.mark.parametrize("thing", [{"type": "progress"}, "text", ModelMessage()], ids=["dict", "str", "bare"])
def test_only_messages_can_be_sent(thing: Any) -> None:
    with pytest.raises(TypeError, match="only a ModelMessage can be sent"):
        message_to_json(thing)


def test_schema_describes_the_fields() -> None:
    assert message_schema(Progress) == {
        "description": "Tell how far the model has come.",
        "data": {
            "type": "object",
            "properties": {
                "step": {"type": "integer"},
                "stage": {"type": "string", "enum": ["done"]},
                "note": {"type": "string", "description": "For people"},
            },
            "required": ["step", "stage", "note"],
            "additionalProperties": False,
        },
    }


def test_schema_leaves_types_open_that_clients_could_not_send() -> None:
    class Report(ModelMessage):
        picture: np.ndarray[Any, Any]
        anything: Any = None

    schema = message_schema(Report)
    assert schema["description"] == ""
    assert schema["data"]["properties"] == {"picture": {}, "anything": {}}


def test_child_message_has_the_fields_of_its_parent() -> None:
    class Child(Progress):
        extra: int = 0

    assert list(message_schema(Child)["data"]["properties"]) == ["step", "stage", "note", "extra"]
    assert message_to_json(Child(step=1))[0] == "child"


def test_slots_message_keeps_its_type() -> None:
    @dataclass(slots=True)
    class Quick(ModelMessage):
        name = "fast"
        step: int = MessageField(0)

    assert message_to_json(Quick(step=2)) == ("fast", {"step": 2})


def test_input_field_in_a_message_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad\.x: InputField is for what clients set"):

        class Bad(ModelMessage):
            x: int = InputField(3)


def test_message_field_without_annotation_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad\.x needs an annotation"):

        class Bad(ModelMessage):
            x = MessageField(3)


def test_message_field_without_default_must_be_given() -> None:
    class Strict(ModelMessage):
        x: int = MessageField(description="needed")

    with pytest.raises(TypeError, match="x"):
        Strict()
    assert message_to_json(Strict(x=1)) == ("strict", {"x": 1})


def test_a_message_of_more_than_1_mib_names_its_largest_field_and_sizes() -> None:
    room = MOST_JSON_BYTES - len('{"step":1,"stage":"done","note":""}')
    assert message_to_json(Progress(step=1, note="x" * room))[0] == "progress"
    for note in ("x" * (room + 1), "é" * (room // 2 + 1)):
        with pytest.raises(ValueError, match=r"Progress\.note has 1\.05 MB as JSON, Progress 1\.05 MB; at most 1\.05"):
            message_to_json(Progress(step=1, note=note))


def test_command_error_has_code_and_message() -> None:
    error = CommandError("busy", "come back later")
    assert (error.code, error.message, str(error)) == ("busy", "come back later", "busy: come back later")


def test_command_error_takes_an_exception_as_its_message() -> None:
    assert CommandError("bad_file", OSError("disk on fire")).message == "disk on fire"


@pytest.mark.parametrize("code", [5, "", None])
def test_command_error_shows_how_it_is_written(code: Any) -> None:
    with pytest.raises(TypeError, match=r'as in CommandError\("too_late", "the show is over"\)'):
        raise CommandError(code, object())


def test_a_command_error_of_the_author_s_has_code_and_message_whatever_its_init_does() -> None:
    class TooLate(CommandError):
        def __init__(self) -> None:
            self.message = "the show is over"

    assert (TooLate().code, TooLate().message) == ("command_error", "the show is over")


async def test_client_info_sends_and_hides_its_send_function() -> None:
    sent: list[ModelMessage] = []
    client = ClientInfo("c1", 1.5, _send=sent.append)
    await client.send(Progress(step=1))
    assert sent == [Progress(step=1)]
    assert client == ClientInfo("c1", 1.5)
    assert "_send" not in repr(client)
