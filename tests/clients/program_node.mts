/** A program for Node, compiled without the types of browsers, with those of Node and without. */

import { connect, type Session, type Status } from "@reactor-live/client";

const session = connect("http://127.0.0.1:8080", { role: "viewer" });
export const statuses: Status[] = [];
session.addEventListener("status", ({ detail, type }) => type && statuses.push(detail));
// @ts-expect-error: there is no such event
session.addEventListener("statsu", () => {});

export async function use(given: Session): Promise<boolean> {
  await given.ready();
  for await (const { jpeg, bitmap } of given.frames("main_video")) {
    bitmap satisfies null;
    return given.publish("camera", jpeg);
  }
  // @ts-expect-error: there is no canvas here
  given.attach(null, {});
  return false;
}
