"""The hash of the types in a contract, by which a generated client notices that the model has other types."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

_VALUES = ("type", "enum", "const", "format", "required", "$ref")
_SCHEMAS = ("items", "additionalProperties")
_LISTS = ("anyOf", "prefixItems")
_MAPPINGS = ("properties", "$defs")
_BYTES = 8


def types_hash(tracks: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> str:
    """Return a hash of tracks, events, messages and state, without descriptions, defaults, limits and controls."""
    events = {
        name: {"field": event["field"], "replies": event["replies"], "data": _types(event["parameters"])}
        for name, event in schema["events"].items()
    }
    messages = {name: _types(message["data"]) for name, message in schema["messages"].items()}
    state = {name: _types(field) for name, field in schema.get("state", {}).items()}
    text = json.dumps([list(tracks), events, messages, *([state] if state else [])], sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=_BYTES).hexdigest()


def _types(schema: Any) -> Any:
    """Return a JSON Schema with the keywords that a type depends on."""
    if not isinstance(schema, Mapping):
        return schema
    types = {key: schema[key] for key in _VALUES if key in schema}
    types |= {key: _types(schema[key]) for key in _SCHEMAS if key in schema}
    types |= {key: [_types(each) for each in schema[key]] for key in _LISTS if key in schema}
    return types | {key: {n: _types(s) for n, s in schema[key].items()} for key in _MAPPINGS if key in schema}
