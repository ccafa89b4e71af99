"""Events as reactor.welcome describes them: one of every kind of control, and a great many of them."""

from __future__ import annotations

from typing import Any


def setter(field: str, description: str, schema: dict[str, Any], defs: dict[str, Any] | None = None) -> dict[str, Any]:
    """The event that sets `field`, as made from a state."""
    parameters = {
        "type": "object",
        "properties": {field: {**schema, "description": description}},
        "required": [field],
        "additionalProperties": False,
    }
    return {"description": description, "field": field, "parameters": parameters | ({"$defs": defs} if defs else {})}


def action(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """An event that is no field; arguments without default are required."""
    required = [name for name, schema in properties.items() if "default" not in schema]
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"description": description, "field": None, "parameters": parameters}


NULL = {"type": "null"}
POSE = {
    "Pose": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}
}
PALETTE = {"Palette": {"type": "string", "enum": ["aurora", "ember", "deep sea"]}}

SCHEMA: dict[str, Any] = {
    "set_prompt": setter(
        "prompt", "What the picture should become", {"type": "string", "maxLength": 60, "default": "a fox in the snow"}
    ),
    "set_brightness": setter(
        "brightness", "Brightness multiplier", {"type": "number", "minimum": 0.0, "maximum": 2.0, "default": 1.0}
    ),
    "set_steps": setter(
        "steps", "Denoising steps for each frame", {"type": "integer", "minimum": 1, "maximum": 8, "default": 4}
    ),
    "set_palette": setter("palette", "", {"$ref": "#/$defs/Palette", "default": "aurora"}, PALETTE),
    "set_frozen": setter("frozen", "Keep the picture as it is", {"type": "boolean", "default": False}),
    "set_seed": setter("seed", "", {"type": "integer", "default": 7}),
    "set_guidance": setter(
        "guidance",
        "None leaves it to the model",
        {"anyOf": [{"type": "number", "minimum": 0, "maximum": 15}, NULL], "default": None},
    ),
    "set_pose": setter(
        "pose", "Where the camera stands", {"$ref": "#/$defs/Pose", "default": {"x": 0.5, "y": 0.25}}, POSE
    ),
    "reset": action("Start over from noise"),
    "save": action("Keep this frame"),
    "spawn": action(
        "Put something into the scene",
        thing={"type": "string", "maxLength": 12, "description": "What it is"},
        size={"type": "number", "minimum": 0.1, "maximum": 3, "default": 1},
        sticky={"type": "boolean", "default": False},
    ),
}

SAMPLES: list[dict[str, Any]] = [
    {"type": "number", "minimum": -1, "maximum": 1, "default": 0},
    {"type": "integer", "minimum": 0, "maximum": 100, "default": 10},
    {"type": "string", "enum": ["soft", "hard", "very hard indeed"], "default": "soft"},
    {"type": "boolean", "default": True},
    {"type": "string", "default": ""},
]
WORDS = ["", "One of a great many", "Explained at some length, because it does something that nobody could guess"]
MANY = {f"set_parameter_{n}": setter(f"parameter_{n}", WORDS[n % 3], SAMPLES[n % 5]) for n in range(30)}


def shown(widget: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A value that the page shows over the frame."""
    return {**schema, "x-reactor-ui": {"widget": widget, **more}}


FRACTION = {"type": "number", "minimum": 0, "maximum": 4}
READ_ONLY = {
    "score": shown("value", {"type": "integer", "default": 12340}),
    "left_s": shown("clock", {"type": "number", "default": 92.4}, label="Time left"),
    "health": shown("bar", {**FRACTION, "default": 1}),
    "speaking": shown("light", {"type": "boolean", "default": False}),
    "level": shown("value", {"type": "string", "default": "The caves below the old town"}),
    "path": {"type": "array", "default": []},
}
TIMING = {
    "timing": {
        "description": "",
        "data": {
            "type": "object",
            "properties": {
                "gpu_ms": shown("value", {"type": "number"}, label="GPU", unit="ms"),
                "batch": {"type": "integer"},
            },
        },
    }
}


def defaults(events: dict[str, Any]) -> dict[str, Any]:
    """The state a session starts with."""
    return {
        event["field"]: schema["default"]
        for event in events.values()
        if event["field"]
        for schema in event["parameters"]["properties"].values()
    }
