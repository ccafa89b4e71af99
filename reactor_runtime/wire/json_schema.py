"""The pieces that the protocol's JSON Schemas are made of."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
ID: Schema = {"type": ["string", "integer"]}
SECONDS: Schema = {"type": "number", "minimum": 0}
SECONDS_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}


def ref(name: str) -> Schema:
    """Refer to a component of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(required: Schema, optional: Schema | None = None, **more: Any) -> Schema:
    """Describe an object by its members."""
    named = {"required": list(required)} if required else {}
    return {"type": "object", "properties": {**required, **(optional or {})}, **named, **more}


def one_of(names: list[str]) -> Schema:
    """Describe a value of any of these components; there is at least one."""
    return ref(names[0]) if len(names) == 1 else {"oneOf": [ref(name) for name in names]}


def by_name(value: Schema) -> Schema:
    """Describe an object whose members all have the same schema."""
    return {"type": "object", "additionalProperties": value}
