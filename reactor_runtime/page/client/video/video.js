/**
 * Decodes the video streams of a session with WebCodecs; loaded where the server has them. A stream begins with a key
 * message, at first and after an error; until a key was acknowledged the server sends JPEGs.
 */

import { MediaError } from "../errors.js";
import { TrackDecoder } from "./track_decoder.js";

const CODEC = "h264";
// Constrained baseline, up to 1080p; the configuration of a stream is in its key messages.
const TYPICAL = { codec: "avc1.42c028", codedWidth: 1280, codedHeight: 720, optimizeForLatency: true };
// After a second error in this time the server sends JPEGs for the rest of the session.
const TWICE_MS = 60_000;
// A server may not answer every request.
const ASK_AGAIN_MS = 2000;

/** Resolve to the Video of a session; `handlers` as for Video. */
export const makeVideo = async (handlers) => new Video(await findObstacle(), handlers);

/** Resolve to why this browser cannot decode video, "insecure" or "unsupported"; to "" if it can. */
async function findObstacle() {
  if (globalThis.isSecureContext === false) return "insecure";
  const found = await globalThis.VideoDecoder?.isConfigSupported(TYPICAL).catch(() => null);
  return found?.supported ? "" : "unsupported";
}

export class Video {
  #obstacle;
  #handlers;
  // track → TrackDecoder; none until a key
  #decoders = new Map();
  // track → when a key was requested that has not come
  #asked = new Map();
  #paused = false;
  // Hardware may hold frames back.
  #acceleration = "no-preference";
  #failedAt = -Infinity;
  #gaveUp = false;

  /**
   * `handlers`: show(header, frame), which owns the VideoFrame from then on; requestKey(track); onGiveUp() when the
   * session continues with JPEGs; emit(name, detail).
   */
  constructor(obstacle, handlers) {
    this.#obstacle = obstacle;
    this.#handlers = handlers;
  }

  /** Add to the metrics why this client gets JPEGs where the network would need video. */
  explain(stats) {
    if (stats.why === "network" && !this.#works) stats.why = this.#obstacle || "unsupported";
  }

  /** Start a session, or with `resumed` continue it. */
  restart({ resumed = false } = {}) {
    this.#close();
    if (resumed) return;
    this.#gaveUp = false;
    this.#failedAt = -Infinity;
  }

  /**
   * Follow the view: decode nothing while `paused`, after which a key is needed. Return the names of the encodings to
   * request, if they are `wanted`.
   */
  follow({ paused, wanted }) {
    this.#paused = paused;
    if (paused) this.#close();
    return wanted && this.#works ? [CODEC] : [];
  }

  get #works() {
    return !this.#obstacle && !this.#gaveUp;
  }

  /** Begin all streams anew: a message was malformed, on which later ones depend. */
  reset() {
    this.#close();
  }

  /** Decode a message, as readVideo returns it, and show its frame. */
  put({ header, config, sample }) {
    const { track } = header;
    if (this.#paused || !this.#works) return;
    if (config) this.#asked.delete(track);
    if (config && !this.#decoders.has(track)) this.#decoders.set(track, this.#decoder(track));
    const decoder = this.#decoders.get(track);
    if (decoder) decoder.put(header, config, sample);
    else this.#requestKey(track);
  }

  #decoder(track) {
    return new TrackDecoder(this.#acceleration, {
      show: (header, frame) => this.#show(header, frame),
      onError: (error) => this.#failed(track, error),
      onLag: () => this.#lags(track),
    });
  }

  #show(header, frame) {
    try {
      this.#handlers.show(header, frame);
    } catch (error) {
      frame.close();
      if (!(error instanceof MediaError)) throw error;
      this.#handlers.emit("ignored", { what: "A frame of video was ignored", why: error.message });
    }
  }

  #failed(track, error) {
    // Browsers close decoders that were idle for a while.
    if (error.name === "QuotaExceededError") return this.#begin(track);
    const now = performance.now();
    const again = now - this.#failedAt < TWICE_MS;
    this.#failedAt = now;
    this.#handlers.emit("ignored", { what: `Video of ${track} can't be decoded`, why: error.message });
    if (again) this.#giveUp();
    else this.#begin(track);
  }

  #lags(track) {
    if (this.#acceleration === "prefer-software") {
      this.#obstacle = "unsupported";
      return this.#giveUp();
    }
    this.#acceleration = "prefer-software";
    this.#begin(track);
  }

  /** Begin the stream of a track anew. */
  #begin(track) {
    this.#decoders.get(track).close();
    this.#decoders.delete(track);
    this.#requestKey(track);
  }

  #requestKey(track) {
    const now = performance.now();
    if (now - (this.#asked.get(track) ?? -Infinity) < ASK_AGAIN_MS) return;
    this.#asked.set(track, now);
    this.#handlers.requestKey(track);
  }

  #giveUp() {
    this.#gaveUp = true;
    this.#close();
    this.#handlers.onGiveUp();
  }

  #close() {
    for (const decoder of this.#decoders.values()) decoder.close();
    this.#decoders.clear();
    this.#asked.clear();
  }
}
