"""What `reactor schema --format typescript` writes, in the hands of a compiler and of the client's own types."""

from __future__ import annotations

from pathlib import Path

from reactor_runtime.schema import typed_typescript
from tests.clients.node import PACKAGE, pack, run
from tests.wire.shapes import CONTRACT, EMPTY

OPTIONS = (
    "--noEmit",
    "--strict",
    "--skipDefaultLibCheck",
    "--types",
    "react",
    "--target",
    "es2022",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
)
CALLS = """
import { connect, type Message, type Session } from "@reactor-live/client";
import { ReactorView, useReactor, useReactorEvent } from "@reactor-live/client/react";
import { checkTypes, type MyModel, type Said, type Tracks } from "./model";

const session = connect<MyModel>("http://127.0.0.1:8080");
const leave = (any: Session) => any.close();
leave(session);
checkTypes(session, (message) => message.length);
const props: { session: Session | null } = { session };
ReactorView(props);
// @ts-expect-error no such event of a session
session.addEventListener("mesage", () => {});

export async function main(said: Said): Promise<void> {
  await session.ready();
  await session.send("set_speed", { speed: 2 }, { inputAt: 3 });
  await session.send("go-now");
  await session.send("move");
  await session.send("move", { pose: { at: { x: 1 }, path: [] } });
  const { message } = await session.send("set_size", { size: [1, 2] });
  const { message: progress } = await session.send("go-now");
  progress.data.step.toFixed();
  const { message: either } = await session.send("2d");
  if (either?.type === "2d-done") either.data.values.length;
  // @ts-expect-error there may be no message
  either.type;
  // @ts-expect-error it is answered with progress
  progress.data.values;
  session.notify("set_speed", { speed: 2 });
  for await (const frame of session.frames("main_video")) frame.seq.toFixed();
  for await (const each of session.messages()) if (each.type === "progress") each.data.step.toFixed();
  session.addEventListener("message", ({ detail }) => detail.type === "progress" && detail.data.step.toFixed());
  session.addEventListener("state", ({ detail: { speed } }) => speed?.toFixed());
  await session.publish("microphone", new Uint8Array(3));
  session.state.speed.toFixed();
  // @ts-expect-error it needs its speed
  await session.send("set_speed");
  // @ts-expect-error a number
  await session.send("set_speed", { speed: "fast" });
  // @ts-expect-error no such event
  await session.send("set_sped", { speed: 2 });
  // @ts-expect-error a number
  session.notify("set_speed", { speed: "fast" });
  // @ts-expect-error no such track
  session.frames("main_vide");
  // @ts-expect-error the state is the model's
  session.state.speed = 3;
  const same: Said | Message<MyModel> | undefined = message ?? said;
  if (same.type === "progress") same.data.step.toFixed();
  const track: Tracks["shown"] = "main_video"; void track;
}

export function View() {
  const { session: mine, state } = useReactor<MyModel>("http://127.0.0.1:8080", { role: "viewer" });
  useReactorEvent(mine, "message", (said) => said.type === "progress" && said.data.step.toFixed());
  // @ts-expect-error there may be no session yet
  state.speed.toFixed();
  return ReactorView({ session: mine, track: "main_video", "aria-label": state.speed?.toFixed() });
}
"""


def test_a_compiler_takes_it_and_finds_what_is_wrong(tmp_path: Path) -> None:
    pack(tmp_path)
    for name in ("@types", "csstype", "react", "undici-types"):
        (tmp_path / "node_modules" / name).symlink_to(PACKAGE / "node_modules" / name)
    checked = {**CONTRACT, "schema": {**CONTRACT["schema"], "types": "5d1c"}}
    (tmp_path / "model.ts").write_text(typed_typescript.module("my-model", checked))
    (tmp_path / "empty.ts").write_text(typed_typescript.module("session", EMPTY))
    (tmp_path / "calls.ts").write_text(CALLS)
    compiler = str(PACKAGE / "node_modules" / ".bin" / "tsc")
    assert run(compiler, *OPTIONS, "calls.ts", "empty.ts", cwd=tmp_path) == ""
