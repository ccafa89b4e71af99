"""Handlers along the line of inheritance: overridden, removed, replaced, doubled."""

from typing import Any

import pytest

from reactor_runtime import ClientInfo, InputField, InputState, ReactorPipeline, connected, disconnected, event
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.errors import InvalidEvent


class State(InputState):
    level: int = 1


class Parent(ReactorPipeline):
    state: State

    @event(name="go", description="Go on", dedupe=True)
    def go(self, client: ClientInfo, speed: float = InputField(1.0, ge=0)) -> None: ...

    @event(name="stop")
    def stop(self) -> None: ...

    @connected
    def come(self) -> None: ...

    @disconnected
    def leave(self) -> None: ...


def events_of(model: type) -> dict[str, EventSpec]:
    return {name: spec for name, spec in Contract.of(model).events.items() if spec.method}


def test_handlers_are_inherited() -> None:
    class Child(Parent):
        pass

    assert events_of(Child) == events_of(Parent)
    assert Contract.of(Child).on_connected == Contract.of(Parent).on_connected


def test_undecorated_override_keeps_the_event_and_its_contract() -> None:
    class Child(Parent):
        async def go(self, client, speed):  # type: ignore[no-untyped-def, override]
            pass

    spec = events_of(Child)["go"]
    assert (spec.name, spec.description, spec.dedupe, spec.method) == ("go", "Go on", True, "go")
    assert (spec.is_async, spec.client_parameter) == (True, "client")
    assert spec.validate("{}") == {"speed": 1.0}


def test_an_undecorated_override_with_kwargs_takes_the_parent_s_arguments() -> None:
    class Child(Parent):
        def go(self, **arguments: Any) -> None: ...  # type: ignore[override]

    assert events_of(Child)["go"].validate('{"speed": 2}') == {"speed": 2.0}


def test_undecorated_override_with_annotations_sets_its_own_contract() -> None:
    class Child(Parent):
        def go(self, speed: int = InputField(3, le=5), extra: str = "") -> str:  # type: ignore[override]
            return extra * speed

    spec = events_of(Child)["go"]
    assert spec.validate("{}") == {"speed": 3, "extra": ""}
    assert (spec.description, spec.client_parameter) == ("Go on", None)
    assert Child().go(extra="a") == "aaa"
    with pytest.raises(InvalidEvent, match="9 is above 5"):
        spec.validate('{"speed": 9}')


def test_override_that_cannot_take_the_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Child\.go replaces the handler of event 'go' but can't take its arguments"):

        class Child(Parent):
            def go(self) -> None: ...  # type: ignore[override]


def test_override_by_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Child\.go replaces a handler, so it must be a method, or None"):
        type("Child", (Parent,), {"go": 3})


def test_none_removes_a_handler() -> None:
    class Child(Parent):
        go = None  # type: ignore[assignment]
        come = None  # type: ignore[assignment]

    assert list(events_of(Child)) == ["stop"]
    assert Contract.of(Child).on_connected is None

    class Grandchild(Child):
        pass

    assert list(events_of(Grandchild)) == ["stop"]


def test_decorated_override_may_rename_the_event() -> None:
    class Child(Parent):
        @event(name="run")
        def go(self) -> None: ...  # type: ignore[override]

    assert list(events_of(Child)) == ["stop", "run"]


def test_child_may_handle_the_event_with_another_method() -> None:
    class Child(Parent):
        @event(name="go")
        def other(self, speed: int) -> None: ...

    assert events_of(Child)["go"].method == "other"
    assert list(events_of(Child)) == ["stop", "go"]


def test_hook_of_a_child_replaces_that_of_its_parent() -> None:
    class Child(Parent):
        @connected
        async def welcome(self) -> None: ...

        async def leave(self) -> None: ...  # type: ignore[override]

    contract = Contract.of(Child)
    assert contract.on_connected is not None
    assert contract.on_disconnected is not None
    assert contract.on_connected.method == "welcome"
    assert (contract.on_disconnected.method, contract.on_disconnected.is_async) == ("leave", True)


def test_handlers_can_be_mixed_in() -> None:
    class Pausing:
        @event(name="pause")
        def pause(self, seconds: float = InputField(1.0, ge=0)) -> None: ...

    class Mixed(Pausing, Parent):
        pass

    class Child(Mixed):
        def pause(self, seconds): ...  # type: ignore[no-untyped-def, override]

    assert set(events_of(Mixed)) == {"go", "stop", "pause"}
    assert events_of(Child)["pause"].validate("{}") == {"seconds": 1.0}


def test_the_error_for_an_event_twice_in_one_class_names_both_methods() -> None:
    with pytest.raises(TypeError, match=r"Bad: event 'go' is handled by both one and two; keep one"):

        class Bad(ReactorPipeline):
            state: State

            @event(name="go")
            def one(self) -> None: ...

            @event(name="go")
            def two(self) -> None: ...


@pytest.mark.parametrize("hook", [connected, disconnected], ids=["connected", "disconnected"])
def test_the_error_for_a_hook_twice_in_one_class_names_both_methods(hook: Any) -> None:
    with pytest.raises(TypeError, match=rf"Bad: @{hook.__name__} is handled by both one and two"):

        class Bad(ReactorPipeline):
            state: State

            @hook  # type: ignore[untyped-decorator]
            def one(self) -> None: ...

            @hook  # type: ignore[untyped-decorator]
            def two(self) -> None: ...


def test_written_setter_replaces_the_generated_one_and_keeps_its_place() -> None:
    class Custom(Parent):
        @event(name="set_level", description="Mine")
        def change(self, value: int = InputField(ge=0)) -> None: ...

    events = Contract.of(Custom).events
    assert list(events) == ["set_level", "go", "stop"]
    assert (events["set_level"].method, events["set_level"].field) == ("change", "level")
    assert events["set_level"].validate('{"value": 3}') == {"value": 3}


def test_removing_a_written_setter_brings_the_generated_one_back() -> None:
    class Custom(Parent):
        @event(name="set_level")
        def change(self, value: int) -> None: ...

    class Child(Custom):
        change = None  # type: ignore[assignment]

    spec = Contract.of(Child).events["set_level"]
    assert (spec.method, spec.field) == (None, "level")
