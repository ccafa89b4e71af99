"""Hints for exceptions that Python raises in an author's code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, FunctionType, ModuleType
from typing import Any

_PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "dotenv": "python-dotenv",
    "open_clip": "open_clip_torch",
}
MOST_NESTED = 3
# Python 3.13 and newer may end the message with a suggestion, which needs no other.
_KEYWORD = re.compile(r"(?P<callee>\S+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")


def hint_for(error: BaseException) -> str:
    """Return the hint for an exception; "" if there is none."""
    if isinstance(error, ModuleNotFoundError):
        return _missing(error.name or "")
    if isinstance(error, AttributeError) and error.name:
        return _missing_attribute(error.obj, error.name)
    if type(error) is KeyError and len(error.args) == 1 and isinstance(error.args[0], str):
        return _missing_key(_innermost(error), error.args[0])
    found = _KEYWORD.fullmatch(str(error)) if type(error) is TypeError else None
    if found is None:
        return ""
    return _unexpected(error, found["callee"].removesuffix(".__init__").rpartition(".")[2], found["name"])


def _missing(module: str) -> str:
    top, _, rest = module.partition(".")
    if rest and top in sys.modules:
        return f"{top} is installed, but has no module {rest}"
    return f"is it in requirements.txt and installed? pip install {_PACKAGES.get(top, top)}"


def _missing_attribute(owner: object, name: str) -> str:
    """Return the hint that the owner's class has for the name, or else the most similar attribute."""
    # Not `dir(owner)`, which may be the author's code.
    declared: dict[str, str] = getattr(type(owner), "_reactor_hints", {})
    names = {*dir(type(owner)), *getattr(owner, "__dict__", ()), *(dir(owner) if isinstance(owner, type) else ())}
    known = [each for each in sorted(names) if name.startswith("_") or not each.startswith("_")]
    return declared.get(name) or _did_you_mean(name, known)


def _missing_key(frame: FrameType | None, key: str) -> str:
    """Return the most similar key of a dict that lacks the key and that the frame, or its `self`, refers to."""
    if frame is None:
        return ""
    values = [*frame.f_locals.values(), *getattr(frame.f_locals.get("self"), "__dict__", {}).values()]
    lacking = (each for each in _dicts(values, depth=MOST_NESTED) if key not in each)
    return next(filter(None, (_did_you_mean(key, [k for k in each if isinstance(k, str)]) for each in lacking)), "")


def _dicts(values: Iterable[object], depth: int) -> Iterator[dict[Any, Any]]:
    """Yield the dicts among the values, and those in them."""
    for value in values:
        if type(value) is dict:
            yield value
            if depth:
                yield from _dicts(value.values(), depth - 1)


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _unexpected(error: BaseException, callee: str, name: str) -> str:
    """Return the hint for an unexpected keyword, from the callable in the calling frame."""
    # Imported late: with inspect it takes longer than everything else that prints a command's help.
    import inspect

    # The callable of an author may be called by a function of ours.
    called = next(filter(None, (_value_of(frame, callee) for frame in reversed(_frames(error)))), None)
    if isinstance(called, type):
        # The signature of the class may be that of its __new__.
        called = called.__init__  # type: ignore[misc]
    if not isinstance(called, FunctionType):
        return ""
    parameters = inspect.signature(called).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self"]
    return _did_you_mean(name, known) or f"{callee} takes {', '.join(known) or 'nothing'}"


def _innermost(error: BaseException) -> FrameType | None:
    frames = _frames(error)
    return frames[-1] if frames else None


def _frames(error: BaseException) -> list[FrameType]:
    """Return the frames through which an exception went, the innermost last."""
    frames, tb = [], error.__traceback__
    while tb is not None:
        frames.append(tb.tb_frame)
        tb = tb.tb_next
    return frames


def _value_of(frame: FrameType | None, name: str) -> object:
    """Return the value of a name in a frame, else in the modules that the frame's module imports."""
    if frame is None:
        return None
    modules = [vars(value) for value in frame.f_globals.values() if isinstance(value, ModuleType)]
    scopes = [frame.f_locals, frame.f_globals, *modules]
    return next((scope[name] for scope in scopes if name in scope), None)
