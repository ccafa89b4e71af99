"""The state of a model whose style requires none: a loop or a block model."""

from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError
from reactor_runtime.interface import InputState, Output, ReactorModel, Video, VideoModel, command, event


class MyOutput(Output):
    main_video: Video


class State(InputState):
    level: int = 1
    _steps: int = 0


class Loop(ReactorModel):
    state: State


class Early(ReactorModel):
    state: "Late"


class Late(InputState):
    speed: int = 2


class Blocks(VideoModel):
    state: State

    def start_session(self) -> None: ...


@pytest.mark.parametrize("model", [Loop, Blocks])
def test_each_public_field_has_an_event(model: type[Model]) -> None:
    events = Contract.of(model).events
    assert {name: spec.field for name, spec in events.items()} == {"set_level": "level"}


def test_the_state_may_be_defined_below_the_model_and_is_inherited() -> None:
    class Child(Early):
        pass

    assert list(Contract.of(Child).events) == ["set_speed"]


def test_a_handler_replaces_the_event_of_its_field() -> None:
    class Careful(Loop):
        @event(name="set_level")
        def raise_level(self, level: int) -> None: ...

    class Commanded(Blocks):
        @command("set_level")
        def raise_level(self, level: int) -> None: ...

    for model in (Careful, Commanded):
        spec = Contract.of(model).events["set_level"]
        assert (spec.method, spec.field) == ("raise_level", "level")


@pytest.mark.parametrize("base", [ReactorModel, VideoModel], ids=lambda base: base.__name__)
@pytest.mark.parametrize("hint", [int, dict[str, int], "list[str]"], ids=str)
def test_an_attribute_of_the_author_s_may_be_called_state(base: type[Model], hint: Any) -> None:
    body = {"__annotations__": {"state": hint}, "__module__": __name__, "start_session": lambda _: None}
    contract = Contract.of(type("Own", (base,), body))
    assert (contract.state, dict(contract.events)) == (None, {})


@pytest.mark.parametrize("base", [ReactorModel, VideoModel], ids=lambda base: base.__name__)
def test_a_state_can_t_be_optional(base: type[Model]) -> None:
    with pytest.raises(TypeError, match=r"Bad\.state must be annotated with a subclass of InputState, not .*None"):
        type("Bad", (base,), {"__annotations__": {"state": State | None}, "__module__": __name__})


def test_a_state_that_is_defined_nowhere_is_a_class_error() -> None:
    class Lost(ReactorModel):
        state: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ClassError, match=r"Lost\.state.*'Nowhere'.*not defined"):
        Contract.of(Lost)
