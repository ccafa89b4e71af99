from __future__ import annotations

from reactor_runtime.schema import typed_typescript
from tests.wire.shapes import CONTRACT, LABELLED


def test_types_are_those_of_the_schema() -> None:
    text = typed_typescript.module("my-model", CONTRACT)
    for line in (
        "  /** How fast it moves */\n  set_speed: { speed: number };\n",
        '  set_mode: { mode: "a \\"b\\"" | "c\\\\d" };\n',
        "  set_level: { level: 1 | 2 };\n",
        "  set_note: { note: string | null };\n",
        "  set_size: { size: [number, number] };\n",
        "  set_image: { image: Upload | null };\n",
        "  move: { pose?: Pose | null; weights?: Record<string, number>; anything?: unknown };\n",
        '  "go-now": Record<string, never>;\n',
        '  "2d": Record<string, never>;\n',
        "export interface Pose {\n  at: Point;\n  path: Array<Point>;\n}\n",
        "  progress: { step: number; at: Point | null };\n",
        '  shown: "main_video";\n  heard: never;\n  filmed: never;\n  recorded: "microphone";\n',
        "export interface MyModel {\n  state: State;\n",
    ):
        assert line in text, line


def test_labels_and_descriptions_of_values_are_in_the_comments() -> None:
    text = typed_typescript.module("my-model", LABELLED)
    for line in (
        "  /** Effect strength: How much it changes */\n  strength: number;\n  noise_level: number;\n",
        "  /** How much it changes */\n  set_strength: { /** Effect strength */ strength: number };\n",
        "  /** Move the camera */\n  move: { /** To the right */ dx: number; /** In metres */ dy?: number };\n",
    ):
        assert line in text, line


def test_no_description_ends_its_comment() -> None:
    text = typed_typescript.module("a*/b", CONTRACT)
    assert "/** Types of a*\\/b, generated" in text
    assert all(line.count("*/") == line.count("/**") for line in text.splitlines())


def test_only_a_contract_with_a_hash_has_a_check() -> None:
    assert "checkTypes" not in typed_typescript.module("my-model", CONTRACT)
    text = typed_typescript.module('my-"model"', {**CONTRACT, "schema": {**CONTRACT["schema"], "types": "5d1c"}})
    assert 'types === "5d1c"' in text
    assert 'report("The types of my-\\"model\\" are out of date' in text
