"""The pieces that the protocol's JSON Schemas are made of."""

from __future__ import annotations

from typing import Any, get_type_hints

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
ID: Schema = {"type": ["string", "integer"]}
SECONDS: Schema = {"type": "number", "minimum": 0}
SECONDS_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}
PROGRESS: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": "null: it is unknown"}


def ref(name: str) -> Schema:
    """Refer to a component of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(required: Schema, optional: Schema | None = None, **more: Any) -> Schema:
    """Describe an object by its members."""
    named = {"required": list(required)} if required else {}
    return {"type": "object", "properties": {**required, **(optional or {})}, **named, **more}


def schema_of(shape: type) -> Schema:
    """Describe a TypedDict, each member of which is another TypedDict or is annotated with its schema."""
    members = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        members[name] = schema_of(hint) if isinstance(hint, type) else dict(*hint.__metadata__)
    return record(members)


def or_null(schema: Schema) -> Schema:
    """Describe a value that may be null."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(names: list[str]) -> Schema:
    """Describe a value of any of these components; there is at least one."""
    return ref(names[0]) if len(names) == 1 else {"oneOf": [ref(name) for name in names]}


def by_name(value: Schema) -> Schema:
    """Describe an object whose members all have the same schema."""
    return {"type": "object", "additionalProperties": value}
