"""Short error messages for the values that clients send: `3.2 is above 2.0`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from reactor_runtime.errors.codes import ErrorCode

_LONGEST = 40
_MOST_NAMES = 12
_OWN = "reactor"


def value_error(phrase: str) -> PydanticCustomError:
    """Return the error for a validator of ours to raise; the client receives the phrase unchanged."""
    return PydanticCustomError(_OWN, "{phrase}", {"phrase": phrase})


def unresolved(id: str) -> PydanticCustomError:
    """Return the error for a missing file, which has its own code on the wire."""
    phrase = f"there is no file {shown(id)} in this session; send it to /uploads first"
    return PydanticCustomError(ErrorCode.UNRESOLVED_UPLOAD.value, "{phrase}", {"phrase": phrase})


def phrase(error: ErrorDetails) -> str:
    """Convert one of pydantic's errors to a short phrase that shows the value."""
    context: dict[str, Any] = error.get("ctx", {})
    kind = error["type"]
    if kind in (_OWN, ErrorCode.UNRESOLVED_UPLOAD):
        return str(context["phrase"])
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "json_invalid":
        return f"can't be read as JSON: {context['error']}"
    if kind in ("too_short", "too_long"):
        return _item_count(kind, context)
    template = _ABOUT_VALUE.get(kind)
    return f"{shown(error['input'])} {template.format_map(context)}" if template else error["msg"]


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the message for an undeclared argument, with the nearest declared name."""
    nearest = get_close_matches(name[:100], list(known), n=1)
    return f'unknown argument, did you mean "{nearest[0]}"?' if nearest else "unknown argument"


def shown(value: object) -> str:
    """Return a client's value as JSON, shortened."""
    match value:
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case str():
            cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
            return json.dumps(cut, ensure_ascii=False)
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float():
            text = json.dumps(value)
            return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return type(value).__name__


def not_one_of(value: object, allowed: Iterable[object]) -> PydanticCustomError:
    """Return the error for a value outside a closed set."""
    names = [shown(item) for item in allowed]
    more = f" … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return value_error(f"{shown(value)} is not one of {', '.join(names[:_MOST_NAMES])}{more}")


def _item_count(kind: str, context: dict[str, Any]) -> str:
    if kind == "too_short":
        return f"has fewer than {_counted(context['min_length'], 'item')}"
    return f"has more than {_counted(context['max_length'], 'item')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_ABOUT_VALUE = {
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
    "int_type": "is not a whole number",
    "string_type": "is not a string",
    "bool_type": "is not true or false",
    "list_type": "is not a list",
    "tuple_type": "is not a list",
    "dict_type": "is not an object",
    "greater_than_equal": "is below {ge}",
    "less_than_equal": "is above {le}",
    "greater_than": "is not above {gt}",
    "less_than": "is not below {lt}",
    "multiple_of": "is not a multiple of {multiple_of}",
    "string_too_short": "is shorter than the least length, {min_length}",
    "string_too_long": "is longer than the greatest length, {max_length}",
    "string_pattern_mismatch": "does not match {pattern}",
}
