/** Print what the client makes of each row of conformance.json, as JSON: test_conformance.py serves the rows and compares. */

import { readFile } from "node:fs/promises";

const [, , client, server, nowhere] = process.argv;
const { connect } = await import(client);
const rows = JSON.parse(await readFile(new URL("./conformance.json", import.meta.url)));

const settled = (promise) =>
  promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  );
const said = (error) => ({ error: error?.name ?? null, reason: error?.reason ?? null });

async function outcome(row, number) {
  const address = row.phase === "connecting" && row.close === "unreachable" ? nowhere : `${server}/${number}`;
  const session = connect(address, { role: row.role });
  try {
    return await watch(session, row);
  } finally {
    session.close();
  }
}

async function watch(session, row) {
  const frames = session.frames();
  const hasSession = !["opening", "waiting", "connecting", "redirecting"].includes(row.phase);
  if (hasSession) await frames.next();
  const isEvent = hasSession && row.role === "controller";
  const waits = settled(isEvent ? session.send("work") : session.ready());
  const next = await settled(frames.next());
  const iterator = next.error ? "raises" : next.value.done ? "ends" : "continues";
  let { error = null } = next;
  if (iterator !== "continues" || !isEvent) {
    const waited = await waits;
    if (waited.error && error && JSON.stringify(said(waited.error)) !== JSON.stringify(said(error)))
      return { iterator: said(error), waited: said(waited.error) };
    error = waited.error ?? error;
  }
  const { error: final } = await settled(session.ready());
  if (final)
    return { client: session.status.phase === "ended" ? "final" : session.status, ...said(error ?? final), iterator };
  const id = row.phase.endsWith("kept") && !row.error ? "s-1" : "s-2";
  return { client: session.id === id ? "retry" : session.id, ...said(error), iterator };
}

const limited = (promise, name) =>
  Promise.race([promise, new Promise((resolve) => setTimeout(resolve, 90_000, { hangs: name }))]);
const outcomes = await Promise.all(
  rows.map((row, number) =>
    limited(
      outcome(row, number).catch((error) => ({ error: String(error.stack) })),
      number,
    ),
  ),
);
console.log(JSON.stringify(outcomes));
process.exit();
