"""`ModelContract`, manifests and schemas as the tests of programs for 3.x use them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from reactor_runtime import (
    Audio,
    Command,
    CommandError,
    FieldInfo,
    InputBuffer,
    InputField,
    InputState,
    MediaInput,
    Metadata,
    ModelMessage,
    Output,
    OutputBuffer,
    OutputStream,
    ReactorPipeline,
    Track,
    Video,
    errors,
)
from reactor_runtime.authoring.events.messages import message_to_json
from reactor_runtime.interface.model.contract import ModelContract
from reactor_runtime.manifest import import_model_class, load_config
from reactor_runtime.schema import render
from reactor_runtime.testing import Studio
from tests.openapi import flaws

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
from reactor_runtime import *

class Out(Output):
    main_video: Video
    voice: Audio

class Room(Input):
    camera: Video

class StateUpdate(ModelMessage):
    prompt: str

class Steering(InputState):
    prompt: str = InputField(default="a cat", max_length=40, description="What to show", moderate=True)
    speed: float = 1

class World(ReactorPipeline):
    state: Steering
    room: Room

    @event(name="turn", description="Turn the camera")
    def turn(self, angle: float = InputField(ge=-1, le=1), times: int = 1) -> StateUpdate:
        return StateUpdate(prompt="")

    @connected
    async def greet(self, client) -> None: ...

    def inference(self):
        yield Idle
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "world_of_3x.py").write_text(PROGRAM)
    (tmp_path / "reactor.yaml").write_text("model: world_of_3x:World\n")
    return tmp_path


@pytest.fixture
def world(project: Path) -> type:
    return import_model_class(load_config(project / "reactor.yaml").model_ref, project)


def test_a_manifest_is_found_by_its_file_and_by_its_directory(project: Path) -> None:
    assert load_config(project) == load_config(str(project / "reactor.yaml"))
    assert load_config(project).model_ref == "world_of_3x:World"


@pytest.mark.parametrize(
    ("ref", "message"),
    [("world_of_3x.World", "isn't of the form module:Class"), ("world_of_3x:Wrld", "has no class Wrld")],
)
def test_a_wrong_reference_is_an_error_with_the_fix(project: Path, ref: str, message: str) -> None:
    with pytest.raises(errors.UsageError, match=message) as raised:
        import_model_class(ref, project)
    assert raised.value.hint


def test_commands_have_their_fields(world: type) -> None:
    contract = ModelContract.of(world)
    turn = contract.commands["turn"]
    assert (turn.description, turn.response) == ("Turn the camera", contract.messages["state_update"])
    assert isinstance(turn.command, Command)
    angle, times = (turn.command.__command_fields__[name].info for name in ("angle", "times"))
    assert isinstance(angle, FieldInfo)
    assert (angle.ge, angle.le, angle.default, times.default, times.moderate) == (-1, 1, dataclasses.MISSING, 1, False)
    prompt = contract.commands["set_prompt"].command.__command_fields__["prompt"].info
    assert (prompt.description, prompt.moderate, prompt.default, prompt.max_length, prompt.ge) == (
        "What to show",
        True,
        "a cat",
        40,
        None,
    )
    assert contract.commands["set_speed"].command.__command_fields__["speed"].info.default == 1.0
    with pytest.raises(AttributeError, match="no attribute 'maximum'"):
        _ = prompt.maximum


def test_the_life_cycle_has_the_methods_of_the_class(world: type) -> None:
    lifecycle = ModelContract.of(world).lifecycle
    assert lifecycle.connected is vars(world)["greet"]
    assert lifecycle.disconnected is None
    with pytest.raises(AttributeError):
        _ = lifecycle.started


def test_tracks_are_by_name(world: type) -> None:
    tracks = ModelContract.of(world).tracks
    assert {name: (track.kind, track.direction) for name, track in tracks.items()} == {
        "main_video": ("video", "out"),
        "voice": ("audio", "out"),
        "camera": ("video", "in"),
    }


def test_the_schema_has_an_operation_for_each_event_and_a_webhook_for_each_message(world: type) -> None:
    document = ModelContract.of(world).render_schema().to_openapi()
    body = document["paths"]["/events/turn"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["angle"]
    moderated = document["paths"]["/events/set_prompt"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert moderated["properties"]["prompt"]["x-reactor-moderate"] is True
    message = document["webhooks"]["state_update"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert message["properties"] == {"prompt": {"type": "string"}}
    assert document["x-reactor"]["tracks"] == [
        {"name": "main_video", "kind": "video", "direction": "out"},
        {"name": "voice", "kind": "audio", "direction": "out"},
        {"name": "camera", "kind": "video", "direction": "in"},
    ]
    assert document["info"]["title"] == "world"


def test_the_document_is_valid_with_an_event_called_like_a_route(tmp_path: Path) -> None:
    named = PROGRAM.replace('@event(name="turn"', '@event(name="upload"')
    (tmp_path / "named_like_a_route.py").write_text(named)
    world = import_model_class("named_like_a_route:World", tmp_path)
    document = ModelContract.of(world).render_schema().to_openapi()
    assert not flaws(document)
    operations = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(set(operations))
    assert {"set_prompt", "upload", "upload_event"} <= set(operations)


def test_the_schema_of_a_project_is_written_with_a_version(project: Path) -> None:
    command = [sys.executable, "-m", "reactor_runtime.schema", "--path", str(project), "--version", "v7"]
    done = subprocess.run([*command, "--out", str(project / "schema.json")], cwd=ROOT, capture_output=True, check=True)
    document = json.loads((project / "schema.json").read_text())
    assert (done.stdout, document["info"]["version"]) == (b"", "v7")
    assert document == json.loads(json.dumps(render(project, version="v7").to_openapi()))


def test_the_schema_of_no_project_is_an_error_with_the_fix(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reactor_runtime.schema", "--path", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no reactor.yaml in ")


def test_outputs_and_inputs_describe_their_tracks() -> None:
    class Phone(Audio):
        sample_rate = 8_000
        buffer_seconds = 2.5

    class Base(Output):
        main_video: Video

    class More(Base):
        phone: Phone

    assert list(Base.__tracks__) == ["main_video"]
    assert [(track.name, track.sample_rate, track.buffer_seconds) for track in More.__tracks__.values()] == [
        ("main_video", None, None),
        ("phone", 8_000, 2.5),
    ]
    assert not Output.__tracks__
    assert More(main_video=1, phone=2).__tracks__ is More.__tracks__


@pytest.mark.parametrize("wrong", [0, -1.0, "2", True, float("inf")])
def test_a_wrong_bound_of_a_buffer_is_an_error(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"Phone\.buffer_seconds must be a number above 0 or None"):
        type("Phone", (Audio,), {"buffer_seconds": wrong})


def test_moderate_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="InputField takes moderate=True"):
        InputField(default="", moderate="yes")  # type: ignore[arg-type]


def test_the_types_for_annotations_are_those_of_the_objects() -> None:
    class Room(MediaInput):
        camera: Video

    class Out(Output):
        video: Video

    class Steered(InputState):
        speed: float = 1

    class Model(ReactorPipeline):
        state: Steered
        room: Room

        def load(self, _: object) -> None:
            # Bound before load().
            self.bound = self.room.camera

    with Studio(Model) as studio:
        assert isinstance(studio.model.bound, InputBuffer)
        assert isinstance(studio.model.output_buffer, OutputBuffer)
        assert isinstance(studio.model.output_buffer, OutputStream)
    assert isinstance(Out.__tracks__["video"], Track)
    assert isinstance(Room.__tracks__["camera"], Track)
    assert isinstance({"pose": [0.0]}, Metadata)
    assert isinstance(b"\x00", Metadata)


def test_an_error_takes_its_parts_by_position_and_by_name() -> None:
    assert str(CommandError(code="busy", message="later")) == str(CommandError("busy", "later")) == "busy: later"


def test_a_message_may_be_called_command_error() -> None:
    class CommandError(ModelMessage):
        code: str
        reason: str = ""

    assert message_to_json(CommandError(code="busy")) == ("command_error", {"code": "busy", "reason": ""})
