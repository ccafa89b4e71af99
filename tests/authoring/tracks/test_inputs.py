"""Which attributes of a model are inputs, which tracks they bring, and what is refused."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from reactor_runtime import Audio, Input, InputState, Output, ReactorPipeline, Video
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer, WaitTimer
from reactor_runtime.authoring.tracks.inputs import inputs_of, make_input
from reactor_runtime.authoring.tracks.tracks import TrackSpec, tracks_of
from reactor_runtime.errors import ClassError
from tests.fakes import FakeClock


class Telephone(Audio):
    sample_rate = 8_000


class Room(Input):
    camera: Video
    voice: Telephone
    _note: str = "not a track"
    known: ClassVar[int] = 0


class Desk(Input):
    screen: Video


class State(InputState):
    pass


class Model(ReactorPipeline):
    state: State


def no_buffer() -> InputBuffer[Any]:
    clock = FakeClock()
    return InputBuffer(
        clock, lambda work: work(), waits=WaitTimer(clock), on_bad=lambda *_: None, on_available=lambda: None
    )


def test_fields_annotated_video_or_audio_are_tracks_that_come_in() -> None:
    assert tracks_of(Room) == (
        TrackSpec("camera", "video", "in", None),
        TrackSpec("voice", "audio", "in", 8_000),
    )


def test_child_keeps_the_tracks_of_its_parent() -> None:
    class Child(Desk):
        extra: Video

    assert [track.name for track in tracks_of(Child)] == ["screen", "extra"]


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"slots": True}, {"kw_only": True}], ids=str)
def test_decorated_input_is_the_same(options: dict[str, bool]) -> None:
    @dataclass(**options)
    class Decorated(Input):
        camera: Video
        note: list[int] = field(default_factory=list)

    buffer = no_buffer()
    made: Any = make_input(Decorated, {"camera": buffer})
    assert [track.name for track in tracks_of(Decorated)] == ["camera"]
    assert (made.camera, made.note) == (buffer, [])


def test_contract_lists_inputs_by_attribute_and_their_tracks_after_the_outputs() -> None:
    class Shown(Output):
        main: Video

    class Two(Model):
        output: Shown
        input: Room
        beside: Desk

    contract = Contract.of(Two)
    assert contract.inputs == {"input": Room, "beside": Desk}
    assert contract.to_json()["tracks"] == [
        {"name": "main", "kind": "video", "direction": "out"},
        {"name": "camera", "kind": "video", "direction": "in"},
        {"name": "voice", "kind": "audio", "direction": "in", "sample_rate": 8000},
        {"name": "screen", "kind": "video", "direction": "in"},
    ]


def test_model_without_an_input_has_none() -> None:
    assert Contract.of(Model).inputs == {}


def test_inherited_annotations_count_and_the_nearest_wins() -> None:
    class Mixin:
        beside: Desk

    class Parent(Mixin, Model):
        input: Room

    class Child(Parent):
        pass

    class Other(Parent):
        input: Desk  # type: ignore[assignment]
        beside: int  # type: ignore[assignment]

    assert inputs_of(Child) == {"beside": Desk, "input": Room}
    assert inputs_of(Other) == {"input": Desk}


BELOW = """
from __future__ import annotations
from reactor_runtime import Input, InputState, ReactorPipeline, Video

class State(InputState):
    pass

class Model(ReactorPipeline):
    state: State
    input: Below
    other: NotThere

class Below(Input):
    camera: Video
"""


def test_input_defined_below_the_model_is_found_by_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("author_program")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(BELOW, vars(module))
    assert Contract.of(module.Model).inputs == {"input": module.Below}


def test_input_that_is_never_defined_is_a_class_error_that_names_it() -> None:
    class Typo(Model):
        input: Ruum  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ClassError, match=r"Typo\.input: .*'Ruum', which is not defined"):
        Contract.of(Typo)


def test_other_annotations_may_use_names_imported_only_for_type_checkers() -> None:
    class Typed(Model):
        pipe: DiffusionPipeline  # type: ignore[name-defined]  # noqa: F821
        broken: list[int](3)  # type: ignore[valid-type]
        input: Room

    assert Contract.of(Typed).inputs == {"input": Room}


T = TypeVar("T")


def test_generic_attribute_is_no_input() -> None:
    class Common(Model, Generic[T]):
        input: T

    assert inputs_of(Common) == {}


@pytest.mark.parametrize(
    "annotation", ["Room | None", "list[Room]", "ClassVar[Room]", "Room | Desk"], ids=lambda text: text
)
def test_input_that_might_not_be_there_is_refused(annotation: str) -> None:
    with pytest.raises(TypeError, match=r"Bad\.input: an input is never None; annotate it Room"):
        type("Bad", (Model,), {"__annotations__": {"input": annotation}, "__module__": __name__})


def test_input_itself_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad\.input: annotate it with a subclass of Input"):

        class Bad(Model):
            input: Input


def test_input_annotated_twice_names_both() -> None:
    with pytest.raises(TypeError, match="Bad: left and right are both annotated Room"):

        class Bad(Model):
            left: Room
            right: Room


def test_input_annotated_again_by_a_child_under_another_name_names_both() -> None:
    class Parent(Model):
        left: Room

    with pytest.raises(TypeError, match="Bad: left and right are both annotated Room"):

        class Bad(Parent):
            right: Room


def test_same_track_in_two_inputs_names_both() -> None:
    class Wider(Desk):
        other: Video

    with pytest.raises(TypeError, match="Bad: track 'screen' is in both Desk and Wider; rename"):

        class Bad(Model):
            one: Desk
            two: Wider


def test_same_track_in_and_out_names_both() -> None:
    class Shown(Output):
        screen: Video

    with pytest.raises(TypeError, match="Bad: track 'screen' is an input in Desk and an output in Shown; rename"):

        class Bad(Model):
            output: Shown
            input: Desk


@pytest.mark.parametrize("name", ["connected", "output_buffer", "load", "state", "fps", "_reactor_runtime"])
def test_names_of_the_model_cannot_be_inputs(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Bad\.{name}"):
        type("Bad", (Model,), {"__annotations__": {name: Room}})


@pytest.mark.parametrize("annotation", ["Video | None", "list[Video]"])
def test_optional_track_is_refused(annotation: str) -> None:
    with pytest.raises(TypeError, match=r"Bad\.camera: a track is never None; annotate it Video or Audio"):
        type("Bad", (Input,), {"__annotations__": {"camera": annotation}, "__module__": __name__})


def test_field_that_is_no_track_needs_a_default() -> None:
    with pytest.raises(TypeError, match=r"Bad\.camera: annotate it Video or Audio, or give it a default"):

        class Bad(Input):
            camera: int


def test_a_model_that_is_not_run_raises_an_error_with_the_reason() -> None:
    class Early(Model):
        input: Room

        def __init__(self) -> None:
            self.input.camera.clear()

    with pytest.raises(RuntimeError, match=r"Early is not running: use self\.input in load\(\)"):
        Early()
    assert hasattr(Early, "input")


async def test_model_finds_its_buffers_where_the_runtime_put_them() -> None:
    class Reads(Model):
        input: Desk

        async def look(self) -> list[Any]:
            return list(await self.input.screen.read(1))

    model, buffer = Reads(), no_buffer()
    vars(model)["input"] = make_input(Contract.of(Reads).inputs["input"], {"screen": buffer})
    buffer.push(Item("a picture"))
    assert await model.look() == ["a picture"]
