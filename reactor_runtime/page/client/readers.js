/** Reads frames and messages of a session in `for await`; loaded by the first call. */

import { AsyncQueue } from "./async_queue.js";
import { decode } from "./frames.js";

// For slow readers.
const MOST_MESSAGES = 1000;

/** Return a queue with the messages, the early ones first, until the AbortSignal `end`. */
export function readMessages(session, end, early) {
  const over = new AbortController();
  const queue = new AsyncQueue({ most: MOST_MESSAGES, onStop: () => over.abort(), end });
  end.addEventListener("abort", () => over.abort());
  for (const message of early) queue.push(message);
  session.addEventListener("message", ({ detail }) => queue.push(detail), { signal: over.signal });
  return queue;
}

/** Return a queue with the newest frame of a track, until `end`; without `jpeg` frames may come without a file. */
export function readFrames(outputs, track, end, { jpeg = true } = {}) {
  // The VideoFrame in the queue.
  let waiting = null;
  const drop = () => {
    waiting?.close();
    waiting = null;
  };
  const take = (frame) => {
    waiting = null;
    return decodeFrame(outputs, track, frame);
  };
  const queue = new AsyncQueue({ most: 1, take, onStop: () => remove(), end });
  let last = "";
  const put = (header, bytes, image) => {
    if (image && jpeg) return;
    const frame = header ? `${header.seq} ${header.track}` : "";
    // A server sends the newest frame again after a break.
    if (!header?.held || frame !== last) {
      drop();
      waiting = image?.clone();
      queue.push({ header, bytes, image: waiting });
    }
    last = frame;
  };
  const restart = ({ resumed = false } = {}) => {
    if (resumed) return;
    drop();
    queue.clear();
    last = "";
  };
  const fail = (error) => queue.fail(error);
  const remove = outputs.add({ track, sink: { put, restart }, fail, isReader: true, needsFiles: jpeg });
  // A reader that has ended must not hold acknowledgements.
  end.addEventListener("abort", () => remove());
  const error = outputs.trackError(track);
  if (error) fail(error);
  return queue;
}

/** Resolve to undefined for a frame that cannot be decoded. */
async function decodeFrame(outputs, track, { header, bytes, image }) {
  try {
    const bitmap = globalThis.createImageBitmap ? await (image ? createImageBitmap(image) : decode(bytes)) : null;
    outputs.shown(header, performance.now());
    return { ...(header ?? { track }), jpeg: image ? null : new Uint8Array(bytes), bitmap };
  } catch (error) {
    return outputs.reportBroken(header, error);
  } finally {
    image?.close();
  }
}
