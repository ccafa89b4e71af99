"""A contract with every shape that a value may have."""

from __future__ import annotations

from typing import Any

UPLOAD = {"type": "object", "format": "upload", "properties": {"upload": {"type": "string"}}, "required": ["upload"]}
POINT = {
    "type": "object",
    "title": "Point",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x"],
}
POSE = {
    "type": "object",
    "title": "Pose",
    "properties": {"at": POINT, "path": {"type": "array", "items": POINT}},
    "required": ["at", "path"],
}
NULL = {"type": "null"}


def event(
    description: str = "", field: str | None = None, replies: list[str | None] | None = None, **parameters: Any
) -> dict[str, Any]:
    """Describe an event; a parameter with a default may be left out, but for a field's."""
    required = [name for name, schema in parameters.items() if field or "default" not in schema]
    return {
        "description": description,
        "field": field,
        "parameters": {"type": "object", "properties": parameters, "required": required},
        "replies": [None] if field else replies,
    }


def message(description: str = "", **data: Any) -> dict[str, Any]:
    return {"description": description, "data": {"type": "object", "properties": data, "required": list(data)}}


CONTRACT: dict[str, Any] = {
    "tracks": [
        {"name": "main_video", "kind": "video", "direction": "out"},
        {"name": "microphone", "kind": "audio", "direction": "in", "sample_rate": 48000},
    ],
    "schema": {
        "events": {
            "set_speed": event("How fast it moves", "speed", speed={"type": "number", "default": 1.0}),
            "set_mode": event("", "mode", mode={"type": "string", "enum": ['a "b"', "c\\d"], "default": "c\\d"}),
            "set_level": event("", "level", level={"type": "integer", "enum": [1, 2]}),
            "set_note": event("", "note", note={"anyOf": [{"type": "string"}, NULL], "default": None}),
            "set_size": event("", "size", size={"type": "array", "prefixItems": [{"type": "integer"}] * 2}),
            "set_image": event("", "image", image={"anyOf": [UPLOAD, NULL], "default": None}),
            "set_rate": event("", "rate", rate={"enum": [0.5, 1.5]}),
            "move": event(
                'Ends in "quotes"',
                pose={"anyOf": [POSE, NULL], "default": None},
                weights={"type": "object", "additionalProperties": {"type": "number"}, "default": {}},
                anything={"default": None},
            ),
            "lambda": event('*/ """ \\ ends\nwhat it should not', data={"type": "boolean"}, name={"type": "string"}),
            "go-now": event(replies=["progress"]),
            "go_now": event(),
            "2d": event(replies=["progress", "2d-done", None]),
            "messages": event(),
            "state": event(),
            "session": event(),
        },
        "messages": {
            "progress": message("How far it is.", step={"type": "integer"}, at={"anyOf": [POINT, NULL]}),
            "2d-done": message(values={"type": "array", "items": {"type": "number"}}),
            "state": message(),
        },
    },
}
EMPTY: dict[str, Any] = {"tracks": [], "schema": {"events": {}, "messages": {}}}

LABELLED: dict[str, Any] = {
    "tracks": [],
    "schema": {
        "events": {
            "set_strength": event(
                "How much it changes",
                field="strength",
                strength={
                    "type": "number",
                    "description": "How much it changes",
                    "x-reactor-ui": {"label": "Effect strength"},
                },
            ),
            "set_noise_level": event(
                field="noise_level", noise_level={"type": "number", "x-reactor-ui": {"label": "Noise level"}}
            ),
            "move": event(
                "Move the camera",
                dx={"type": "number", "x-reactor-ui": {"label": "To the right"}},
                dy={"type": "number", "default": 0.0, "description": "In\nmetres"},
            ),
        },
        "messages": {},
    },
}
