"""What typed clients in any language need of a model's JSON Schemas: names that may be written, and the records."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


class TypeNames:
    """Give each thing a name that may be written in a language and that nothing else has."""

    def __init__(self, reserved: Collection[str]) -> None:
        self._taken = set(reserved)

    def choose(self, wanted: str) -> str:
        """Take the name, or the nearest that is free: `lambda_`, then `lambda_2`."""
        name = wanted if re.match(r"[A-Za-z_]", wanted) else f"_{wanted}"
        nearest = itertools.chain((name, f"{name}_"), (f"{name}_{number}" for number in itertools.count(2)))
        chosen = next(each for each in nearest if each not in self._taken)
        self._taken.add(chosen)
        return chosen


class Records:
    """Name the objects with members among a model's schemas, each that looks alike once.

    `define` writes the one that is new, when all that it is made of has been written.
    """

    def __init__(self, names: TypeNames, define: Callable[[str, Schema], str]) -> None:
        self.definitions: list[str] = []
        self._names = names
        self._define = define
        self._known: dict[str, str] = {}

    def name(self, schema: Schema, wanted: str = "Record") -> str:
        """Return the name of an object's type, and have it defined if it isn't yet."""
        looks = json.dumps(schema, sort_keys=True)
        if looks not in self._known:
            name = self._known[looks] = self._names.choose(camel(str(schema.get("title") or wanted)))
            self.definitions.append(self._define(name, schema))
        return self._known[looks]


def camel(name: str) -> str:
    """Write a name as those of types are written: `my-model` is `MyModel`."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", name) if word) or "Unnamed"


def snake(name: str) -> str:
    """Write a name as those of functions are written: `go-now` is `go_now`."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def members(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """List an object's members: name, schema, and whether it has to be there."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        yield name, member, name in required


def is_upload(schema: Schema) -> bool:
    """Tell whether a value is a file that was uploaded."""
    return schema.get("format") == "upload"


def literals(schema: Schema) -> list[Any] | None:
    """List the values there are to choose from, None where there are others."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return None if values is None else list(values)


def state_of(events: Mapping[str, Schema]) -> Schema:
    """Describe the public state as an object: each field as the event that sets it takes it."""
    fields = {}
    for spec in events.values():
        if spec["field"]:
            fields[spec["field"]] = spec["parameters"]["properties"].get(spec["field"], {})
    return {"type": "object", "title": "State", "properties": fields, "required": list(fields)}
