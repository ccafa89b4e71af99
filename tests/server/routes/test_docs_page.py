from __future__ import annotations

import ast
import json
import re
from html import unescape
from typing import Any, Literal

import pytest

from reactor_runtime import Audio, Input, InputField, InputState, Output, ReactorPipeline, UploadedFile, Video, event
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.server.routes.docs_page import example, render

URL = "http://127.0.0.1:8080"


class Shown(Output):
    main_video: Video
    voice: Audio


class Camera(Input):
    camera: Video


class Controls(InputState):
    strength: float = InputField(default=0.5, gt=0.0, le=1.0, description="How <much>")
    mode: Literal["draft", "fine"] = "draft"
    style: UploadedFile | None = None


class Model(ReactorPipeline):
    state: Controls
    output: Shown
    input: Camera

    @event(name="splash it", description="Drop a pebble")
    def splash(self, x: float = InputField(ge=0.25), note: str = "") -> None: ...

    def inference(self) -> Any:
        yield None


@pytest.fixture(scope="module")
def page() -> str:
    return render(Contract.of(Model).to_json(), URL)


def lines(page: str, language: str) -> list[str]:
    found = re.findall(rf"<figcaption>{language}</figcaption><pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    return [unescape(text) for text in found]


def test_each_event_and_track_has_an_entry(page: str) -> None:
    names = ["main_video", "voice", "camera", "set_strength", "set_mode", "set_style", "splash it"]
    assert re.findall(r"<h3>(.*?)</h3>", page) == names


def test_a_value_has_its_type_default_and_description_escaped(page: str) -> None:
    assert "<code>strength</code><td>number &gt; 0.0 ≤ 1.0<td>0.5<td>How &lt;much&gt;" in page
    assert "<code>mode</code><td>&quot;draft&quot; | &quot;fine&quot;<td>&quot;draft&quot;<td>" in page
    assert "<code>x</code><td>number ≥ 0.25<td><td>" in page


def test_the_lines_of_python_are_python_and_send_valid_values(page: str) -> None:
    found = lines(page, "Python")
    for text in found:
        ast.parse(text)
        assert f'with connect("{URL}/") as session' in text
    assert any(text.endswith('session.send("set_strength", strength=0.5))') for text in found)
    assert any(text.endswith('session.send("splash it", x=0.25))') for text in found)


def test_the_lines_of_javascript_and_curl_have_the_address(page: str) -> None:
    assert any('session.send("set_mode", {"mode": "draft"})' in text for text in lines(page, "JavaScript"))
    assert f"curl '{URL}/snapshot/main_video.jpg' --output main_video.jpg" in lines(page, "curl")


def test_with_a_token_every_address_has_its_place() -> None:
    guarded = render(Contract.of(Model).to_json(), URL, "?token=TOKEN")
    for language in ("Python", "JavaScript", "curl"):
        assert all("?token=TOKEN" in text for text in lines(guarded, language))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 3}, 3),
        ({"enum": ["ink", "oil"]}, "ink"),
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        (
            {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]},
            {"x": 0.5},
        ),
        ({}, None),
    ],
    ids=json.dumps,
)
def test_an_example_fits_the_schema(schema: dict[str, Any], value: Any) -> None:
    assert example(schema) == value
