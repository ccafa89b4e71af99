"""Which outputs and messages belong to a model."""

import sys
import types
from typing import Any

import pytest

from reactor_runtime import InputState, ModelMessage, Output, ReactorPipeline, Video
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.discovery import find
from tests.authoring.tracks import neighbour as neighbour_module
from tests.authoring.tracks.neighbour import NeighbourOutput as ImportedOutput


class State(InputState):
    pass


class ModuleOutput(Output):
    main: Video


class ModuleMessage(ModelMessage):
    pass


class ModuleModel(ReactorPipeline):
    state: State


class LaterOutput(Output):
    later: Video


def names(found: tuple[type, ...]) -> list[str]:
    return [cls.__name__ for cls in found]


def test_model_has_the_outputs_defined_in_or_imported_into_its_module() -> None:
    assert set(find(ModuleModel, Output)) == {ImportedOutput, ModuleOutput, LaterOutput}
    assert find(ModuleModel, ModelMessage) == (ModuleMessage,)


def test_module_that_is_imported_does_not_lend_its_own() -> None:
    assert neighbour_module.NeighbourMessage not in find(ModuleModel, ModelMessage)


def test_model_in_a_function_has_those_beside_it() -> None:
    class LocalOutput(Output):
        local: Video

    class LocalMessage(ModelMessage):
        pass

    class Local(ReactorPipeline):
        state: State

    assert find(Local, Output) == (LocalOutput,)
    assert find(Local, ModelMessage) == (LocalMessage,)


def test_two_models_in_one_process_do_not_see_each_other() -> None:
    def make(track: str) -> type[ReactorPipeline]:
        output = type("MyOutput", (Output,), {"__annotations__": {track: Video}, "__module__": __name__})
        assert output

        class Local(ReactorPipeline):
            state: State

        return Local

    one, two = Contract.of(make("one")), Contract.of(make("two"))
    assert ([track.name for track in one.tracks], [track.name for track in two.tracks]) == (["one"], ["two"])


def test_model_in_a_function_without_any_has_those_of_the_module() -> None:
    class Local(ReactorPipeline):
        state: State

    assert ModuleOutput in find(Local, Output)


def test_a_subclass_in_another_module_keeps_its_parent_s_outputs() -> None:
    class LocalOutput(Output):
        local: Video

    class Child(ModuleModel):
        pass

    assert find(Child, Output)[0] is LocalOutput
    assert ModuleOutput in find(Child, Output)


@pytest.fixture
def other_module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("other_model")
    monkeypatch.setitem(sys.modules, "other_model", module)
    source = (
        "from reactor_runtime import *\n"
        "from reactor_runtime.interface import Output as Renamed\n"
        "class OtherState(InputState):\n    x: int = 1\n"
        "class OtherOutput(Output):\n    other: Video\n"
        "class OtherModel(ReactorPipeline):\n    state: OtherState\n"
    )
    exec(source, vars(module))
    return module


def test_our_own_classes_in_a_module_are_not_its_outputs(other_module: Any) -> None:
    assert names(find(other_module.OtherModel, Output)) == ["OtherOutput"]


def test_slots_output_is_found_once_and_as_it_is_used(other_module: Any) -> None:
    exec("import dataclasses\nOtherOutput = dataclasses.dataclass(slots=True)(OtherOutput)", vars(other_module))
    assert find(other_module.OtherModel, Output) == (other_module.OtherOutput,)
