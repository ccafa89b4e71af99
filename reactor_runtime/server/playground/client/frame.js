/** One picture of a session: see Session.frame in reactor.d.ts. */

import { ConnectionLost, errorOf, SessionEnded } from "./errors.js";

export async function frame(session, { track = null, after, signal } = {}) {
  signal?.throwIfAborted();
  if (!session.id) await session.ready({ signal });
  const { id } = session;
  const frames = session.frames(track);
  const over = new AbortController();
  let why = null;
  const end = (error) => {
    why = error;
    frames.return();
  };
  const look = () => {
    const { status } = session;
    if (status.phase === "ended") end(errorOf(status));
    else if (session.id && session.id !== id) end(new ConnectionLost("the session was not kept"));
  };
  session.addEventListener("status", look, { signal: over.signal });
  signal?.addEventListener("abort", () => end(signal.reason), { signal: over.signal });
  try {
    for await (const picture of frames) {
      if (!why && (!after || picture.applied >= after.n)) return picture;
      picture.bitmap?.close();
    }
    throw why ?? new SessionEnded("closed", "");
  } finally {
    over.abort();
  }
}
