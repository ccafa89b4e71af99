"""Every reader of a model's schema knows every kind of value; a new kind that one of them lacks fails here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from html import unescape
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from reactor_cli import console
from reactor_cli.outline import outline_tables
from reactor_runtime import InputField, InputState, ReactorPipeline, UploadedFile
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.values.presentation import Widget
from reactor_runtime.errors import InvalidEvent
from reactor_runtime.kinds import KINDS, kind_of, without_null
from reactor_runtime.schema import typed_python, typed_typescript
from reactor_runtime.server.routes.docs_page import example, render
from tests.clients.node import node

ROOT = Path(__file__).parents[1]
CONTROLS = ROOT / "reactor_runtime" / "page" / "controls"


@dataclass(frozen=True)
class Sample:
    """A field of one kind: its declaration, the page's name of the kind, and the types of the typed clients."""

    hint: Any
    declared: Any
    on_page: str
    python: str
    typescript: str


SAMPLES = {
    "int": Sample(int, InputField(default=1, ge=0, le=9), "range", "int", "number"),
    "float": Sample(float, InputField(default=0.5, ge=0, le=1), "range", "float", "number"),
    "str": Sample(str, "", "text", "str", "string"),
    "bool": Sample(bool, False, "switch", "bool", "boolean"),
    "choice": Sample(Literal["a", "b"], "a", "choice", 'Literal["a", "b"]', '"a" | "b"'),
    "pair": Sample(
        tuple[float, float], InputField(default=(0.0, 1.0), ge=0, le=1), "pair", "list[float]", "[number, number]"
    ),
    "file": Sample(UploadedFile | None, None, "file", "dict[str, str] | None", "Upload | null"),
    "datetime": Sample(datetime, datetime(2026, 11, 24, tzinfo=UTC), "datetime", "str", "string"),
    "date": Sample(date, date(2026, 11, 24), "date", "str", "string"),
    "time": Sample(time, time(18, 30), "time", "str", "string"),
}
by_kind = pytest.mark.parametrize("name", KINDS)


def model_of(name: str) -> type[ReactorPipeline]:
    """Return a model with one field, x, of a kind."""
    sample = SAMPLES[name]
    members = {"__annotations__": {"x": sample.hint}, "x": sample.declared, "__module__": __name__}
    state = type("State", (InputState,), members)

    def inference(_: Any) -> Any:
        yield None

    members = {"__annotations__": {"state": state}, "inference": inference, "__module__": __name__}
    return type("Model", (ReactorPipeline,), members)


def contract_of(name: str) -> dict[str, Any]:
    return Contract.of(model_of(name)).to_json()


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = contract_of(name)["schema"]["events"]["set_x"]["parameters"]["properties"]["x"]
    return schema


def test_each_kind_has_a_sample() -> None:
    assert list(SAMPLES) == list(KINDS)


def test_the_widgets_of_all_kinds_are_those_of_an_input_field() -> None:
    assert {widget for kind in KINDS.values() for widget in kind.widgets} == set(get_args(Widget))


@by_kind
def test_a_schema_says_its_kind(name: str) -> None:
    assert kind_of(without_null(schema_of(name))) == name


@by_kind
def test_a_typed_python_client_has_the_type(name: str) -> None:
    written = typed_python.module("model", contract_of(name))
    assert f"    x: {SAMPLES[name].python}\n" in written
    kind = KINDS[name]
    assert (f"    # {kind.noun}, as {kind.form}\n" in written) == bool(kind.python and kind.form)


@by_kind
def test_a_typed_typescript_client_has_the_type(name: str) -> None:
    written = typed_typescript.module("model", contract_of(name))
    assert f"  x: {SAMPLES[name].typescript};\n" in written


@by_kind
def test_the_docs_page_describes_the_type(name: str) -> None:
    page = unescape(render(contract_of(name), "http://127.0.0.1:8080"))
    [shown] = re.findall(r"<tr><th><code>x</code><td>(.*?)<td>", page)
    noun = '"a" | "b"' if name == "choice" else f"{KINDS[name].noun}, as {KINDS[name].form}".removesuffix(", as ")
    assert shown.startswith(noun)


@by_kind
def test_the_example_of_the_docs_page_is_valid(name: str) -> None:
    schema = dict(without_null(schema_of(name)))
    # A pair has no example but its default.
    if name != "pair":
        schema.pop("default", None)
    value = example(schema)
    if name == "file":
        assert value == {"upload": "text"}
        return
    contract = Contract.of(model_of(name))
    contract.events["set_x"].validate(json.dumps({"x": value}))
    with pytest.raises(InvalidEvent):
        contract.events["set_x"].validate('{"x": {"no": "such value"}}')


@by_kind
def test_the_outline_names_the_kind(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    contract = contract_of(name)
    facts = {"fps": 30.0, "max_fps": 60.0, "buffer_size": 4, "tracks": [], "messages": {}}
    console.out(outline_tables({**facts, "events": contract["schema"]["events"]}))
    noun = {"choice": '"a" | "b"', "pair": "[number 0.0 to 1.0, number 0.0 to 1.0]"}.get(name, KINDS[name].noun)
    assert f"x: {noun}" in capsys.readouterr().out


def test_the_docs_name_the_types_of_all_kinds() -> None:
    text = (ROOT / "docs" / "state.md").read_text(encoding="utf-8")
    listed = text.partition("| type of a field |")[2].partition("\n\n")[0]
    missing = {"choice": "Literal[...]", "pair": "tuple[X, Y]", "file": "UploadedFile"}
    for name, kind in KINDS.items():
        assert f"`{missing.get(name, kind.type)}`" in listed


def test_the_page_has_each_kind_with_its_widgets() -> None:
    schemas = {
        f"{name} {widget}".strip(): {**schema_of(name), "x-reactor-ui": {"widget": widget}}
        for name, kind in KINDS.items()
        for widget in ("", *kind.widgets)
    }
    script = f"""
    import {{ WIDGETS }} from {json.dumps((CONTROLS / "widgets.js").as_uri())};
    import {{ describeParameter }} from {json.dumps((CONTROLS / "parameters.js").as_uri())};
    const schemas = {json.dumps(schemas)};
    const described = Object.entries(schemas).map(([name, schema]) => {{
      const {{ kind, widget }} = describeParameter("x", schema, {{}});
      if (!Object.hasOwn(WIDGETS, widget)) throw new Error(`the page makes no widget ${{widget}}`);
      return [name, [kind, widget]];
    }});
    console.log(JSON.stringify(Object.fromEntries(described)));
    """
    described = json.loads(node("--input-type=module", "--eval", script))
    assert {name: kind for name, (kind, _) in described.items()} == {
        name: SAMPLES[name.partition(" ")[0]].on_page for name in schemas
    }
    chosen = {name: widget for name, (_, widget) in described.items() if " " in name}
    assert chosen == {name: name.partition(" ")[2] for name in chosen}
