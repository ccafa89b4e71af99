/** Sends files to the server, so that an event can name them. */

import { EventError } from "../client/reactor.js";

/** Give `data` with what the event has to say in place of each File. Throws EventError with the server's words. */
export async function upload(session, data) {
  const entries = Object.entries(data).map(async ([name, value]) => [name, value instanceof File ? await send(session, value) : value]);
  return Object.fromEntries(await Promise.all(entries));
}

async function send(session, file) {
  await file.slice(0, 1).arrayBuffer().catch(() => {
    throw new EventError({ message: `${file.name} has changed or gone since it was chosen: choose it again` });
  });
  return session.upload(file).catch(({ status, message }) => {
    throw new EventError({ message: status ? message : `${file.name} could not be sent: ${message}` });
  });
}
