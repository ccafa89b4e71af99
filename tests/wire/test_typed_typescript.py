from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reactor_runtime.wire import typed_typescript
from tests.wire.shapes import CONTRACT, EMPTY

CALLS = """
import type { MyModelSession, Said, Tracks } from "./model";
declare const session: MyModelSession;
export async function main(said: Said): Promise<void> {
  await session.send("set_speed", { speed: 2 });
  await session.send("go-now");
  await session.send("move");
  await session.send("move", { pose: { at: { x: 1 }, path: [] } });
  await session.send("set_size", { size: [1, 2] });
  // @ts-expect-error it needs its speed
  await session.send("set_speed");
  // @ts-expect-error a number
  await session.send("set_speed", { speed: "fast" });
  // @ts-expect-error no such event
  await session.send("set_sped", { speed: 2 });
  // @ts-expect-error the state is the model's
  session.state.speed = 3;
  if (said.type === "progress") { const step: number = said.data.step; void step; }
  const track: Tracks["shown"] = "main_video"; void track;
}
"""


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
        "export interface MyModelSession {\n",
    ):
        assert line in text, line


def test_no_description_ends_its_comment() -> None:
    text = typed_typescript.module("a*/b", CONTRACT)
    assert "/** Types of a*\\/b." in text
    assert all(line.count("*/") == line.count("/**") for line in text.splitlines())


@pytest.mark.skipif(shutil.which("tsc") is None, reason="there is no TypeScript compiler")
def test_a_compiler_takes_it_and_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "model.ts").write_text(typed_typescript.module("my-model", CONTRACT))
    (tmp_path / "empty.ts").write_text(typed_typescript.module("session", EMPTY))
    (tmp_path / "calls.ts").write_text(CALLS)
    command = [
        "tsc",
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
    ]
    done = subprocess.run([*command, "calls.ts", "empty.ts"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
