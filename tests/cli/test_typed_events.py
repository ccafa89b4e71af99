from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reactor_cli.typed_events import complete_event, parse_event, similar_event, split_event
from reactor_runtime.errors import UsageError


def event(**parameters: Any) -> dict[str, Any]:
    return {"parameters": {"type": "object", "properties": parameters}}


SCHEMA = {
    "events": {
        "set_prompt": event(prompt={"type": "string"}),
        "set_mode": event(mode={"type": "string", "enum": ["fast", "very slow"]}),
        "set_on": event(on={"type": "boolean"}),
        "splash": event(x={"type": "number"}, y={"anyOf": [{"type": "number"}, {"const": "middle"}]}),
        "set_image": event(image={"anyOf": [{"type": "object", "format": "upload"}, {"type": "null"}]}),
    }
}


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ('set_prompt prompt="a fox"', {"prompt": "a fox"}),
        ("set_prompt 'a = fox'", {"prompt": "a = fox"}),
        ("set_prompt prompt=5", {"prompt": "5"}),
        ("set_prompt prompt=@home", {"prompt": "@home"}),
        ("set_prompt prompt=", {"prompt": ""}),
        ("splash x=0.5 y=middle", {"x": 0.5, "y": "middle"}),
        ("set_on true", {"on": True}),
        ("unknown a='[1, 2]' b=null c=x", {"a": [1, 2], "b": None, "c": "x"}),
        ("splash", {}),
        ("splash x=NaN y=-Infinity", {"x": "NaN", "y": "-Infinity"}),
        ("splash x=@home", {"x": "@home"}),
        ("unknown 5", {}),
        ("unknown 5 b=1", {"b": 1}),
        ("unknown a=" + "[" * 100_000, {"a": "[" * 100_000}),
    ],
)
def test_values_have_the_types_of_the_schema(line: str, data: dict[str, Any]) -> None:
    typed = parse_event(line, SCHEMA)
    assert (typed.event, typed.data, typed.files) == (line.split()[0], data, {})


def test_a_file_is_given_by_its_path() -> None:
    assert parse_event("set_image @a/cat.png", SCHEMA).files == {"image": Path("a/cat.png")}


@pytest.mark.parametrize("line", ["", "  ", 'set_prompt "a', "splash 0.5", "splash x=1 0.5"])
def test_a_malformed_event_is_an_error(line: str) -> None:
    with pytest.raises(UsageError):
        parse_event(line, SCHEMA)


def test_a_line_is_split_without_a_schema() -> None:
    assert split_event("set_prompt 'a fox'") == ("set_prompt", ["a fox"])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", ["set_prompt ", "set_mode ", "set_on ", "splash ", "set_image "]),
        ("sp", ["splash "]),
        ("nothing", []),
        ("splash ", ["x=", "y="]),
        ("splash x=1 ", ["y="]),
        ("splash y=", ["y=middle "]),
        ("set_mode mode=", ["mode=fast ", "mode='very slow' "]),
        ("set_on on=t", ["on=true "]),
        ("unknown ", []),
    ],
)
def test_tab_completes_events_parameters_and_values(line: str, found: list[str]) -> None:
    assert complete_event(line, SCHEMA) == found


def test_the_most_similar_event_is_suggested() -> None:
    schema: dict[str, Any] = {"events": {"set_brightness": {}, "reset": {}}}
    assert similar_event("set_brihtness", schema) == "set_brightness"
    assert similar_event("xyz", schema) is None
