"""What an independent validator and JSON Schema say of a document of ours."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

Document = dict[str, Any]


def flaws(document: Document) -> list[str]:
    """List what makes this no OpenAPI 3.1 document."""
    return [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()]


def validator(document: Document, component: str) -> Draft202012Validator:
    """Make a validator of one component; references lead into the document."""
    schema = {"$ref": f"#/components/schemas/{component}", "components": document["components"]}
    return Draft202012Validator(schema)


def strict(document: Document) -> Document:
    """Allow nothing beyond what is named: the server says what the document knows, and all of it."""
    schemas = {name: _closed(schema) for name, schema in document["components"]["schemas"].items()}
    return {**document, "components": {"schemas": schemas}}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {key: _closed(value) for key, value in schema.items()}
    names_its_members = schema.get("type") == "object" and "properties" in schema
    return {"additionalProperties": False, **inside} if names_its_members else inside
