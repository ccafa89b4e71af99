"""Bindings: their schema where they fit a value, and the error at the class definition where they do not."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from reactor_runtime import (
    Button,
    InputField,
    InputState,
    Key,
    Keys,
    Look,
    Pointer,
    ReactorModel,
    ReactorPipeline,
    Stick,
    Tap,
    VideoModel,
    Wheel,
    command,
    event,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.values.bindings import KEYWORD
from reactor_runtime.errors import ClassError, Location
from reactor_runtime.wire import openapi
from tests.openapi import flaws


class Walker(InputState):
    walk: float = InputField(default=0.0, ge=-1, le=1, bind=[Keys("s", "w"), Stick("left", "y")])
    run: bool = InputField(default=False, bind=[Key("shift"), Button("lt")])
    gear: int = InputField(default=1, ge=1, le=5, bind=Key("g"))
    way: tuple[float, float] = InputField(default=(0.0, 0.0), bind=[Keys("a", "d", "down", "up"), Stick("dpad")])
    aim: tuple[float, float] | None = InputField(default=None, bind=Pointer(hover=True))
    zoom: float = InputField(default=1.0, gt=0.0, bind=Wheel(step=0.25))
    plain: float = 0.0


def bound(schema: dict[str, Any]) -> Any:
    return schema.get(KEYWORD)


def test_a_field_s_schema_has_its_bindings() -> None:
    said = {field.name: bound(field.to_json()) for field in StateSpec.of(Walker).fields}
    assert said == {
        "walk": [{"kind": "keys", "keys": ["KeyS", "KeyW"]}, {"kind": "stick", "stick": "left", "axis": "y"}],
        "run": [{"kind": "key", "key": "Shift"}, {"kind": "button", "button": "lt", "index": 6}],
        "gear": [{"kind": "key", "key": "KeyG"}],
        "way": [
            {"kind": "keys", "keys": ["KeyA", "KeyD", "ArrowDown", "ArrowUp"]},
            {"kind": "stick", "stick": "dpad"},
        ],
        "aim": [{"kind": "pointer", "hover": True}],
        "zoom": [{"kind": "wheel", "step": 0.25}],
        "plain": None,
    }


class Game(ReactorModel):
    @event(name="look", bind=[Look(), Stick("right", speed=3)])
    def look(self, dx: float, dy: float, slow: bool = False) -> None: ...

    @event(name="jump", bind=[Key("space"), Button("cross"), Tap()])
    def jump(self, height: float = 1.0) -> None: ...

    @event(name="drop", bind=Tap())
    def drop(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None: ...

    @event(name="steer")
    def steer(self, angle: float = InputField(default=0.0, ge=-1, le=1, bind=Keys("a", "d"))) -> None: ...

    @event(name="plain")
    def plain(self, x: float) -> None: ...


def test_schemas_of_an_event_and_its_argument_have_their_bindings() -> None:
    events = Contract.of(Game).to_json()["schema"]["events"]
    assert {name: bound(said["parameters"]) for name, said in events.items()} == {
        "look": [
            {"kind": "look", "unit": "radians", "sensitivity": 1.0},
            {"kind": "stick", "stick": "right", "speed": 3.0},
        ],
        "jump": [{"kind": "key", "key": "Space"}, {"kind": "button", "button": "a", "index": 0}, {"kind": "tap"}],
        "drop": [{"kind": "tap"}],
        "steer": None,
        "plain": None,
    }
    assert bound(events["steer"]["parameters"]["properties"]["angle"]) == [{"kind": "keys", "keys": ["KeyA", "KeyD"]}]


def test_a_command_is_bound_as_an_event_is() -> None:
    class Blocks(VideoModel):
        def start_session(self) -> None: ...

        @command("cut", bind=Key("c"))
        def cut(self) -> None: ...

    assert bound(Contract.of(Blocks).events["cut"].parameters_schema()) == [{"kind": "key", "key": "KeyC"}]


def test_an_override_keeps_the_bindings_of_its_parent() -> None:
    class Higher(Game):
        def jump(self, height: float = 3.0) -> None: ...

    assert bound(Contract.of(Higher).events["jump"].parameters_schema()) == bound(
        Contract.of(Game).events["jump"].parameters_schema()
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("w", "KeyW"),
        ("W", "KeyW"),
        ("7", "Digit7"),
        ("space", "Space"),
        (" ", "Space"),
        ("up", "ArrowUp"),
        ("ArrowUp", "ArrowUp"),
        ("KeyQ", "KeyQ"),
        ("PgUp", "PageUp"),
        (",", "Comma"),
        ("ShiftLeft", "Shift"),
        ("ctrl", "Control"),
        ("ControlRight", "Control"),
        ("Option", "Alt"),
        ("cmd", "Meta"),
    ],
)
def test_a_key_may_be_named_in_several_ways(name: str, code: str) -> None:
    assert Key(name).to_json()["key"] == code


def test_pairs_of_keys_that_browsers_keep_are_a_warning() -> None:
    class Held(InputState):
        crouch: bool = InputField(default=False, bind=Key("ctrl"))
        walk: float = InputField(default=0.0, ge=-1.0, le=1.0, bind=Keys("s", "w"))
        menu: bool = InputField(default=False, bind=[Key("alt"), Key("c")])

    class Crouches(ReactorPipeline):
        state: Held

        def inference(self) -> Any:
            yield None

    (warning,) = Contract.of(Crouches).warnings
    assert "Crouches binds keys that browsers keep for themselves: Ctrl+W closes the tab" in str(warning)
    assert warning.where is not None


def test_a_modifier_alone_is_no_warning() -> None:
    class Held(InputState):
        crouch: bool = InputField(default=False, bind=Key("ctrl"))
        walk: float = InputField(default=0.0, ge=-1.0, le=1.0, bind=Keys("down", "up"))

    class Crouches(ReactorPipeline):
        state: Held

        def inference(self) -> Any:
            yield None

    assert Contract.of(Crouches).warnings == []


WRONG_NAMES: list[Any] = [
    pytest.param(lambda: Key("spcae"), r"Key\('spcae'\): there is no key 'spcae'; did you mean 'space'\?", id="key"),
    pytest.param(lambda: Key("ArrowUpp"), "did you mean 'ArrowUp'", id="code"),
    pytest.param(lambda: Key("ä"), "write a letter, a digit or one of space, enter", id="nothing near"),
    pytest.param(lambda: Key("tab"), "browsers keep 'tab' for themselves", id="of the browser"),
    pytest.param(lambda: Keys("s", "ww"), "no key 'ww'; did you mean 'w'", id="one of two keys"),
    pytest.param(lambda: Keys("a", "d", "s"), r"Keys\('a', 'd', 's'\): two keys make one axis", id="three keys"),
    pytest.param(lambda: Button("strat"), "no button 'strat'; did you mean 'start'", id="button"),
    pytest.param(lambda: Stick("lefty"), "no stick 'lefty'; did you mean 'left'", id="stick"),
    pytest.param(lambda: Stick("left", "z"), "no axis 'z'; there are x, y", id="axis"),  # type: ignore[arg-type]  # the test
    pytest.param(lambda: Look("degrees"), "no unit 'degrees'", id="unit"),  # type: ignore[arg-type]  # the test
    pytest.param(lambda: Look(sensitivity=0), "sensitivity is a number above 0, not 0", id="sensitivity"),
    pytest.param(lambda: Wheel(step=float("nan")), "step is a number above 0, not nan", id="step"),
]


@pytest.mark.parametrize(("make", "words"), WRONG_NAMES)
def test_an_unknown_name_is_refused_with_the_nearest_known(make: Any, words: str) -> None:
    with pytest.raises(ValueError if "three" not in words and "two keys" not in words else TypeError, match=words):
        make()


def declare(hint: Any, declared: Any, name: str = "x") -> None:
    type("MyState", (InputState,), {"__annotations__": {name: hint}, name: declared, "__module__": __name__})


TEXT: Any = "w"
NUMBER: Any = 3
KEY, PAIR = Key("w"), Keys("s", "w")
WRONG_FIELDS: list[Any] = [
    pytest.param(str, InputField("", bind=KEY), r"MyState\.x: Key\('w'\) sets bool or float, not str", id="str"),
    pytest.param(bool, InputField(False, bind=PAIR), "sets float, not bool", id="axis of bool"),
    pytest.param(float, InputField(0.0, bind=Stick("left")), r"sets tuple\[float, float\], not float", id="x and y"),
    pytest.param(float, InputField(0.0, bind=Pointer()), r"sets tuple\[float, float\] or", id="a place"),
    pytest.param(float | None, InputField(None, bind=PAIR), r"sets float, not float \| None|needs a number", id="None"),
    pytest.param(float, InputField(0.0, bind=TEXT), r"bind takes no 'w'; write Key\('w'\)", id="text"),
    pytest.param(float, InputField(0.0, bind=[KEY, NUMBER]), "bind takes no 3", id="number"),
    pytest.param(float, InputField(0.0, bind=Look()), 'goes above a method: @event\\(name="…", bind=Look', id="Look"),
    pytest.param(float, InputField(0.0, gt=-1, lt=1, bind=PAIR), "gt and lt exclude the ends", id="gt"),
    pytest.param(float, InputField(0.0, le=1, bind=PAIR), "give ge and le", id="one end"),
    pytest.param(
        float,
        InputField(1.0, ge=0, le=1, bind=KEY),
        "sets the maximum, 1, which is already the default",
        id="at the end",
    ),
    pytest.param(int, InputField(1, choices=[1, 2], bind=KEY), "needs ge and le, not choices", id="choices"),
    pytest.param(
        int, InputField(1, choices=[1, 4], bind=Wheel()), "needs ge and le, not choices", id="wheel of choices"
    ),
    pytest.param(float, InputField(0.0, bind=[PAIR, Wheel()]), "bind one kind", id="wheel and keys"),
    pytest.param(
        tuple[float, float], InputField((0.0, 0.0), bind=Stick("left", speed=2)), "speed applies to events", id="speed"
    ),
    pytest.param(
        tuple[float, float], InputField((0.0, 0.0), le=1, bind=Stick("left")), "give ge and le", id="one end of a pair"
    ),
    pytest.param(
        tuple[float, float],
        InputField((0.0, 0.0), ge=0, le=0.5, bind=Pointer()),
        "from 0 to 1, which",
        id="half a frame",
    ),
    pytest.param(tuple[int, int], InputField((0, 0), bind=Stick("left")), r"not tuple\[int, int\]", id="pair of int"),
]


@pytest.mark.parametrize(("hint", "declared", "words"), WRONG_FIELDS)
def test_a_binding_that_cannot_set_a_field_is_refused(hint: Any, declared: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        declare(hint, declared)


def test_a_private_field_can_not_be_bound() -> None:
    with pytest.raises(TypeError, match=r"MyState\._x is private"):
        declare(float, InputField(0.0, bind=PAIR), "_x")


def needs_more(self: Any, x: float, size: float) -> None: ...


def no_place(self: Any) -> None: ...


def whole(self: Any, dx: int, dy: int) -> None: ...


def two(self: Any, level: float = InputField(default=0.0, bind=PAIR), *, name: str) -> None: ...


def open_end(self: Any, level: float = InputField(bind=PAIR)) -> None: ...


def copied(method: Any) -> Any:
    """A method of its own, as a decorator marks what it is given."""
    copy = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__)
    copy.__annotations__, copy.__kwdefaults__ = method.__annotations__, method.__kwdefaults__
    return copy


def declare_event(method: Any, bind: Any) -> None:
    body = {"wrong": event(name="wrong", bind=bind)(method), "__module__": __name__}
    type("Wrong", (ReactorModel,), body)


@pytest.mark.parametrize(
    ("method", "bind", "words"),
    [
        (needs_more, Key("w"), r"Key\('w'\) does not set x; give it a default"),
        (needs_more, Pointer(), r"Pointer\(\) sets x and y; add y: float"),
        (no_place, Pointer(), "sets x and y; add x: float"),
        (no_place, Look(), "sets dx and dy; add dx: float"),
        (no_place, PAIR, "sets a value; give it to a parameter: level: float = InputField"),
        (no_place, Wheel(), "sets a value"),
        (no_place, "w", r"bind takes no 'w'; write Key\('w'\)"),
        (whole, Look(), "dx is bound: 0.25 is not a whole number"),
        (whole, Stick("left", "x"), "leave out the axis"),
        (two, None, "name needs a default"),
        (open_end, None, "a bound value needs a default"),
    ],
)
def test_an_event_that_can_not_be_sent_so_is_refused(method: Any, bind: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        declare_event(copied(method), bind)


def test_the_pointer_has_one_meaning() -> None:
    class Torn(Game):
        @event(name="touch", bind=Pointer())
        def touch(self, x: float, y: float) -> None: ...

    with pytest.raises(ClassError, match=r"Torn: Look\(.*\) locks the mouse, so Pointer\(\) has no position"):
        Contract.of(Torn)


def test_a_written_setter_keeps_the_bindings_of_its_field() -> None:
    class Written(ReactorPipeline):
        state: Walker

        def inference(self) -> Any:
            yield None

        @event(name="set_walk")
        def set_walk(self, walk: float) -> None: ...

    with pytest.raises(ClassError, match="replaces set_walk and the binding of its field: add bind= to its parameter"):
        Contract.of(Written)


def test_an_unknown_key_is_reported_at_the_authors_line(tmp_path: Path) -> None:
    lines = [
        "from reactor_runtime import InputField, InputState, Keys, ReactorPipeline",
        "class MyState(InputState):",
        "    walk: float = InputField(default=0.0, ge=-1, le=1, bind=Keys('s', 'ww'))",
        "class MyModel(ReactorPipeline):",
        "    state: MyState",
    ]
    (tmp_path / "walker.py").write_text("\n".join(lines))
    with pytest.raises(ClassError, match="there is no key 'ww'; did you mean 'w'") as caught:
        import_class(tmp_path, "walker", "MyModel")
    assert isinstance(caught.value.where, Location)
    assert (Path(caught.value.where.file).name, caught.value.where.line) == ("walker.py", 3)


def test_the_document_of_a_bound_model_is_sound() -> None:
    assert flaws(openapi.document("game", "1", Contract.of(Game).to_json())) == []
