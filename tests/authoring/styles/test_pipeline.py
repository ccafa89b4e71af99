"""`ReactorPipeline`: its state, and what is no frame."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import pytest

from reactor_runtime import Idle, InputState, ReactorPipeline
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import declared_seat_state, declared_state
from reactor_runtime.authoring.styles.pipeline import _IdleType, is_idle
from reactor_runtime.errors import ClassError

S = TypeVar("S", bound=InputState)


class State(InputState):
    x: int = 1


class Early(ReactorPipeline):
    state: "Late"


class Late(InputState):
    y: int = 2


def test_state_may_be_defined_below_the_model() -> None:
    assert declared_state(Early) is Late


def test_nearest_state_wins() -> None:
    class Parent(ReactorPipeline):
        state: State

    class Finer(State):
        z: int = 3

    class Child(Parent):
        state: Finer

    class Grandchild(Child):
        pass

    assert (declared_state(Parent), declared_state(Child), declared_state(Grandchild)) == (State, Finer, Finer)


def test_the_error_for_a_pipeline_without_state_has_the_fix() -> None:
    with pytest.raises(
        TypeError, match=r"Bad needs a state: define `class MyState\(InputState\)` and add `state: MyState`"
    ):

        class Bad(ReactorPipeline):
            def inference(self) -> Iterator[Any]:
                yield None


def test_a_pipeline_with_a_state_of_its_seats_needs_no_other_state() -> None:
    class Played(ReactorPipeline):
        seat_state: State
        seats = 2

        def inference(self) -> Iterator[Any]:
            yield None

    assert declared_state(Played) is None
    assert declared_seat_state(Played) is State


def test_a_seat_state_of_another_type_is_no_state() -> None:
    class Other(ReactorPipeline):
        seat_state: dict[str, int]

        def inference(self) -> Iterator[Any]:
            yield None

    with pytest.raises(ClassError, match="Other needs a state"):
        Contract.of(Other)


@pytest.mark.parametrize("hint", [int, dict[str, int], State | None, "State()"], ids=str)
def test_state_must_be_an_input_state(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"Bad\.state"):
        type("Bad", (ReactorPipeline,), {"__annotations__": {"state": hint}, "__module__": __name__})


def test_base_without_state_and_inference_is_left_to_its_children() -> None:
    class Common(ReactorPipeline):
        fps = 24

    class Real(Common):
        state: State

    assert declared_state(Real) is State
    with pytest.raises(ClassError, match="Common needs a state"):
        Contract.of(Common)


def test_child_that_adds_inference_but_no_state_is_refused() -> None:
    class Common(ReactorPipeline):
        fps = 24

    with pytest.raises(TypeError, match="Bad needs a state"):

        class Bad(Common):
            def inference(self) -> Iterator[Any]:
                yield None


def test_base_may_leave_the_state_open_as_a_type_variable() -> None:
    class Common(ReactorPipeline, Generic[S]):
        state: S

        def inference(self) -> Iterator[Any]:
            yield None

    class Real(Common[State]):
        state: State

    assert declared_state(Real) is State
    with pytest.raises(ClassError, match="Common needs a state"):
        Contract.of(Common)


def test_state_that_is_nowhere_is_a_class_error() -> None:
    class Lost(ReactorPipeline):
        state: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ClassError, match=r"Lost\.state.*'Nowhere'.*not defined"):
        Contract.of(Lost)


def test_inference_must_be_written() -> None:
    class Empty(ReactorPipeline):
        state: State

    with pytest.raises(NotImplementedError, match=r"Empty needs inference\(\)"):
        Empty().inference()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), (Idle, True), pytest.param(Idle(), True, id="instance"), (0, False), ("", False)],
    ids=repr,
)
def test_nothing_to_show(value: object, expected: bool) -> None:
    assert is_idle(value) is expected


def test_idle_is_false() -> None:
    assert [bool(Idle), bool(Idle())] == [False, False]


def test_idle_exists_once() -> None:
    same: list[object] = [Idle(), _IdleType(), pickle.loads(pickle.dumps(Idle)), copy.deepcopy(Idle)]
    assert all(each is Idle for each in same)
    assert isinstance(Idle, _IdleType)


def test_a_model_that_is_not_run_has_no_state() -> None:
    assert Early().state is None
