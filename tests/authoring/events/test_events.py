"""The decorators: their form, what they leave of the method, and what they refuse."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest

from reactor_runtime import (
    ClientInfo,
    InputField,
    InputState,
    ReactorPipeline,
    UploadedFile,
    connected,
    disconnected,
    event,
    session_ended,
    session_started,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import HookSpec
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.errors import InvalidEvent


class NoState(InputState):
    pass


class Handled(ReactorPipeline):
    state: NoState

    @event(name="setPrompt", description="What to draw", dedupe=True)
    def prompt(self, text: str = InputField(max_length=5), strength: float = InputField(0.5, ge=0, le=1)) -> str:
        return f"{text} {strength}"

    @event(name="set_2d_mode")
    async def two(self, *, on: bool = InputField(default=True), seed: int = InputField()) -> tuple[bool, int]:
        return on, seed

    @event(name="who")
    def who(self, who: ClientInfo, times: int = 1) -> None: ...

    @connected
    async def come(self, client: ClientInfo) -> None: ...

    @disconnected
    def gone(self) -> None: ...


CONTRACT = Contract.of(Handled)


class Pydantic(ReactorPipeline):
    state: NoState

    @event(name="scale")
    def scale(
        self, text: str, by: float = pydantic.Field(default=2.0, gt=0, le=4), *, n: int = pydantic.Field()
    ) -> str:
        return f"{text} {by} {n}"


def test_a_parameter_may_be_declared_with_a_pydantic_field() -> None:
    (scale,) = Contract.of(Pydantic).events.values()
    assert scale.validate('{"text": "a", "n": 1}') == {"text": "a", "by": 2.0, "n": 1}
    with pytest.raises(InvalidEvent, match="5 is above 4") as raised:
        scale.validate('{"text": "a", "by": 5}')
    assert [field.path for field in raised.value.fields] == ["scale.by", "scale.n"]
    assert Pydantic().scale("a", n=3) == "a 2.0 3"


def test_names_are_matched_as_written() -> None:
    assert list(CONTRACT.events) == ["setPrompt", "set_2d_mode", "who"]


def test_the_spec_has_the_declared_values() -> None:
    prompt, two, who = CONTRACT.events.values()
    assert (prompt.description, prompt.dedupe, prompt.method, prompt.is_async) == (
        "What to draw",
        True,
        "prompt",
        False,
    )
    assert (two.description, two.dedupe, two.method, two.is_async) == ("", False, "two", True)
    assert (prompt.client_parameter, who.client_parameter) == (None, "who")
    assert (prompt.field, two.field, who.field) == (None, None, None)


def test_arguments_are_validated_and_filled_in() -> None:
    assert CONTRACT.events["setPrompt"].validate('{"text": "cat"}') == {"text": "cat", "strength": 0.5}
    with pytest.raises(InvalidEvent, match=r"setPrompt\.text: missing; setPrompt\.strength: 2 is above 1\.0"):
        CONTRACT.events["setPrompt"].validate('{"strength": 2}')


def test_client_is_no_argument() -> None:
    assert CONTRACT.events["who"].validate("{}") == {"times": 1}
    with pytest.raises(InvalidEvent, match=r"who\.who: unknown argument"):
        CONTRACT.events["who"].validate('{"who": 1}')


def test_schema_of_the_parameters() -> None:
    assert CONTRACT.events["set_2d_mode"].parameters_schema() == {
        "type": "object",
        "properties": {"on": {"type": "boolean", "default": True}, "seed": {"type": "integer"}},
        "required": ["seed"],
        "additionalProperties": False,
    }


async def test_handler_can_be_called_as_plain_python() -> None:
    model = Handled()
    assert model.prompt("cat") == "cat 0.5"
    assert await model.two(seed=3) == (True, 3)
    with pytest.raises(TypeError, match="text"):
        model.prompt()
    with pytest.raises(TypeError, match="seed"):
        await model.two()


def test_hooks_are_found() -> None:
    come, gone = CONTRACT.on_connected, CONTRACT.on_disconnected
    assert come is not None
    assert gone is not None
    assert (come.method, come.is_async, come.client_parameter) == ("come", True, "client")
    assert (gone.method, gone.is_async, gone.client_parameter) == ("gone", False, None)


def plain(self: Any) -> None: ...


def generator(self: Any) -> Iterator[Any]:
    yield self


def without_self() -> None: ...


def without_annotation(self: Any, x) -> None: ...  # type: ignore[no-untyped-def]


def star_args(self: Any, *values: int) -> None: ...


def star_kwargs(self: Any, **values: int) -> None: ...


def positional(self: Any, x: int, /) -> None: ...


def mark(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: event(**options)(function)


FORM: list[Any] = [
    pytest.param(lambda: event(plain), TypeError, r'write @event\(name="set_prompt"\)', id="bare"),  # type: ignore[arg-type]
    pytest.param(lambda: event("x"), TypeError, r'write @event\(name="set_prompt"\)', id="positional name"),  # type: ignore[arg-type]
    pytest.param(lambda: event(), TypeError, r'write @event\(name="set_prompt"\)', id="no name"),
    pytest.param(lambda: event(description="x"), TypeError, "takes its name", id="only a description"),
    pytest.param(lambda: event(name=3), TypeError, "takes its name", id="number as name"),  # type: ignore[arg-type]
    pytest.param(lambda: event(name="connected"), ValueError, "use @connected", id="connected"),
    pytest.param(lambda: event(name="disconnected"), ValueError, "use @disconnected", id="disconnected"),
    pytest.param(lambda: event(name="reactor.ack"), ValueError, "belong to the protocol", id="reactor."),
    pytest.param(lambda: mark(name="x")(generator), TypeError, "generator: a handler can't yield", id="generator"),
    pytest.param(
        lambda: mark(name="x")(without_self), TypeError, "without_self.*first parameter is self", id="no self"
    ),
    pytest.param(lambda: mark(name="x")(star_args), TypeError, r"star_args: \*values can't be sent", id="*args"),
    pytest.param(lambda: mark(name="x")(star_kwargs), TypeError, r"star_kwargs: \*\*values can't be", id="**kwargs"),
    pytest.param(lambda: mark(name="x")(positional), TypeError, "positional: x is positional-only", id="positional"),
    pytest.param(lambda: mark(name="x")(Handled.prompt), TypeError, "one handler only", id="two events"),
    pytest.param(
        lambda: connected(Handled.prompt), TypeError, "one handler only; remove one decorator", id="event and hook"
    ),
    pytest.param(lambda: mark(name="x")(NoState), TypeError, "directly above a method's def", id="on a class"),
    pytest.param(lambda: connected(3), TypeError, "@connected goes directly above", id="hook on a number"),  # type: ignore[type-var]
    pytest.param(lambda: disconnected(generator), TypeError, "can't yield", id="hook generator"),
    pytest.param(lambda: connected(without_annotation), TypeError, "passes only", id="hook unannotated"),
]


@pytest.mark.parametrize(("declare", "kind", "message"), FORM)
def test_wrong_form_is_refused_where_it_stands(
    declare: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        declare()


def test_wrong_parameter_type_names_method_and_parameter() -> None:
    with pytest.raises(TypeError, match=r"Bad\.go: when: a client can't set a value of type object"):

        class Bad(ReactorPipeline):
            state: NoState

            @event(name="go")
            def go(self, when: object) -> None: ...


def test_mutable_default_of_a_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad\.go: points: the default \[\] is mutable"):

        class Bad(ReactorPipeline):
            state: NoState

            @event(name="go")
            def go(self, points: list[float] = []) -> None: ...  # noqa: B006


def test_a_session_hook_has_no_client() -> None:
    with pytest.raises(TypeError, match=r"Bad\.start: x: @session_started passes nothing.*; write `client=None`"):

        class Bad(ReactorPipeline):
            state: NoState

            @session_started
            def start(self, x: int) -> None: ...

    class Good(ReactorPipeline):
        state: NoState

        @session_started
        def start(self, client=None): ...  # type: ignore[no-untyped-def]  # as authors write it

        @session_ended
        async def finish(self) -> None: ...

    assert {spec.hook for spec in handlers_of(Good).values() if isinstance(spec, HookSpec)} == {
        "session_started",
        "session_ended",
    }


def test_two_session_hooks_of_a_kind_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad: @session_ended is handled by both a and b; keep one of them"):

        class Bad(ReactorPipeline):
            state: NoState

            @session_ended
            def a(self) -> None: ...

            @session_ended
            def b(self) -> None: ...


def test_hook_with_an_argument_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad\.come: x: @connected passes only"):

        class Bad(ReactorPipeline):
            state: NoState

            @connected
            def come(self, x: int) -> None: ...


def test_two_clients_in_one_handler_are_refused() -> None:
    with pytest.raises(TypeError, match="one and two both get the client; keep one"):

        class Bad(ReactorPipeline):
            state: NoState

            @event(name="go")
            def go(self, one: ClientInfo, two: ClientInfo) -> None: ...


def test_static_method_is_refused() -> None:
    with pytest.raises(TypeError, match="a handler is a plain method, not a staticmethod"):

        class Bad(ReactorPipeline):
            state: NoState

            @staticmethod
            @event(name="go")
            def go(x: int) -> None: ...


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_other_decorators_may_stand_above_or_below() -> None:
    class Wrapped(ReactorPipeline):
        state: NoState

        @logged
        @event(name="above")
        async def above(self, x: int = InputField(1, ge=0)) -> int:
            return x

        @event(name="below")
        @logged
        def below(self, x: int = InputField(2, ge=0)) -> int:
            return x

    events = Contract.of(Wrapped).events
    assert (events["above"].validate("{}"), events["below"].validate("{}")) == ({"x": 1}, {"x": 2})
    assert (events["above"].is_async, events["below"].is_async) == (True, False)
    assert Wrapped().below() == 2


def test_optional_client_is_the_client() -> None:
    class Model(ReactorPipeline):
        state: NoState

        @event(name="go")
        def go(self, client: ClientInfo | None = None) -> None: ...

    assert Contract.of(Model).events["go"].client_parameter == "client"


class Relaxed(ReactorPipeline):
    """Declarations that programs for 3.x have."""

    state: NoState

    @event(name="late")
    def late(self, x: int = 1, y: int = InputField(ge=0)) -> int:
        return x + y

    @event(name="anything")
    def anything(self, value, other=None, client=None) -> object:  # type: ignore[no-untyped-def]
        return value, other, client

    @event(name="image")
    def image(
        self,
        first: UploadedFile = None,  # type: ignore[assignment]  # as programs have it
        second: UploadedFile = InputField(default=None),  # noqa: B008
    ) -> object:
        return first, second

    @event(name="named")
    def named(self, client: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    @connected
    def come(self, client=None) -> None:  # type: ignore[no-untyped-def]
        self.client = client


RELAXED = Contract.of(Relaxed)


def test_a_required_parameter_may_follow_one_with_a_default() -> None:
    late = RELAXED.events["late"]
    assert late.validate('{"y": 2}') == {"x": 1, "y": 2}
    assert Relaxed().late(y=2) == 3
    with pytest.raises(InvalidEvent, match=r"late\.y: missing"):
        late.validate('{"x": 2}')


@pytest.mark.parametrize("text", ["null", "1", "1.5", '"a"', "true", "[1, {}]", '{"a": [null]}'])
def test_a_parameter_without_annotation_takes_any_json_value(text: str) -> None:
    anything = RELAXED.events["anything"]
    assert anything.validate(f'{{"value": {text}}}') == {"value": json.loads(text), "other": None}
    assert anything.parameters_schema()["properties"] == {"value": {}, "other": {"default": None}}
    with pytest.raises(InvalidEvent, match=r"anything\.value: missing"):
        anything.validate("{}")


@pytest.mark.parametrize("name", ["first", "second"])
def test_an_upload_may_default_to_none(name: str) -> None:
    image, file = RELAXED.events["image"], UploadedFile(b"x")
    assert image.validate("{}") == {"first": None, "second": None}
    assert image.validate(f'{{"{name}": {{"upload": "u-1"}}}}', {"u-1": file})[name] is file
    assert image.validate(f'{{"{name}": null}}')[name] is None


def test_a_parameter_called_client_gets_the_client_whatever_its_annotation() -> None:
    assert (RELAXED.events["anything"].client_parameter, RELAXED.events["named"].client_parameter) == (
        "client",
        "client",
    )
    assert RELAXED.on_connected is not None
    assert RELAXED.on_connected.client_parameter == "client"
    assert RELAXED.events["named"].parameters_schema()["properties"] == {}


def test_an_override_without_types_may_add_the_client() -> None:
    class Child(Relaxed):
        def late(self, x, y, client):  # type: ignore[no-untyped-def, override]
            return x, y, client

    late = Contract.of(Child).events["late"]
    assert (late.client_parameter, late.arguments.names) == ("client", ("x", "y"))


def test_a_limit_that_does_not_apply_is_ignored_with_a_warning() -> None:
    class Limited(ReactorPipeline):
        state: NoState

        @event(name="go")
        def go(self, text: str | None = InputField(default="a", ge=1, max_length=2, multiple_of=2)) -> None: ...

    contract = Contract.of(Limited)
    assert contract.events["go"].validate('{"text": "ab"}') == {"text": "ab"}
    with pytest.raises(InvalidEvent):
        contract.events["go"].validate('{"text": "abc"}')
    first, second = contract.warnings
    assert first.message.endswith("Limited.go: text: ge does not apply to str and has no effect")
    assert second.message.endswith("Limited.go: text: multiple_of does not apply to str and has no effect")
    assert first.where is not None
    assert "text: str | None" in first.where.text
