"""The names of keys, and of a gamepad's buttons and sticks: what authors write, and what browsers call them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

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
_OTHER_KEYS = {
    " ": "space",
    "return": "enter",
    "shiftleft": "shift",
    "shiftright": "shift",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "del": "delete",
    "ins": "insert",
    "spacebar": "space",
}
_KEPT = {"esc", "escape", "tab", "ctrl", "control", "alt", "meta", "cmd", "command", "win", "altgr", "option"} | {
    f"f{number}" for number in range(1, 13)
}

# As browsers number them in the standard layout of a gamepad.
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
_OTHER_BUTTONS = {
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
STICKS = ("left", "right", "dpad")


def key_code(name: str, where: str) -> str:
    """Return the browsers' code of a key; ValueError with the nearest name there is."""
    wanted = _text(name, where).lower()
    wanted = _OTHER_KEYS.get(wanted, wanted)
    if wanted in _KEPT:
        raise ValueError(f"{where}: browsers keep {name!r} for themselves; choose another key")
    code = _KEYS.get(wanted) or _CODES.get(wanted)
    if code is None:
        near = _nearest(wanted, [*_NAMED, *_KEYS, *_CODES.values()], "write a letter, a digit or one of")
        raise ValueError(f"{where}: there is no key {name!r}; {near}")
    return code


def button_index(name: str, where: str) -> int:
    """Return the number of a gamepad's button in the standard layout; ValueError with the nearest name there is."""
    return _BUTTONS[button_name(name, where)]


def button_name(name: str, where: str) -> str:
    """Return our name of a gamepad's button, which may be written as other makers call it."""
    wanted = _text(name, where).lower()
    wanted = _OTHER_BUTTONS.get(wanted, wanted)
    if wanted not in _BUTTONS:
        raise ValueError(f"{where}: a gamepad has no button {name!r}; {_nearest(wanted, _BUTTONS, 'there are')}")
    return wanted


def one_of(name: str, names: Iterable[str], what: str, where: str) -> None:
    """See that a name is one of a few; ValueError with the nearest of them."""
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
