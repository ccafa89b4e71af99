"""The schemas of client messages agree with the codec, which is independent code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reactor_runtime.errors import WireError
from reactor_runtime.wire.codec import decode_text
from reactor_runtime.wire.schemas import from_client, from_server

SAID = [
    {"type": "reactor.ack", "data": {"track": "main", "seq": 0}},
    {"type": "reactor.ack", "data": {"track": "main", "seq": 2**32 - 1}, "id": 3},
    {"type": "reactor.ack", "data": {"track": "main", "seq": 2**32}},
    {"type": "reactor.ack", "data": {"track": "main", "seq": -1}},
    {"type": "reactor.ack", "data": {"track": "main", "seq": True}},
    {"type": "reactor.ack", "data": {"track": "", "seq": 1}},
    {"type": "reactor.ack", "data": {"track": "main"}},
    {"type": "reactor.ack", "data": {"track": "main", "seq": 1, "more": 1}},
    {"type": "reactor.ack"},
    {"type": "reactor.here"},
    {"type": "reactor.here", "data": {}, "id": 1},
    {"type": "reactor.here", "data": {"still": True}},
    {"type": "reactor.keep"},
    {"type": "reactor.key"},
    {"type": "reactor.key", "data": {"track": ""}},
    {"type": "reactor.key", "data": {"track": "main_video"}},
    {"type": "reactor.key", "data": {"track": "main_video", "seq": 1}},
    {"type": "reactor.keep", "data": {"seconds": 60}},
    {"type": "reactor.ping", "data": {"t": 1.5}},
    {"type": "reactor.ping", "data": {"t": "noon"}, "id": "a"},
    {"type": "reactor.ping", "data": {"t": None}},
    {"type": "reactor.ping", "data": {"t": False}},
    {"type": "reactor.ping", "data": {}},
    {"type": "reactor.ping", "data": {"t": 1}, "id": 1.5},
    {"type": "reactor.ping", "data": {"t": 1}, "id": None},
    {"type": "reactor.ping", "data": {"t": 1}, "more": 1},
    {"type": "reactor.reload"},
    {"type": "reactor.reload", "data": {}},
    {"type": "reactor.reload", "data": {"full": True}},
    {"type": "reactor.step"},
    {"type": "reactor.step", "data": {}, "id": 1},
    {"type": "reactor.step", "data": {"n": 0, "reset": True, "seed": None}},
    {"type": "reactor.step", "data": {"n": 10_000, "seed": 2**32 - 1}},
    {"type": "reactor.step", "data": {"n": 10_001}},
    {"type": "reactor.step", "data": {"seed": 2**32}},
    {"type": "reactor.step", "data": {"reset": 1}},
    {"type": "reactor.step", "data": {"state": {"level": [1]}, "media": {"camera": 2}}},
    {"type": "reactor.step", "data": {"state": None}},
    {"type": "reactor.step", "data": {"commands": [{"command": "go"}, {"command": "go", "data": {"x": 1}}]}},
    {"type": "reactor.step", "data": {"commands": [{"command": "go", "more": 1}]}},
    {"type": "reactor.step", "data": {"commands": [{"data": {}}]}},
    {"type": "reactor.step", "data": {"commands": [{"command": "go", "data": None}]}},
    {"type": "reactor.step", "data": {"media": {"camera": -1}}},
    {"type": "reactor.step", "data": {"media": []}},
    {"type": "reactor.step", "data": {"speed": 1}},
    {"type": "reactor.view"},
    {"type": "reactor.view", "data": {}},
    {"type": "reactor.view", "data": None},
    {"type": "reactor.view", "data": {"paused": True, "max_fps": None, "tracks": None}},
    {"type": "reactor.view", "data": {"max_fps": 0.01, "tracks": ["a", "b"]}},
    {"type": "reactor.view", "data": {"max_fps": 0.001}},
    {"type": "reactor.view", "data": {"max_fps": True}},
    {"type": "reactor.view", "data": {"max_fps": 1e300}},
    {"type": "reactor.view", "data": {"paused": None}},
    {"type": "reactor.view", "data": {"tracks": [1]}},
    {"type": "reactor.view", "data": {"tracks": "a"}},
    {"type": "reactor.view", "data": {"codecs": ["h264"]}},
    {"type": "reactor.view", "data": {"codecs": None}},
    {"type": "reactor.view", "data": {"codecs": [1]}},
    {"type": "reactor.view", "data": {"codecs": ["a"] * 17}},
    {"type": "reactor.view", "data": {"speed": 1}},
]


@pytest.mark.parametrize("message", SAID, ids=json.dumps)
def test_a_message_fits_its_schema_if_the_codec_takes_it(message: dict[str, Any]) -> None:
    schema = Draft202012Validator(from_client()[message["type"]])
    assert schema.is_valid(message) is _taken(message)


def _taken(message: dict[str, Any]) -> bool:
    try:
        decode_text(json.dumps(message))
    except WireError:
        return False
    return True


@pytest.mark.parametrize("kind", [*from_client(), *from_server(replies=[])])
def test_every_message_has_a_description(kind: str) -> None:
    schema = {**from_client(), **from_server(replies=[])}[kind]
    assert schema["properties"]["type"]["const"] == kind
    assert schema["description"].endswith(".")
