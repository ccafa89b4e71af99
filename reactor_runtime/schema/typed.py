"""Names and record types from a model's JSON Schemas, shared by the generators of typed clients."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from reactor_runtime.kinds import KINDS, kind_of, without_null

Schema = Mapping[str, Any]


class TypeNames:
    """Choose unique names that are valid in a language."""

    def __init__(self, reserved: Collection[str]) -> None:
        self._taken = set(reserved)

    def choose(self, wanted: str) -> str:
        """Return the name, or the nearest free one: `lambda_`, then `lambda_2`."""
        name = wanted if re.match(r"[A-Za-z_]", wanted) else f"_{wanted}"
        nearest = itertools.chain((name, f"{name}_"), (f"{name}_{number}" for number in itertools.count(2)))
        chosen = next(each for each in nearest if each not in self._taken)
        self._taken.add(chosen)
        return chosen


class Records:
    """Name the object types among a model's schemas; equal schemas share a name.

    `define` generates each new type after the types of its members.
    """

    def __init__(self, names: TypeNames, define: Callable[[str, Schema], str]) -> None:
        self.definitions: list[str] = []
        self._names = names
        self._define = define
        self._known: dict[str, str] = {}

    def name(self, schema: Schema, wanted: str = "Record") -> str:
        """Return the name of an object's type; define the type if it is new."""
        key = json.dumps(schema, sort_keys=True)
        if key not in self._known:
            name = self._known[key] = self._names.choose(camel(str(schema.get("title") or wanted)))
            self.definitions.append(self._define(name, schema))
        return self._known[key]


def camel(name: str) -> str:
    """Convert a name to a type's name: `my-model` to `MyModel`."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", name) if word) or "Unnamed"


def snake(name: str) -> str:
    """Convert a name to a function's name: `go-now` to `go_now`."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def members(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield an object's members: name, schema, and whether it is required."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        yield name, member, name in required


def is_upload(schema: Schema) -> bool:
    """Return whether a schema is that of an uploaded file."""
    return schema.get("format") == "upload"


def about(name: str, schema: Schema, *, beside: str = "") -> str:
    """Return what a type does not say of a value, as one line.

    That is the label, if it differs from the name, the description, if `beside` is another text, and the form of text.
    """
    label = str(schema.get("x-reactor-ui", {}).get("label", ""))
    description = str(schema.get("description", ""))
    texts = [
        "" if label.casefold().replace(" ", "_") == name.casefold() else label,
        "" if description == beside else " ".join(description.split()),
    ]
    inner = without_null(schema)
    kind = kind_of(inner)
    if kind and inner.get("type") == "string" and KINDS[kind].form:
        texts.append(f"{KINDS[kind].noun}, as {KINDS[kind].form}")
    return ": ".join(text for text in texts if text)


def literals(schema: Schema) -> list[Any] | None:
    """Return the allowed values; None if they are not enumerated."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return None if values is None else list(values)


def state_of(schema: Mapping[str, Any]) -> Schema:
    """Describe the public state as an object, with the schemas of the events that set its fields."""
    fields = {}
    for spec in schema["events"].values():
        if spec["field"]:
            fields[spec["field"]] = spec["parameters"]["properties"].get(spec["field"], {})
    fields |= schema.get("state", {})
    return {"type": "object", "title": "State", "properties": fields, "required": list(fields)}
