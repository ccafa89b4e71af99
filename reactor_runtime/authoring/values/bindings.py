"""Bindings of keys, gamepads and the pointer to values and events, and the checks that they fit.

A client with such a device, such as the page, reads the bindings from the schema and sends ordinary events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, get_args, get_origin

from reactor_runtime.authoring.code.annotations import type_name, union_options
from reactor_runtime.authoring.values.limits import Limits

KEYWORD = "x-reactor-bind"

Shape = Literal["switch", "number", "pair", "place"]

_PUNCTUATION = {
    "-": "Minus",
    "=": "Equal",
    "[": "BracketLeft",
    "]": "BracketRight",
    "\\": "Backslash",
    ";": "Semicolon",
    "'": "Quote",
    "`": "Backquote",
    ",": "Comma",
    ".": "Period",
    "/": "Slash",
}
_NAMED = {
    "space": "Space",
    "enter": "Enter",
    "shift": "Shift",
    "ctrl": "Control",
    "alt": "Alt",
    "meta": "Meta",
    "backspace": "Backspace",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "pageup": "PageUp",
    "pagedown": "PageDown",
    "home": "Home",
    "end": "End",
    "insert": "Insert",
    "delete": "Delete",
}
_LETTERS = {letter: f"Key{letter.upper()}" for letter in "abcdefghijklmnopqrstuvwxyz"}
_DIGITS = {digit: f"Digit{digit}" for digit in "0123456789"}
_KEYS = {**_LETTERS, **_DIGITS, **_PUNCTUATION, **_NAMED}
_CODES = {code.lower(): code for code in _KEYS.values()}
_KEY_ALIASES = {
    " ": "space",
    "return": "enter",
    "shiftleft": "shift",
    "shiftright": "shift",
    **dict.fromkeys(("control", "controlleft", "controlright", "ctrlleft", "ctrlright"), "ctrl"),
    **dict.fromkeys(("option", "altleft", "altright"), "alt"),
    **dict.fromkeys(("cmd", "command", "win", "super", "metaleft", "metaright"), "meta"),
    "pgup": "pageup",
    "pgdn": "pagedown",
    "del": "delete",
    "ins": "insert",
    "spacebar": "space",
}
# Browsers keep these for themselves.
_RESERVED = {"esc", "escape", "tab", "altgr"} | {f"f{number}" for number in range(1, 13)}
# What browsers and systems do at these keys while another is held, which no page can prevent.
_SHORTCUTS = {
    ("Control", "KeyW"): "closes the tab",
    ("Control", "KeyT"): "opens a tab",
    ("Control", "KeyN"): "opens a window",
    ("Meta", "KeyW"): "closes the tab",
    ("Meta", "KeyT"): "opens a tab",
    ("Meta", "KeyN"): "opens a window",
    ("Meta", "KeyQ"): "quits the browser",
    ("Alt", "Space"): "opens the menu of the window",
}

# The numbers of the standard gamepad layout.
_BUTTONS = {
    "a": 0,
    "b": 1,
    "x": 2,
    "y": 3,
    "lb": 4,
    "rb": 5,
    "lt": 6,
    "rt": 7,
    "back": 8,
    "start": 9,
    "ls": 10,
    "rs": 11,
    "up": 12,
    "down": 13,
    "left": 14,
    "right": 15,
}
_BUTTON_ALIASES = {
    "cross": "a",
    "circle": "b",
    "square": "x",
    "triangle": "y",
    "l1": "lb",
    "r1": "rb",
    "l2": "lt",
    "r2": "rt",
    "l3": "ls",
    "r3": "rs",
    "select": "back",
}
_STICKS = ("left", "right", "dpad")


@dataclass(frozen=True, slots=True)
class Key:
    """Bind a key: while it is held, a bool is inverted and a number is at its maximum; each press sends an event.

    Names are those of an English keyboard and mean positions: "w" is above "s" on every layout.
    """

    name: str
    shapes: ClassVar[tuple[Shape, ...]] = ("switch", "number")

    def __post_init__(self) -> None:
        _key_code(self.name, repr(self))

    def __repr__(self) -> str:
        return f"Key({self.name!r})"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "key", "key": _key_code(self.name, repr(self))}


@dataclass(frozen=True, slots=True)
class Keys:
    """Bind keys as an axis: `Keys("s", "w")` sets a number to its minimum and its maximum.

    Four keys, `Keys("a", "d", "s", "w")`, set the x (first two) and y (last two) of a `tuple[float, float]`.
    """

    less: str
    more: str
    down: str = ""
    up: str = ""

    def __post_init__(self) -> None:
        if bool(self.down) != bool(self.up):
            three = f"{self.less!r}, {self.more!r}, {self.down or self.up!r}"
            raise TypeError(f"Keys({three}): two keys make one axis, four make x and y")
        for name in self.names:
            _key_code(name, repr(self))

    def __repr__(self) -> str:
        return f"Keys({', '.join(map(repr, self.names))})"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.less, self.more, self.down, self.up) if self.down or self.up else (self.less, self.more)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return ("pair",) if self.down else ("number",)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "keys", "keys": [_key_code(name, repr(self)) for name in self.names]}


@dataclass(frozen=True, slots=True)
class Button:
    """Bind a gamepad's button as `Key` binds a key; a number follows the position of a trigger, `lt` or `rt`."""

    name: str
    shapes: ClassVar[tuple[Shape, ...]] = ("switch", "number")

    def __post_init__(self) -> None:
        _button_index(self.name, repr(self))

    def __repr__(self) -> str:
        return f"Button({self.name!r})"

    def to_json(self) -> dict[str, Any]:
        here = repr(self)
        return {"kind": "button", "button": _button_name(self.name, here), "index": _button_index(self.name, here)}


