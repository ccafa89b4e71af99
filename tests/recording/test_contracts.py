from __future__ import annotations

import copy
from typing import Any

import pytest

from reactor_runtime.recording.contracts import contract_differences

CONTRACT: dict[str, Any] = {
    "tracks": [{"name": "main_video", "kind": "video", "direction": "out"}],
    "schema": {
        "events": {
            "set_gain": {
                "description": "Gain",
                "parameters": {
                    "type": "object",
                    "properties": {"gain": {"type": "number", "maximum": 2.0, "default": 1.0, "description": "Gain"}},
                },
            }
        },
        "messages": {"nudged": {"data": {"properties": {"description": {"type": "string"}}}}},
    },
}


def changed() -> dict[str, Any]:
    return copy.deepcopy(CONTRACT)


def test_equal_contracts_have_no_differences() -> None:
    assert contract_differences(CONTRACT, changed()) == []


@pytest.mark.parametrize("field", ["gain", "light_properties", "properties", "default"])
def test_what_a_page_shows_may_differ(field: str) -> None:
    recorded, other = changed(), changed()
    for contract in (recorded, other):
        properties = contract["schema"]["events"]["set_gain"]["parameters"]["properties"]
        properties[field] = properties.pop("gain")
    properties[field] |= {"default": 0.5, "description": "How loud", "x-reactor-ui": {"widget": "slider"}}
    assert contract_differences(recorded, other) == []


def test_tracks_events_and_messages_are_compared() -> None:
    other = changed()
    other["tracks"][0]["name"] = "video"
    other["schema"]["events"]["set_gain"]["parameters"]["properties"]["gain"]["maximum"] = 3.0
    other["schema"]["messages"]["nudged"]["data"]["properties"]["description"]["type"] = "integer"
    assert contract_differences(CONTRACT, other) == [
        "track main_video is gone",
        "track video is new",
        "event set_gain: properties.gain.maximum was 2.0, is 3.0",
        "message nudged: data.properties.description.type was 'string', is 'integer'",
    ]
