"""Authors' classes are dataclasses, with and without their own decorator."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from reactor_runtime import InputField, InputState, MessageField, ModelMessage, Output, Video

DECORATORS: list[Any] = [
    pytest.param(lambda cls: cls, id="undecorated"),
    pytest.param(dataclass, id="dataclass"),
    pytest.param(dataclass(slots=True), id="slots"),
    pytest.param(dataclass(kw_only=True), id="kw_only"),
    pytest.param(dataclass(slots=True, kw_only=True), id="slots and kw_only"),
    pytest.param(dataclass(eq=False), id="eq=False"),
]


@pytest.mark.parametrize("decorate", DECORATORS)
class TestEveryDecorator:
    def test_output_takes_its_fields_and_nothing_else(self, decorate: Callable[[Any], Any]) -> None:
        class MyOutput(Output):
            main_video: Video
            note: str = "none"

        cls: Any = decorate(MyOutput)
        assert isinstance(cls, type)
        assert dataclasses.is_dataclass(MyOutput)
        assert [field.name for field in dataclasses.fields(cls)] == ["main_video", "note"]
        assert (cls(main_video=1).main_video, cls(main_video=1).note) == (1, "none")
        with pytest.raises(TypeError, match="main_video"):
            cls()
        with pytest.raises(TypeError, match="extra"):
            cls(main_video=1, extra=2)

    def test_state_starts_with_its_defaults(self, decorate: Callable[[Any], Any]) -> None:
        class MyState(InputState):
            brightness: float = InputField(default=1, ge=0.0)
            plain: int = 3
            _seen: list[int] = dataclasses.field(default_factory=list)

        cls: Any = decorate(MyState)
        one, two = cls(), cls()
        assert (one.brightness, one.plain, one._seen) == (1.0, 3, [])
        assert type(one.brightness) is float
        assert one._seen is not two._seen

    def test_message_takes_defaults(self, decorate: Callable[[Any], Any]) -> None:
        class Progress(ModelMessage):
            step: int
            total: int = 10

        message = decorate(Progress)(step=1)
        assert (message.step, message.total) == (1, 10)


def test_frozen_message_works() -> None:
    @dataclass(frozen=True)
    class Progress(ModelMessage):
        step: int

    assert Progress(3).step == 3


def test_undecorated_child_of_a_decorated_parent_has_both_fields() -> None:
    @dataclass
    class Parent(Output):
        left: Video

    class Child(Parent):
        right: Video

    class Grandchild(Child):
        middle: Video

    assert [field.name for field in dataclasses.fields(Grandchild)] == ["left", "right", "middle"]
    assert repr(Child(left=1, right=2)).endswith("Child(left=1, right=2)")


def test_fields_are_there_before_the_first_instance() -> None:
    class Progress(ModelMessage):
        step: int

    assert [field.name for field in dataclasses.fields(Progress)] == ["step"]


def test_undecorated_class_has_a_repr_and_equality() -> None:
    class Progress(ModelMessage):
        step: int

    assert repr(Progress(3)).endswith("Progress(step=3)")
    assert Progress(3) == Progress(3)
    assert Progress(3) != Progress(4)


def test_decorator_after_the_class_was_looked_at_still_works() -> None:
    class Progress(ModelMessage):
        step: int = 0

    assert Progress().step == 0
    assert dataclass(Progress)(step=2).step == 2


@pytest.mark.parametrize("decorate", [lambda cls: cls, dataclass, dataclass(slots=True)], ids=["no", "yes", "slots"])
def test_fields_without_a_default_come_first(decorate: Callable[[Any], Any]) -> None:
    class Said(ModelMessage):
        step: int = 1
        text: str  # type: ignore[misc]  # as programs have it
        note: str = MessageField("", description="More")
        total: int = MessageField(description="Steps in all")

    said = decorate(Said)
    assert [field.name for field in dataclasses.fields(said)] == ["text", "total", "step", "note"]
    assert dataclasses.asdict(said("a", 2)) == {"text": "a", "total": 2, "step": 1, "note": ""}
    with pytest.raises(TypeError, match="text"):
        said(total=3)


def test_a_required_field_may_follow_the_defaults_of_a_parent() -> None:
    class Parent(ModelMessage):
        step: int = 1
        text: str = ""

    class Child(Parent):
        text: str  # type: ignore[misc]
        total: int  # type: ignore[misc]

    child: Any = Child
    assert dataclasses.asdict(child(3, total=4)) == {"step": 3, "text": "", "total": 4}
    with pytest.raises(TypeError, match="total"):
        child(3)


def test_a_track_may_follow_other_fields_of_an_output() -> None:
    class Noted(Output):
        note: str = ""
        video: Video  # type: ignore[misc]

    noted: Any = Noted
    assert (noted(video=1).video, noted(video=1).note) == (1, "")
