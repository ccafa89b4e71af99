/**
 * Provides one frame of a session, and tracks as a MediaStream for a <video>, a recorder or a call; loaded by the first
 * call.
 */

import { ClientError, ConnectionLost, errorOf, SessionEnded } from "./errors.js";

/** Return a MediaStream of tracks by name, of all without names; start sound if an audio track is among them. */
export async function streamOf(session, names) {
  if (!globalThis.MediaStream) throw new TypeError("there is no MediaStream here; use frames()");
  const known = session.tracks.filter(({ direction }) => direction === "out");
  const wanted = names.length ? names.map((name) => find(known, name)) : known;
  const canStream = globalThis.MediaStreamTrackGenerator || HTMLCanvasElement.prototype.captureStream;
  if (!canStream && wanted.some(({ kind }) => kind === "video")) {
    throw new TypeError("this browser cannot stream video; attach() shows it on a canvas");
  }
  if (wanted.some(({ kind }) => kind === "audio") && !session.speaker.on) await session.speaker.start();
  const tracks = wanted.map(({ name, kind }) =>
    kind === "video" ? videoTrackOf(session, name) : session.speaker.mixer.copy(name),
  );
  return new MediaStream(tracks);
}

function find(known, name) {
  const track = known.find((each) => each.name === name);
  if (!track)
    throw new TypeError(
      `the model sends no track ${name}; it sends ${known.map((each) => each.name).join(", ") || "none"}`,
    );
  return track;
}

function videoTrackOf(session, name) {
  const { track, show } = makeVideoTrack();
  feed(framesOf(session, name), track, show);
  return track;
}

/** Return {track, show}: a track to which `show(bitmap)` writes a frame. */
export const makeVideoTrack = () => (globalThis.MediaStreamTrackGenerator ? generated() : drawn());

/** Yield the frames of a track; after those of a session that was lost or has failed, those of the next one. */
async function* framesOf(session, name) {
  do {
    try {
      yield* session.frames(name, { jpeg: false });
      return;
    } catch (error) {
      if (!(error instanceof ClientError)) return;
    }
  } while (await session.ready().catch(() => null));
}

/** Feed frames until the track is stopped, or no session follows. */
async function feed(frames, track, show) {
  for await (const { bitmap } of frames) {
    // It was stopped meanwhile.
    if (track.readyState === "live") await show(bitmap).catch(() => track.stop());
    bitmap.close();
    if (track.readyState === "ended") return;
  }
  track.stop();
}

function generated() {
  const track = new MediaStreamTrackGenerator({ kind: "video" });
  const writer = track.writable.getWriter();
  const show = (bitmap) => writer.write(new VideoFrame(bitmap, { timestamp: Math.round(1000 * performance.now()) }));
  return { track, show };
}

/** Return a track of a canvas, in browsers that cannot write frames to a track. */
function drawn() {
  const canvas = globalThis.document.createElement("canvas");
  const context = canvas.getContext("2d", { alpha: false });
  const [track] = canvas.captureStream().getVideoTracks();
  const show = async (bitmap) => {
    const { width, height } = bitmap;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.drawImage(bitmap, 0, 0);
  };
  return { track, show };
}

/**
 * Return a frame of a session: see Session.frame in reactor.d.ts.
 * @param {import("./reactor.d.ts").Session} session
 * @param {Parameters<import("./reactor.d.ts").Session["frame"]>[0]} options
 */
export async function frame(session, { track = null, after, signal } = {}) {
  signal?.throwIfAborted();
  if (!session.id) await session.ready({ signal });
  const { id } = session;
  const frames = session.frames(track);
  const over = new AbortController();
  let reason = null;
  const end = (error) => {
    reason = error;
    frames.return();
  };
  const check = () => {
    const { status } = session;
    if (status.phase === "ended") end(errorOf(status));
    else if (session.id && session.id !== id) end(new ConnectionLost("the session was not kept"));
  };
  session.addEventListener("status", check, { signal: over.signal });
  signal?.addEventListener("abort", () => end(signal.reason), { signal: over.signal });
  try {
    for await (const received of frames) {
      if (!reason && (!after || received.applied >= after.n)) return received;
      received.bitmap?.close();
    }
    throw reason ?? new SessionEnded("closed", "");
  } finally {
    over.abort();
  }
}
