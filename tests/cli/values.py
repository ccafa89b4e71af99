"""A valid value for a JSON Schema of an event, different from the default if that is simple."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def value(schema: Schema, definitions: Schema | None = None) -> Any:
    """Return a value for a schema of an event; `definitions` has the targets of its references."""
    definitions = {**(definitions or {}), **schema.get("$defs", {})}
    if "$ref" in schema:
        return value(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema:
        return schema["enum"][-1]
    if "anyOf" in schema:
        # A file would have to be uploaded first.
        return value(next(part for part in schema["anyOf"] if part.get("format") != "upload"), definitions)
    match schema.get("type"):
        case "object":
            return {name: value(part, definitions) for name, part in schema.get("properties", {}).items()}
        case "array":
            parts = schema.get("prefixItems", [schema.get("items", {})] * schema.get("minItems", 0))
            return [value(part, definitions) for part in parts]
        case "integer" | "number" as kind:
            return _number(schema, whole=kind == "integer")
        case "string" if "pattern" not in schema:
            return "hello"[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "o")
        case "boolean":
            return not schema.get("default", False)
        case _:
            return schema.get("const", schema.get("default"))


def _number(schema: Schema, *, whole: bool) -> float:
    """Return a number at three quarters of the range, on the grid if there is one."""
    low = next((schema[key] for key in ("minimum", "exclusiveMinimum", "default") if key in schema), 0)
    high = next((schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema), low + 1)
    grid = schema.get("multipleOf", 1 if whole else None)
    number: float = low + 0.75 * (high - low)
    return number if grid is None else number // grid * grid
