/** Uses what the types declare; it is compiled and never run. */

import { connect, EventError, type Frame } from "@reactor-live/client";
import { ReactorView, useReactor, useReactorEvent } from "@reactor-live/client/react";

const session = connect("http://127.0.0.1:8080", { token: "secret", role: "viewer" });
session.addEventListener("status", ({ detail }) => {
  if (detail.phase === "reconnecting") detail.retryAt.toFixed();
  if (detail.phase === "ended") detail.reason.length + detail.detail.length;
  if (detail.phase === "connected") detail.role.length;
});

export async function use(camera: MediaStreamTrack): Promise<boolean> {
  await session.ready({ signal: AbortSignal.timeout(1000) });
  const reply = await session.send("set_prompt", { prompt: "a fox" });
  const { n, message } = reply;
  (await session.frame({ track: "main_video", after: reply, signal: AbortSignal.timeout(1000) })).jpeg.length;
  for await (const frame of session.frames("main_video")) {
    const same: Frame = frame;
    same.bitmap?.close();
    if (frame.applied >= n) break;
  }
  const capture = await session.publish("camera", camera, { fps: 30, width: 640, height: 480 });
  capture.addEventListener("ended", ({ detail }) => detail.error?.message.length);
  capture.stop();
  const error: unknown = message;
  if (error instanceof EventError) error.fields[0]?.path.length;
  return session.publish("camera", new Uint8Array(3));
}

export function View() {
  const { session: mine, status, state } = useReactor("http://127.0.0.1:8080", { role: "viewer" });
  useReactorEvent(mine, "message", ({ type }) => type.length);
  return status.phase === "connected" && state ? ReactorView({ session: mine, track: "main_video", className: "view" }) : null;
}

// @ts-expect-error: there is no such role
connect("http://127.0.0.1:8080", { role: "boss" });
