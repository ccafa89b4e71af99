"""The shape of `reactor.welcome`, the first message to a client that sees the model.

Each member has its type, which mypy checks in the server, and its JSON Schema, which `/schema` publishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from reactor_runtime.wire.json_schema import (
    COUNT,
    SECONDS_OR_NULL,
    STRING,
    Schema,
    by_name,
    or_null,
    record,
    ref,
    schema_of,
)
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES, SUBPROTOCOL
from reactor_runtime.wire.reload import ReloadMessage

_JSON_SCHEMA: Schema = {"type": "object", "description": "A JSON Schema of the data"}
_FIELD: Schema = {"type": ["string", "null"], "description": "The state field that the event sets"}
_REPLIES: Schema = {
    "type": ["array", "null"],
    "items": {"type": ["string", "null"]},
    "description": "The types of the message in the event's reply, null for none; null where they are not declared",
}
_HOST: Schema = {"type": "boolean", "description": "Only the client in the first seat may send it"}
_EVENT = record(
    {"description": STRING, "field": _FIELD, "parameters": _JSON_SCHEMA}, {"replies": _REPLIES, "host": _HOST}
)
_MESSAGE = record({"description": STRING, "data": _JSON_SCHEMA})
_TYPES: Schema = {"type": "string", "description": "A hash of the types, which generated clients compare with theirs"}
_STATE: Schema = {**by_name({"type": "object"}), "description": "JSON Schemas of the state fields that no event sets"}
MODEL = record({"events": by_name(_EVENT), "messages": by_name(_MESSAGE)}, {"state": _STATE, "types": _TYPES})
ENCODINGS: Schema = {
    "type": "array",
    "items": STRING,
    "description": "The encodings of video that the server has, by the names for `codecs` of a view",
}
TRACKS: Schema = {"type": "array", "items": ref("Track")}
_ENVIRONMENT: Schema = {
    **by_name(STRING),
    "description": "The `message` with the `reward`, and its fields; empty where the project names none",
}
_SEAT: Schema = {**COUNT, "description": "The seat that this client has, or that it watches"}
_ROOM: Schema = {
    "type": ["string", "null"],
    "description": "The code by which others find a session with several seats, null without it in a private one",
}
_SESSION: Schema = {"type": ["string", "null"], "description": "null: no session runs"}
_UPLOAD_KEY: Schema = {"type": ["string", "null"], "description": "The `key` of the session's uploads"}


class WelcomeLimits(TypedDict):
    """Limit what a client sends, and its session; null is no limit."""

    max_text_bytes: Annotated[int, {**COUNT, "examples": [MAX_TEXT_BYTES]}]
    max_media_bytes: Annotated[int, {**COUNT, "examples": [MAX_MEDIA_BYTES]}]
    max_upload_bytes: Annotated[int, {**COUNT, "examples": [MAX_UPLOAD_BYTES]}]
    max_session_s: Annotated[float | None, SECONDS_OR_NULL]
    idle_timeout_s: Annotated[float | None, SECONDS_OR_NULL]
    resume_grace_s: Annotated[float | None, SECONDS_OR_NULL]


class WelcomeMessage(TypedDict):
    """Describe the model, the session, and the client's rights in it."""

    protocol: Annotated[str, {"type": "string", "const": SUBPROTOCOL}]
    session: Annotated[str | None, _SESSION]
    client: Annotated[str, STRING]
    role: Annotated[str, {"type": "string", "enum": ["controller", "viewer"]}]
    seat: Annotated[int, _SEAT]
    seats: Annotated[int, {**COUNT, "minimum": 1, "description": "How many controllers a session has"}]
    room: Annotated[str | None, _ROOM]
    model: Annotated[str, STRING]
    tracks: Annotated[Sequence[Mapping[str, Any]], TRACKS]
    schema: Annotated[Mapping[str, Any], MODEL]
    state: Annotated[Mapping[str, Any], ref("State")]
    resume: Annotated[str | None, {"type": ["string", "null"]}]
    upload_key: Annotated[str | None, _UPLOAD_KEY]
    generation: Annotated[str, {"type": "string", "enum": ["realtime", "stepped"], "description": "What makes steps"}]
    environment: Annotated[Mapping[str, str], _ENVIRONMENT]
    shared: Annotated[bool, {"type": "boolean", "description": "Every client of the session may send events"}]
    limits: WelcomeLimits
    encodings: Annotated[Sequence[str], ENCODINGS]
    reload: Annotated[ReloadMessage | None, or_null(schema_of(ReloadMessage))]


def welcome_schema() -> Schema:
    """Return the JSON Schema of a welcome's data."""
    return schema_of(WelcomeMessage)
