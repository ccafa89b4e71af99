"""Generates TypeScript types of a model's events, messages, state and tracks, for the client's `connect`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from reactor_runtime.schema.typed import Records, Schema, TypeNames, camel, is_upload, literals, members, state_of

_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_RESERVED = {"Array", "Events", "Messages", "Record", "Said", "Tracks", "Upload"}
_HEAD = """\
/** Types of {name}. Made by `reactor schema --format typescript`; make them anew instead of changing them. */

/** A file that was uploaded. */
export type Upload = {{ upload: string }};
"""
_TAIL = """\
/** Any message of the model's, told apart by its type. */
export type Said = {{ [Kind in keyof Messages]: {{ type: Kind; data: Messages[Kind] }} }}[keyof Messages];

/** All of it, as the client wants it: `connect<{model}>(url)`, `useReactor<{model}>(url)`. */
export interface {model} {{
  state: State;
  events: Events;
  messages: Messages;
  tracks: Tracks;
}}
"""


def module(name: str, contract: Mapping[str, Any]) -> str:
    """Return the module for the model called `name`; `contract` is the JSON form of a Contract."""
    events, messages = contract["schema"]["events"], contract["schema"]["messages"]
    names = TypeNames(_RESERVED)
    types = _Types(names)
    types.records.name(state_of(events), "State")
    model = names.choose(camel(name))
    taken = [_entry(event, spec, types.members_of(spec["parameters"], camel(event))) for event, spec in events.items()]
    said = [_entry(kind, spec, types.members_of(spec["data"], camel(kind))) for kind, spec in messages.items()]
    parts = [
        _HEAD.format(name=_safe(name)),
        *types.records.definitions,
        _tracks(contract["tracks"]),
        _interface("Events", "What each event carries.", taken),
        _interface("Messages", "What each message carries.", said),
        _TAIL.format(model=model),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


class _Types:
    """Convert JSON Schemas to TypeScript types."""

    def __init__(self, names: TypeNames) -> None:
        self.records = Records(names, self._record)

    def of(self, schema: Schema, wanted: str = "Record") -> str:
        values = literals(schema)
        if values is not None:
            return " | ".join(json.dumps(value) for value in values)
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.of(each, wanted) for each in schema["anyOf"]))
        match schema.get("type"):
            case "array" if "prefixItems" in schema:
                return f"[{', '.join(self.of(each, wanted) for each in schema['prefixItems'])}]"
            case "array":
                return f"Array<{self.of(schema.get('items', {}), wanted)}>"
            case "object":
                return self._object(schema, wanted)
            case str() as kind:
                return _PLAIN[kind]
        return "unknown"

    def members_of(self, schema: Schema, wanted: str) -> str:
        """Return an object type in one line."""
        if not schema.get("properties"):
            return "Record<string, never>"
        written = [
            f"{_key(name)}{'' if required else '?'}: {self.of(member, wanted + camel(name))}"
            for name, member, required in members(schema)
        ]
        return f"{{ {'; '.join(written)} }}"

    def _object(self, schema: Schema, wanted: str) -> str:
        if is_upload(schema):
            return "Upload"
        if "properties" in schema:
            return self.records.name(schema, wanted)
        values = schema.get("additionalProperties")
        return f"Record<string, {self.of(values, wanted) if isinstance(values, Mapping) else 'unknown'}>"

    def _record(self, name: str, schema: Schema) -> str:
        lines = []
        for member, of, required in members(schema):
            lines += _comment(of.get("description", ""), 2)
            lines.append(f"  {_key(member)}{'' if required else '?'}: {self.of(of, name + camel(member))};")
        return "\n".join([*_comment(schema.get("description", ""), 0), f"export interface {name} {{", *lines, "}"])


def _entry(name: str, spec: Schema, written: str) -> str:
    return "\n".join([*_comment(spec["description"], 2), f"  {_key(name)}: {written};"])


def _interface(name: str, about: str, entries: list[str]) -> str:
    return "\n".join([f"/** {about} */", f"export interface {name} {{", *entries, "}"])


def _tracks(tracks: list[Mapping[str, Any]]) -> str:
    """Return the interface of the tracks, grouped by direction and kind."""
    ways = {
        "shown": ("out", "video"),
        "heard": ("out", "audio"),
        "filmed": ("in", "video"),
        "recorded": ("in", "audio"),
    }
    lines = []
    for kind, way in ways.items():
        found = [json.dumps(track["name"]) for track in tracks if (track["direction"], track["kind"]) == way]
        lines.append(f"  {kind}: {' | '.join(found) or 'never'};")
    about = "/** The tracks: pictures shown, sound heard, and what the model takes of a camera and a microphone. */"
    return "\n".join([about, "export interface Tracks {", *lines, "}"])


def _comment(text: str, indent: int) -> list[str]:
    words = " ".join(_safe(text).split())
    return [f"{' ' * indent}/** {words} */"] if words else []


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name, re.ASCII) else json.dumps(name)


def _safe(text: str) -> str:
    return text.replace("*/", "*\\/")
