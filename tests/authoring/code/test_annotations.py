"""Annotations as text, and names local to the function a class is defined in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional

import pytest

from reactor_runtime import ClientInfo, InputState, ModelMessage, Output, ReactorPipeline, Video, event
from reactor_runtime.authoring.code.annotations import Scope, is_class_variable, type_name, union_options
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.authoring.tracks.tracks import tracks_of

if TYPE_CHECKING:
    from decimal import Decimal


class Quality(Enum):
    LOW = "low"


def test_class_in_a_function_finds_the_names_beside_it() -> None:
    class Mode(Enum):
        ON = "on"

    class Modes(InputState):
        mode: Mode = Mode.ON
        quality: Quality = Quality.LOW

    assert StateSpec.of(Modes).to_json(Modes()) == {"mode": "on", "quality": "low"}


def test_class_in_a_class_body_finds_the_names_around_both() -> None:
    class Mode(Enum):
        ON = "on"

    class Around:
        class Inner(Enum):
            A = "a"

        class Modes(InputState):
            mode: Mode = Mode.ON
            inner: Inner | None = None  # type: ignore[name-defined]  # noqa: F821

    assert StateSpec.of(Around.Modes).to_json(Around.Modes()) == {"mode": "on", "inner": None}


def test_dataclass_in_a_function_finds_the_names_beside_it() -> None:
    class Mode(Enum):
        ON = "on"

    @dataclass(frozen=True)
    class Point:
        x: float
        mode: Mode = Mode.ON

    class Places(InputState):
        point: Point = Point(1.0)

    assert StateSpec.of(Places).to_json(Places()) == {"point": {"x": 1.0, "mode": "on"}}


def test_handler_finds_names_of_function_and_of_its_class() -> None:
    class Mode(Enum):
        ON = "on"

    class Modes(InputState):
        pass

    class Pipeline(ReactorPipeline):
        state: Modes

        class Inner(Enum):
            A = "a"

        @event(name="go")
        def go(self, client: ClientInfo, mode: Mode, inner: Inner, quality: Quality) -> None: ...

    spec = Contract.of(Pipeline).events["go"]
    assert spec.client_parameter == "client"
    arguments = spec.validate('{"mode": "on", "inner": "a", "quality": "low"}')
    assert arguments == {"mode": Mode.ON, "inner": Pipeline.Inner.A, "quality": Quality.LOW}


def test_forward_references_inside_of_types_are_found() -> None:
    class Holder(InputState):
        one: Optional[Quality] = None  # noqa: UP045
        many: dict[str, list[Quality]] | None = None

    assert [field.name for field in StateSpec.of(Holder).fields] == ["one", "many"]


def test_output_annotations_as_text_are_tracks() -> None:
    class MyOutput(Output):
        main_video: Video
        note: str = ""

    assert [track.name for track in tracks_of(MyOutput)] == ["main_video"]


def test_a_name_imported_only_for_type_checkers_is_named_in_the_error() -> None:
    with pytest.raises(TypeError, match=r"Prices\.price.*'Decimal'.*not defined.*TYPE_CHECKING"):

        class Prices(InputState):
            price: Decimal = None  # type: ignore[assignment]


def test_message_types_for_type_checkers_alone_are_fine() -> None:
    class Price(ModelMessage):
        price: Decimal

    assert Price(price=None)  # type: ignore[arg-type]


def test_annotation_that_raises_names_the_field() -> None:
    with pytest.raises(TypeError, match=r"Broken\.x: the annotation '1 / 0' can't be evaluated: division by zero"):
        type("Broken", (InputState,), {"__annotations__": {"x": "1 / 0"}, "x": 1})


def test_names_around_a_class_are_not_kept() -> None:
    import gc
    import weakref

    class Heavy:
        pass

    def define() -> tuple[type[InputState], weakref.ref[Heavy]]:
        heavy = Heavy()

        class Modes(InputState):
            mode: Literal["a", "b"] = "a"

        return Modes, weakref.ref(heavy)

    cls, heavy = define()
    gc.collect()
    assert cls is not None
    assert heavy() is None


@pytest.mark.parametrize(
    ("hint", "name"),
    [(int, "int"), (list[int], "list[int]"), (Optional[int], "Optional[int]"), (Literal["a"], "Literal['a']")],  # noqa: UP045
    ids=str,
)
def test_type_is_named_as_written(hint: Any, name: str) -> None:
    assert type_name(hint) in (name, "int | None")


def test_scope_resolves_class_variables() -> None:
    assert is_class_variable(Scope({"ClassVar": ClassVar}).resolve("ClassVar[int]", "x"))
    assert not is_class_variable(int)


def test_union_options() -> None:
    assert union_options(int | str) == (int, str)
    assert union_options(int) == (int,)
