from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from reactor_cli import console
from reactor_cli.outline import outline_tables

Lines: TypeAlias = Callable[..., list[str]]


def outline(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"fps": 30.0, "max_fps": 60.0, "buffer_size": 4, "tracks": [], "events": {}, "messages": {}}
    return {**facts, **changes}


def event(description: str = "", **properties: Any) -> dict[str, Any]:
    return {"description": description, "field": None, "parameters": {"type": "object", "properties": properties}}


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Return a function that prints an outline and returns its lines as a pipe gets them."""

    def printed(**changes: Any) -> list[str]:
        console.out(outline_tables(outline(**changes)))
        return capsys.readouterr().out.splitlines()

    return printed


def test_an_empty_model_has_every_section(lines: Lines) -> None:
    assert lines() == [
        "  rate      30 fps; up to 4 frames queued",
        "  tracks    none",
        "  events    none",
        "  messages  none",
    ]


def test_one_frame_is_queued(lines: Lines) -> None:
    assert lines(buffer_size=1)[0] == "  rate      30 fps; up to 1 frame queued"


def test_a_rate_that_follows_the_compute_time(lines: Lines) -> None:
    rate, *_ = lines(fps=None, max_fps=24.0)
    assert rate == "  rate      as fast as it computes, 1 to 24 fps; up to 4 frames queued"


def test_tracks_have_kind_direction_and_rate(lines: Lines) -> None:
    tracks = [
        {"name": "camera", "kind": "video", "direction": "in"},
        {"name": "sound", "kind": "audio", "direction": "out", "sample_rate": 24000},
    ]
    assert lines(tracks=tracks)[1:3] == [
        "  tracks    camera: video in",
        "            sound: audio out, 24000 Hz",
    ]


def test_a_first_step_has_its_time_and_the_size_of_its_output(lines: Lines) -> None:
    tracks = [
        {"name": "main_video", "kind": "video", "frames": 1, "width": 640, "height": 360, "dtype": "uint8"},
        {"name": "second", "kind": "video", "frames": 12, "width": 64, "height": 36, "dtype": "uint8"},
        {"name": "sound", "kind": "audio", "seconds": 0.04, "channels": 1, "dtype": "int16"},
    ]
    assert lines(step={"seconds": 0.0416, "tracks": tracks})[-4:] == [
        "  step      41.6 ms",
        "            main_video: 640x360, uint8",
        "            second: 12 frames of 64x36, uint8",
        "            sound: 0.04 s of sound, mono, int16",
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
        (
            {"type": "array", "prefixItems": [{"type": "number", "minimum": 0}, {}], "minItems": 2, "maxItems": 2},
            "x: [number >= 0, anything]",
        ),
        ({"type": "object", "title": "Point", "properties": {}}, "x: Point"),
        ({"type": "string", "default": "a" * 90}, "x: string = …"),
        ({}, "x"),
    ],
    ids=str,
)
def test_a_parameter_is_written_with_type_limits_and_default(lines: Lines, schema: dict[str, Any], text: str) -> None:
    assert lines(events={"go": event(x=schema)})[2] == f"  events    go({text})"


def test_a_description_is_beside_its_event_on_one_line(lines: Lines) -> None:
    rows = lines(events={"go": event("short"), "arrive": event("word " * 40), "stay": event("a\nb")})[2:-1]
    assert rows == [
        "  events    go()      short",
        f"            arrive()  {'word ' * 39}word",
        "            stay()    a b",
    ]


def test_control_characters_are_escaped(lines: Lines) -> None:
    assert lines(events={"go": event("a\x1bb")})[2] == "  events    go()  a\\x1bb"
