"""The kinds of values that clients set, with all that the readers of a JSON Schema have to know of each kind.

The keywords `enum`, `type`, `format` and `prefixItems` of a schema say its kind. The page has the same kinds in
`controls/parameters.js`; tests/test_kinds.py compares them, and asks every reader about every kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """Describe one kind of value."""

    # As an author writes the type.
    type: str
    # In the docs of a model, such as `reactor check` and `/docs`.
    noun: str
    # How JSON has a value, if the noun does not say it.
    form: str = ""
    # Those that an author may choose.
    widgets: tuple[str, ...] = ()
    # How a value that clients do not set is shown; the first is the default.
    displays: tuple[str, ...] = ()
    # The types of the generated clients; empty for kinds whose type depends on their parts.
    python: str = ""
    typescript: str = ""
    example: object = None


_NUMBER = ("value", "bar", "clock")
MOMENT, DATE, TIME = "2026-11-24T18:30:00+00:00", "2026-11-24", "18:30:00"
KINDS = {
    "int": Kind("int", "integer", "", ("slider", "number", "seed", "angle"), _NUMBER, "int", "number", 1),
    "float": Kind("float", "number", "", ("slider", "number", "angle"), _NUMBER, "float", "number", 0.5),
    "str": Kind("str", "string", "", ("text", "multiline", "password", "color"), ("value",), "str", "string", "text"),
    "bool": Kind("bool", "boolean", "", (), ("light", "value"), "bool", "boolean", True),
    "choice": Kind("choices, Literal and Enum", "choice", "", ("select", "radio"), ("value",)),
    "pair": Kind("tuple[float, float]", "array", "", ("xy", "range")),
    "file": Kind("UploadedFile", "file", "its upload", ("image", "file")),
    "datetime": Kind("datetime", "date and time", MOMENT, (), (), "str", "string", MOMENT),
    "date": Kind("date", "date", DATE, (), ("value",), "str", "string", DATE),
    "time": Kind("time", "time of day", TIME, (), ("value",), "str", "string", TIME),
}
# A `date-time` has an offset from UTC; a `time-local`, from the registry of OpenAPI, has none, unlike a `time`.
_BY_FORMAT = {"upload": "file", "date-time": "datetime", "date": "date", "time-local": "time"}
_BY_TYPE = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}


def kind_of(schema: Mapping[str, Any]) -> str | None:
    """Return the name of the kind of a value that is not null; None for other objects and arrays, and any value."""
    if "enum" in schema or "const" in schema:
        return "choice"
    parts = schema.get("prefixItems", ())
    if len(parts) == 2 and all(kind_of(part) in ("int", "float") for part in parts):
        return "pair"
    return kind_of_type(schema)


def kind_of_type(schema: Mapping[str, Any]) -> str | None:
    """Return the kind that follows from the type alone, also of a value with choices."""
    return _BY_FORMAT.get(schema.get("format", "")) or _BY_TYPE.get(schema.get("type", ""))


def without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the value that an optional one has if it is not null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if options else schema