@dataclass(frozen=True, slots=True)
class Stick:
    """Bind a gamepad's stick, "left", "right" or "dpad"; `axis` is "x" or "y" for a number, None for both.

    Up is positive. For an event a stick at its end adds `speed` per second to `dx` and `dy`; the default is 2.0.
    """

    name: str
    axis: Literal["x", "y"] | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        _one_of(self.name, _STICKS, "stick", repr(self))
        if self.axis is not None:
            _one_of(self.axis, ("x", "y"), "axis", repr(self))
        if self.speed is not None:
            _positive(self.speed, "speed", repr(self))

    def __repr__(self) -> str:
        axis = f", {self.axis!r}" if self.axis else ""
        return f"Stick({self.name!r}{axis}{f', speed={self.speed!r}' if self.speed is not None else ''})"

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return ("number",) if self.axis else ("pair",)

    def to_json(self) -> dict[str, Any]:
        axis = {"axis": self.axis} if self.axis else {}
        speed = {"speed": float(self.speed)} if self.speed is not None else {}
        return {"kind": "stick", "stick": self.name, **axis, **speed}


@dataclass(frozen=True, slots=True)
class Pointer:
    """Bind the position of mouse or finger on the frame: x and y from 0 to 1, from the upper left corner.

    It applies while pressed, or with `hover` also while a mouse is over the frame. An event gets `x` and `y`.
    """

    hover: bool = False
    shapes: ClassVar[tuple[Shape, ...]] = ("pair", "place")

    def __repr__(self) -> str:
        return "Pointer(hover=True)" if self.hover else "Pointer()"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "pointer", "hover": bool(self.hover)}


@dataclass(frozen=True, slots=True)
class Tap:
    """Bind a click or a tap on the frame to an event, which gets the position if it has `x` and `y`."""

    shapes: ClassVar[tuple[Shape, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "tap"}


@dataclass(frozen=True, slots=True)
class Look:
    """Bind movement to an event's `dx` and `dy`: of a finger, or of the mouse after a click on the frame locks it.

    They are the movement since the previous event, right and down, in `unit`: "radians" to turn by, or "fraction" of
    the frame; times `sensitivity`. All movement is counted, also when the model takes events rarely.
    """

    unit: Literal["radians", "fraction"] = "radians"
    sensitivity: float = 1.0
    shapes: ClassVar[tuple[Shape, ...]] = ()

    def __post_init__(self) -> None:
        _one_of(self.unit, ("radians", "fraction"), "unit", repr(self))
        _positive(self.sensitivity, "sensitivity", repr(self))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "look", "unit": self.unit, "sensitivity": float(self.sensitivity)}


