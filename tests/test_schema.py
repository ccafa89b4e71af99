from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from reactor_runtime import (
    Audio,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    __version__,
    event,
    schema,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.errors import ClassError
from reactor_runtime.wire import openapi
from tests.docs.snippets import ROOT
from tests.openapi import Document, flaws, validator
from tests.template_projects import own_modules


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.5


def rich() -> type[ReactorPipeline]:
    """Make a model with one of everything a document has to describe."""

    class Sound(Audio):
        sample_rate = 24_000

    class Everything(Output):
        picture: Video
        sound: Sound

    class Progress(ModelMessage):
        """Say how far it is."""

        step: int
        of: int = MessageField(default=10, description="Steps in all")
        extra: dict[str, list[float]] | None = None

    class State(InputState):
        brightness: float = InputField(default=1.0, ge=0.0, lt=2.0, multiple_of=0.25, description="How bright")
        caption: str = InputField(default="hé", min_length=1, max_length=9, pattern="^[a-zé]+$")
        colour: Colour = Colour.RED
        mode: Literal["fast", "slow", 3] = "fast"
        seed: int | None = InputField(default=None, choices=[1, 2, 3])
        path: tuple[Point, ...] = InputField(default=(), max_length=3)
        weights: dict[str, float] | None = None
        corner: tuple[int, int] = (0, 0)
        _hidden: int = 3

    class Rich(ReactorPipeline):
        state: State
        fps = 24

        @event(name="jump to/…", description="Go there")
        def jump(self, to: Point, fast: bool = False) -> Progress:
            return Progress(step=int(to.x) + fast)

        @event(name="jump to-…")
        def jump_alike(self) -> None: ...

        def inference(self) -> Iterator[None]:
            yield None

    return Rich


@pytest.fixture(scope="module")
def document() -> Document:
    return schema.document("my-model", Contract.of(rich()))


def accepts(document: Document, component: str, value: Any) -> bool:
    return bool(validator(document, component).is_valid(value))


def test_an_independent_validator_finds_no_flaw(document: Document) -> None:
    assert flaws(document) == []


def test_the_validator_would_find_one(document: Document) -> None:
    assert flaws({**document, "paths": {"/": {"get": {"responses": {"200": {}}}}}})
    assert flaws({**document, "info": {"title": "no version"}})


def test_it_names_the_model_and_what_made_it(document: Document) -> None:
    assert document["openapi"] == "3.1.0"
    assert (document["info"]["title"], document["info"]["version"]) == ("my-model", __version__)
    assert document["x-reactor"]["protocol"] == "reactor.v1"


def test_it_names_a_server_and_the_ways_to_give_a_token(document: Document) -> None:
    assert document["servers"] == [{"url": "http://127.0.0.1:8080"}]
    assert document["security"] == [{}, {"bearer": []}, {"header": []}, {"query": []}]
    required = openapi.document("m", "1", Contract.of(rich()).to_json(), token_required=True)
    assert {} not in required["security"]
    assert {} in required["paths"]["/health"]["get"]["security"]
    assert [required["paths"][path]["get"]["security"] for path in ("/live", "/ready")] == [[], []]


def test_an_upload_has_a_body(document: Document) -> None:
    upload = document["paths"]["/uploads"]["post"]
    file = upload["requestBody"]["content"]["application/octet-stream"]["schema"]
    assert file == {"type": "string", "format": "binary"}


def test_it_names_the_tracks(document: Document) -> None:
    assert document["x-reactor"]["tracks"] == [
        {"name": "picture", "kind": "video", "direction": "out"},
        {"name": "sound", "kind": "audio", "direction": "out", "sample_rate": 24_000},
    ]
    assert {"image/jpeg", "audio/wav"} <= document["paths"]["/ws"]["get"]["responses"]["101"]["content"].keys()


def test_it_says_what_a_client_may_send_besides_text() -> None:
    said = Contract.of(rich()).to_json()
    camera = {"name": "camera", "kind": "video", "direction": "in"}
    described = openapi.document("m", "1", {**said, "tracks": [*said["tracks"], camera]})
    assert flaws(described) == []
    assert described["paths"]["/ws"]["get"]["description"].endswith("binary messages: image/jpeg.")


EVENTS = [
    ({"type": "set_brightness", "data": {"brightness": 0.5}, "id": 7}, True),
    ({"type": "set_brightness", "data": {"brightness": 2.0}}, False),
    ({"type": "set_brightness", "data": {}}, False),
    ({"type": "set_brightness"}, False),
    ({"type": "set_brightness", "data": {"brightness": 0.5}, "ID": 7}, False),
    ({"type": "set_caption", "data": {"caption": "é"}}, True),
    ({"type": "set_caption", "data": {"caption": "1"}}, False),
    ({"type": "set_colour", "data": {"colour": "blue"}}, True),
    ({"type": "set_mode", "data": {"mode": 3}}, True),
    ({"type": "set_mode", "data": {"mode": "3"}}, False),
    ({"type": "set_seed", "data": {"seed": None}}, True),
    ({"type": "set_seed", "data": {"seed": 4}}, False),
    ({"type": "set_path", "data": {"path": [{"x": 1}, {"x": 2, "y": 3}]}}, True),
    ({"type": "set_path", "data": {"path": [{"y": 1}]}}, False),
    ({"type": "set_corner", "data": {"corner": [1, 2]}}, True),
    ({"type": "set_corner", "data": {"corner": [1]}}, False),
    ({"type": "set_hidden", "data": {"hidden": 1}}, False),
    ({"type": "jump to/…", "data": {"to": {"x": 1}}}, True),
    ({"type": "jump to-…"}, True),
    ({"type": "reactor.ack", "data": {"track": "picture", "seq": 3}}, True),
    ({"type": "reactor.view"}, True),
    ({"type": "reactor.welcome", "data": {}}, False),
]


@pytest.mark.parametrize(("message", "fine"), EVENTS, ids=[str(message) for message, _ in EVENTS])
def test_a_client_may_say_what_the_model_takes(document: Document, message: dict[str, Any], fine: bool) -> None:
    assert accepts(document, "ClientMessage", message) is fine


@pytest.mark.parametrize(
    ("data", "fine"),
    [
        ({"step": 1, "of": 2, "extra": {"loss": [0.5]}}, True),
        ({"step": 1, "of": 2, "extra": None}, True),
        ({"step": "1", "of": 2, "extra": None}, False),
        ({"step": 1}, False),
    ],
)
def test_the_model_s_messages_are_described(document: Document, data: dict[str, Any], fine: bool) -> None:
    message = {"type": "progress", "data": data}
    assert accepts(document, "ServerMessage", message) is fine
    reply = {"type": "reactor.reply", "data": {"n": 1, "message": message}, "id": "a"}
    assert accepts(document, "ServerMessage", reply) is fine


def test_the_state_is_made_of_what_events_set(document: Document) -> None:
    fields = document["components"]["schemas"]["State"]["properties"]
    assert list(fields) == ["brightness", "caption", "colour", "mode", "seed", "path", "weights", "corner"]
    assert fields["brightness"]["description"] == "How bright"
    assert document["components"]["schemas"]["Event.set_brightness"]["x-reactor-field"] == "brightness"


def test_an_event_names_its_replies(document: Document) -> None:
    components = document["components"]["schemas"]
    assert components["Event.jump-to--"]["x-reactor-replies"] == [{"$ref": "#/components/schemas/Message.progress"}]
    assert components["Event.set_brightness"]["x-reactor-replies"] == [{"type": "null"}]


def test_a_fresh_state_is_one(document: Document) -> None:
    contract = Contract.of(rich())
    assert contract.state is not None
    assert accepts(document, "State", contract.state.to_json(contract.state.fresh()))


def test_names_openapi_has_no_letters_for_stay_apart(document: Document) -> None:
    mapping = document["components"]["schemas"]["ClientMessage"]["discriminator"]["mapping"]
    assert mapping["jump to/…"] == "#/components/schemas/Event.jump-to--"
    assert mapping["jump to-…"] == "#/components/schemas/Event.jump-to---2"


def test_a_model_without_events_and_messages_has_a_document_too() -> None:
    class Out(Output):
        picture: Video

    class State(InputState):
        pass

    class Bare(ReactorPipeline):
        state: State
        output: Out

    found = schema.document("bare", Contract.of(Bare))
    assert flaws(found) == []
    assert not accepts(found, "ClientMessage", {"type": "set_x", "data": {}})
    assert accepts(found, "ServerMessage", {"type": "reactor.reply", "data": {"n": 1}, "id": 1})


def test_the_outline_says_what_the_model_is() -> None:
    outline = schema.outline("my-model", Contract.of(rich()))
    assert (outline["name"], outline["fps"], outline["max_fps"], outline["buffer_size"]) == ("my-model", 24, 60, 4)
    assert [track["name"] for track in outline["tracks"]] == ["picture", "sound"]
    assert "set_brightness" in outline["events"]
    assert "progress" in outline["messages"]


def test_a_contract_needs_no_load(project: Path) -> None:
    found = schema.contract_of(project, "pipeline", "MyModel")
    assert "set_brightness" in found.events


def test_a_class_that_cannot_be_served_is_refused(project: Path) -> None:
    with pytest.raises(ClassError, match="has no class MyModell"):
        schema.contract_of(project, "pipeline", "MyModell")


@pytest.fixture
def project() -> Iterator[Path]:
    with own_modules():
        yield ROOT / "templates" / "pipeline"
