from __future__ import annotations

from typing import Any

import pytest

from reactor_cli.outline import WIDTH, outline_lines


def outline(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"fps": 30.0, "max_fps": 60.0, "buffer_size": 4, "tracks": [], "events": {}, "messages": {}}
    return {**facts, **changes}


def event(description: str = "", **properties: Any) -> dict[str, Any]:
    return {"description": description, "field": None, "parameters": {"type": "object", "properties": properties}}


def test_an_empty_model_has_every_section() -> None:
    assert list(outline_lines(outline())) == [
        "  rate      30 fps; up to 4 frames queued",
        "  tracks    none",
        "  events    none",
        "  messages  none",
    ]


def test_a_rate_that_follows_the_compute_time() -> None:
    rate = next(outline_lines(outline(fps=None, max_fps=24.0)))
    assert rate == "  rate      as fast as it computes, 1 to 24 fps; up to 4 frames queued"


def test_tracks_have_kind_direction_and_rate() -> None:
    tracks = [
        {"name": "camera", "kind": "video", "direction": "in"},
        {"name": "sound", "kind": "audio", "direction": "out", "sample_rate": 24000},
    ]
    assert list(outline_lines(outline(tracks=tracks)))[1:3] == [
        "  tracks    camera: video in",
        "            sound: audio out, 24000 Hz",
    ]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "x: integer"),
        ({"type": "number", "minimum": 0, "maximum": 2, "default": 1}, "x: number 0 to 2 = 1"),
        ({"type": "number", "minimum": 0}, "x: number >= 0"),
        ({"type": "number", "exclusiveMaximum": 1, "multipleOf": 0.5}, "x: number < 1 in steps of 0.5"),
        ({"enum": ["a", 3, None], "default": "a"}, 'x: "a" | 3 | null = "a"'),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, "x: string of at most 3 characters | null"),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, "x: array of integer of at most 2"),
        ({"type": "object", "title": "Point", "properties": {}}, "x: Point"),
        ({"type": "string", "default": "a" * 90}, "x: string = …"),
        ({}, "x"),
    ],
    ids=str,
)
def test_a_parameter_is_written_with_type_limits_and_default(schema: dict[str, Any], text: str) -> None:
    assert list(outline_lines(outline(events={"go": event(x=schema)})))[2] == f"  events    go({text})"


def test_a_description_that_does_not_fit_goes_below() -> None:
    rows = list(
        outline_lines(outline(events={"go": event("short"), "come": event("word " * 40), "stay": event("a\nb")}))
    )[2:-1]
    assert rows[0] == "  events    go()  short"
    assert rows[1] == "            come()"
    assert rows[2].startswith("              word word")
    assert rows[-1] == "            stay()  a b"
    assert max(map(len, rows)) <= WIDTH
