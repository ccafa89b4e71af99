"""The data of an event as a whole: missing, unknown and hostile."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from reactor_runtime import InputField
from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.fields import compile_field
from reactor_runtime.errors import InvalidEvent

PROMPT = EventArguments(
    "set_prompt",
    [
        compile_field("prompt", str, InputField(max_length=5, description="What to draw"), Scope({}), "S.prompt"),
        compile_field("strength", float, InputField(default=1, ge=0), Scope({}), "S.strength"),
        compile_field("seed", int | None, None, Scope({}), "S.seed"),
        compile_field("tags", list[str], InputField(), Scope({}), "S.tags"),
    ],
)


def errors_of(data_json: str, arguments: EventArguments = PROMPT) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEvent) as caught:
        arguments.validate(data_json)
    return [(error.path, error.message) for error in caught.value.fields]


def test_missing_arguments_take_their_defaults() -> None:
    arguments = PROMPT.validate('{"prompt": "cat", "tags": []}')
    assert arguments == {"prompt": "cat", "strength": 1.0, "seed": None, "tags": []}
    assert type(arguments["strength"]) is float


def test_all_errors_come_at_once_with_their_paths() -> None:
    assert errors_of('{"promt": "x", "strength": -1, "seed": "a", "tags": ["a", 3]}') == [
        ("set_prompt.prompt", "missing"),
        ("set_prompt.strength", "-1 is below 0.0"),
        ("set_prompt.seed", '"a" is not a whole number'),
        ("set_prompt.tags.1", "3 is not a string"),
        ("set_prompt.promt", 'unknown argument, did you mean "prompt"?'),
    ]


def test_unknown_argument_far_from_any_has_no_suggestion() -> None:
    assert ("set_prompt.zzz", "unknown argument") in errors_of('{"zzz": 1}')


def test_error_text_joins_the_fields() -> None:
    with pytest.raises(InvalidEvent, match=r"set_prompt\.prompt: missing; set_prompt\.tags: missing"):
        PROMPT.validate("{}")


def test_all_required_asks_for_values_that_have_a_default() -> None:
    field = compile_field("brightness", float, InputField(default=1.0), Scope({}), "S.brightness")
    arguments = EventArguments("set_brightness", [field], all_required=True)
    assert errors_of("{}", arguments) == [("set_brightness.brightness", "missing")]
    assert arguments.to_json()["required"] == ["brightness"]
    assert arguments.to_json()["properties"] == {"brightness": {"type": "number", "default": 1.0}}


def test_schema_of_an_event_without_arguments() -> None:
    assert EventArguments("reset", []).to_json() == {"type": "object", "properties": {}, "additionalProperties": False}


def test_schema_lists_required_arguments_defaults_and_descriptions() -> None:
    schema = PROMPT.to_json()
    assert schema["required"] == ["prompt", "tags"]
    assert schema["properties"]["prompt"] == {"type": "string", "maxLength": 5, "description": "What to draw"}
    assert schema["properties"]["strength"]["default"] == 1.0
    assert schema["properties"]["seed"]["default"] is None


HOSTILE: list[Any] = [
    pytest.param("", id="empty"),
    pytest.param("null", id="null"),
    pytest.param("[]", id="list"),
    pytest.param('"prompt"', id="string"),
    pytest.param("{", id="cut off"),
    pytest.param("{'prompt': 1}", id="not JSON"),
    pytest.param("[" * 100_000, id="deep lists"),
    pytest.param('{"prompt": ' + "[" * 100_000 + "]" * 100_000 + "}", id="deep value"),
    pytest.param('{"a": ' * 50_000, id="deep objects"),
    pytest.param('{"strength": ' + "9" * 100_000 + "}", id="huge number"),
    pytest.param('{"strength": ' + "9" * 4_000 + "}", id="large number"),
    pytest.param('{"seed": 1e309}', id="overflow"),
    pytest.param('{"prompt": "' + "x" * 200_000 + '"}', id="long string"),
    pytest.param('{"' + "x" * 200_000 + '": 1}', id="long name"),
    pytest.param('{"prompt": "\\ud800"}', id="escaped half surrogate"),
    pytest.param('{"prompt": "\ud800"}', id="half surrogate"),
    pytest.param('{"tags": [' + ",".join("1" * 50_000) + "]}", id="many errors"),
    pytest.param('{"prompt": "a\x00b", "prompt": 3, "tags": []}', id="duplicate and control character"),
]


@pytest.mark.parametrize("data_json", HOSTILE)
def test_hostile_data_is_an_invalid_event_of_bounded_size(data_json: str) -> None:
    errors = errors_of(data_json)
    assert errors
    assert len(errors) <= 101
    assert all(len(path) + len(message) < 400 for path, message in errors)


def test_errors_past_the_bound_are_counted() -> None:
    errors = errors_of('{"prompt": "a", "tags": [' + ",".join("1" * 150) + "]}")
    assert errors[-1] == ("set_prompt", "and 50 more errors")


@given(st.text())
def test_text_that_is_no_json_is_an_invalid_event(text: str) -> None:
    assert errors_of(f"{text}!")


@given(
    st.fixed_dictionaries(
        {"prompt": st.text(max_size=6), "tags": st.lists(st.text())},
        optional={"strength": st.floats(-1, 9), "seed": st.none() | st.integers()},
    )
)
def test_accepted_data_always_has_every_argument(data: dict[str, object]) -> None:
    try:
        arguments = PROMPT.validate(json.dumps(data))
    except InvalidEvent:
        reject()
    assert set(arguments) == {"prompt", "strength", "seed", "tags"}


def test_threads_may_validate_at_once() -> None:
    results: list[object] = []

    def work() -> None:
        for number in range(200):
            results.append(PROMPT.validate(f'{{"prompt": "a", "tags": [], "seed": {number}}}')["seed"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == sorted(map(str, [*range(200)] * 4))
