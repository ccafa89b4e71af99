"""What `reactor schema --format typescript` writes, in the hands of a compiler."""

from __future__ import annotations

from pathlib import Path

from reactor_runtime.wire import typed_typescript
from tests.clients.node import PACKAGE, run
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


def test_a_compiler_takes_it_and_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "model.ts").write_text(typed_typescript.module("my-model", CONTRACT))
    (tmp_path / "empty.ts").write_text(typed_typescript.module("session", EMPTY))
    (tmp_path / "calls.ts").write_text(CALLS)
    options = ("--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler")
    compiler = str(PACKAGE / "node_modules" / ".bin" / "tsc")
    assert run(compiler, *options, "calls.ts", "empty.ts", cwd=tmp_path) == ""