@dataclass(frozen=True, slots=True)
class Wheel:
    """Bind the wheel over the frame: each notch adds or subtracts `step`, within the limits of the number."""

    step: float = 0.1
    shapes: ClassVar[tuple[Shape, ...]] = ("number",)

    def __post_init__(self) -> None:
        _positive(self.step, "step", repr(self))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "wheel", "step": float(self.step)}


Source = Key | Keys | Button | Stick | Pointer | Tap | Look | Wheel


def sources_of(bind: object, where: str) -> tuple[Source, ...]:
    """Return the sources that `bind=` names, one or a list; raise TypeError for anything else."""
    if bind is None:
        return ()
    sources = tuple(bind) if isinstance(bind, list | tuple) else (bind,)
    for source in sources:
        if not isinstance(source, Source):
            meant = (
                f"Key({source!r})"
                if isinstance(source, str) and len(source) == 1
                else 'one of Key("w"), Stick("left") and the like'
            )
            raise TypeError(f"{where}: bind takes no {source!r}; write {meant}, or a list of them")
    return sources


def to_json(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the bindings as a JSON Schema keyword; an empty dict without bindings."""
    return {KEYWORD: [source.to_json() for source in sources]} if sources else {}


def check_value(sources: Sequence[Source], hint: Any, default: object, limits: Limits, where: str) -> None:
    """Check that each source can set a value of this type; raise TypeError that names the types it can set."""
    for source in sources:
        if not source.shapes:
            raise TypeError(f'{where}: {source!r} goes above a method: @event(name="…", bind={source!r})')
        if isinstance(source, Stick) and source.speed is not None:
            raise TypeError(f"{where}: {source!r}: speed applies to events only")
        if _shape(hint) not in source.shapes:
            raise TypeError(f"{where}: {source!r} sets {_wanted(source)}, not {type_name(hint)}")
        if default is None and not isinstance(source, Pointer):
            raise TypeError(f"{where}: {source!r} needs a number as default")
    if any(isinstance(source, Wheel) for source in sources) and len({type(source) for source in sources}) > 1:
        raise TypeError(f"{where}: Wheel keeps the new value, other sources return to the default; bind one kind")
    if limits.choices is not None:
        raise TypeError(f"{where}: {sources[0]!r} needs ge and le, not choices")
    for source in sources:
        if not isinstance(source, Wheel):
            _check_ends(source, limits, where)
    if limits.le is not None and default == limits.le and all(isinstance(source, Key | Button) for source in sources):
        raise TypeError(f"{where}: {sources[0]!r} sets the maximum, {limits.le}, which is already the default")


def _check_ends(source: Source, limits: Limits, where: str) -> None:
    """Check that the field allows both ends of an axis; without limits they are the default ± 1."""
    if limits.given("gt", "lt"):
        raise TypeError(f"{where}: {source!r} needs ge and le: gt and lt exclude the ends")
    if len(limits.given("ge", "le")) == 1:
        raise TypeError(f"{where}: {source!r} goes to both ends; give ge and le")
    if isinstance(source, Pointer) and limits.ge is not None and not (limits.ge <= 0 and (limits.le or 0) >= 1):
        raise TypeError(
            f"{where}: {source!r} sets numbers from 0 to 1, which ge={limits.ge} and le={limits.le} exclude"
        )


def check_event(sources: Sequence[Source], parameters: dict[str, bool], where: str) -> None:
    """Check that each source can send an event; `parameters` maps each name to whether it is required."""
    for source in sources:
        if isinstance(source, Keys | Wheel):
            raise TypeError(
                f"{where}: {source!r} sets a value; give it to a parameter: "
                f"level: float = InputField(default=0.0, ge=-1.0, le=1.0, bind={source!r})"
            )
        if isinstance(source, Stick) and source.axis:
            raise TypeError(f"{where}: {source!r}: an event gets both axes, as dx and dy; leave out the axis")
        filled = _filled(source, parameters)
        for name in filled:
            if name not in parameters:
                raise TypeError(f"{where}: {source!r} sets {filled[0]} and {filled[1]}; add {name}: float")
        for name, required in parameters.items():
            if required and name not in filled:
                raise TypeError(f"{where}: {source!r} does not set {name}; give it a default")


def filled(sources: Sequence[Source], parameters: Sequence[str]) -> set[str]:
    """Return the parameters of an event that its sources fill."""
    return {name for source in sources for name in _filled(source, parameters)}


def check_together(sources: Sequence[Source], where: str) -> None:
    """Raise TypeError if one binding locks the pointer and another uses its position."""
    looks = [source for source in sources if isinstance(source, Look)]
    places = [source for source in sources if isinstance(source, Pointer)]
    if looks and places:
        raise TypeError(f"{where}: {looks[0]!r} locks the mouse, so {places[0]!r} has no position; bind one of them")


def shortcuts(sources: Iterable[Source]) -> list[str]:
    """Return what a browser does at pairs of keys that are bound, and that it keeps for itself."""
    written = [
        name
        for source in sources
        if isinstance(source, Key | Keys)
        for name in ((source.name,) if isinstance(source, Key) else source.names)
    ]
    names = {_key_code(name, name): name.capitalize() for name in written}
    pairs = ((names.get(held), names.get(key), does) for (held, key), does in _SHORTCUTS.items())
    return [f"{held}+{key} {does}" for held, key, does in pairs if held and key]


def _filled(source: Source, parameters: Sequence[str] | dict[str, bool]) -> tuple[str, ...]:
    match source:
        case Look() | Stick():
            return ("dx", "dy")
        case Pointer():
            return ("x", "y")
        case Tap() if "x" in parameters and "y" in parameters:
            return ("x", "y")
    return ()


def _shape(hint: Any) -> Shape | None:
    options = [option for option in union_options(hint) if option is not type(None)]
    if len(options) != 1:
        return None
    kind = options[0]
    if get_origin(kind) is tuple and get_args(kind) == (float, float):
        return "pair" if len(union_options(hint)) == 1 else "place"
    if kind is bool:
        return "switch"
    return "number" if kind in (int, float) else None


def _wanted(source: Source) -> str:
    words = {
        "switch": "bool",
        "number": "float",
        "pair": "tuple[float, float]",
        "place": "tuple[float, float] | None",
    }
    return " or ".join(words[shape] for shape in source.shapes)


def _positive(value: float, name: str, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{where}: {name} is a number above 0, not {value!r}")


def _key_code(name: str, where: str) -> str:
    """Return the browsers' code of a key; raise ValueError with the nearest known name."""
    wanted = _text(name, where).lower()
    wanted = _KEY_ALIASES.get(wanted, wanted)
    if wanted in _RESERVED:
        raise ValueError(f"{where}: browsers keep {name!r} for themselves; choose another key")
    code = _KEYS.get(wanted) or _CODES.get(wanted)
    if code is None:
        near = _nearest(wanted, [*_NAMED, *_KEYS, *_CODES.values()], "write a letter, a digit or one of")
        raise ValueError(f"{where}: there is no key {name!r}; {near}")
    return code


def _button_index(name: str, where: str) -> int:
    """Return a button's number in the standard gamepad layout; raise ValueError with the nearest known name."""
    return _BUTTONS[_button_name(name, where)]


def _button_name(name: str, where: str) -> str:
    """Return our name of a gamepad's button, also for the names other makers use."""
    wanted = _text(name, where).lower()
    wanted = _BUTTON_ALIASES.get(wanted, wanted)
    if wanted not in _BUTTONS:
        raise ValueError(f"{where}: a gamepad has no button {name!r}; {_nearest(wanted, _BUTTONS, 'there are')}")
    return wanted


def _one_of(name: str, names: Iterable[str], what: str, where: str) -> None:
    """Raise ValueError with the nearest known name unless `name` is one of `names`."""
    known = list(names)
    if name not in known:
        raise ValueError(f"{where}: there is no {what} {name!r}; {_nearest(str(name), known, 'there are')}")


def _text(name: str, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: a name is text, as in 'w', not {name!r}")
    return name


def _nearest(wanted: str, known: Iterable[str], otherwise: str) -> str:
    names = list(known)
    lowered = {name.lower(): name for name in reversed(names)}
    near = get_close_matches(wanted.lower(), lowered, n=1)
    words = [name for name in names if name == name.lower() and (len(names) < 20 or len(name) > 1)]
    return f"did you mean {lowered[near[0]]!r}?" if near else f"{otherwise} {', '.join(dict.fromkeys(words))}"
