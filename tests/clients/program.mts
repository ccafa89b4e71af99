/** Uses what the types declare; it is compiled and never run. */

import {
  ClientError,
  ConnectError,
  connect,
  EventError,
  type Frame,
  type Session,
  SessionEnded,
  type Status,
} from "@reactor-live/client";
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
  return status.phase === "connected" && state
    ? ReactorView({ session: mine, track: "main_video", className: "view" })
    : null;
}

const target: EventTarget = session;
target.dispatchEvent(new Event("status"));
const changed = ({ detail }: CustomEvent<Status>) => detail.phase;
session.addEventListener("status", changed, { once: true, signal: AbortSignal.timeout(1000) });
session.removeEventListener("status", changed);
session.addEventListener("status", { handleEvent: ({ detail }) => detail.phase.length });
// @ts-expect-error: there is no such event
session.addEventListener("statsu", () => {});
// @ts-expect-error: there is no such event
session.removeEventListener("statsu", () => {});

session.addEventListener("status", ({ detail }) => {
  if (detail.phase === "ended" && detail.reason === "turn_over") session.reconnect();
  // @ts-expect-error: there is no such reason
  if (detail.phase === "ended" && detail.reason === "turn_ovre") session.reconnect();
});
session.addEventListener("error", ({ detail }) => detail.code === "invalid_event" && detail.fields?.length);

export const rate: number | undefined = session.stats.fps?.main_video;
session.addEventListener("stats", ({ detail }) => detail.inputs?.camera?.wanted?.toFixed());
export const most: number | undefined = session.limits.max_media_bytes;
export const turn: number | null | undefined = session.limits.max_session_s;
// @ts-expect-error: there is no such figure
session.stats.fsp;
// @ts-expect-error: there is no such limit
session.limits.max_media;

export function explain(error: unknown): string {
  if (error instanceof ConnectError)
    return { unreachable: "nobody there", refused: "not allowed", busy: "full" }[error.code];
  if (error instanceof SessionEnded && error.reason === "idle") return error.code satisfies "session_ended";
  return error instanceof ClientError ? error.code : "";
}

export const leave = (any: Session) => any.close();

// @ts-expect-error: there is no such role
connect("http://127.0.0.1:8080", { role: "boss" });
