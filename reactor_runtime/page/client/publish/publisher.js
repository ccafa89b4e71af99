/** Publishes files as they are; capture.js publishes cameras, microphones and other sources. */

import { readFile } from "../media.js";
import { bytesOf, findInput, kindOf, stampOf, withHeader } from "./media_writer.js";
import { FrameSender, SoundSender } from "./track_sender.js";

// The maximum.
const HEADER_BYTES = 512;

export class Publisher {
  #link;
  // track → NewestFrame
  #frames = new Map();
  // track → SoundSender
  #sounds = new Map();

  /** `link` is {session, connection, closing}; `closing` is an AbortSignal. */
  constructor(link) {
    this.#link = link;
    const { session, closing } = link;
    const onStatus = ({ detail }) => (detail.role && session.maySend) || this.#frames.forEach((frame) => frame.clear());
    session.addEventListener("status", onStatus, { signal: closing });
  }

  /** Publish a file or a source: see Session.publish in reactor.d.ts. */
  async publish(track, source, options) {
    const { session } = this.#link;
    if (source instanceof Blob) source = await source.arrayBuffer();
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return this.#file(track, bytesOf(source), options);
    if (!session.tracks.length) await session.ready();
    const { capture, kindOfSource } = await import("./capture.js");
    return capture(this.#link, findInput(session, track, kindOfSource(source)), source, options);
  }

  #file(track, file, options) {
    const kind = kindOf(file);
    if (!kind) throw new TypeError(`${track}: ${file.length} bytes that are no JPEG, NPY or WAV`);
    const { session } = this.#link;
    const { max_media_bytes: most = Infinity } = session.limits;
    const stamp = stampOf(track, options);
    if (file.length > most - HEADER_BYTES - stamp.metadata.length)
      throw new RangeError(`${track}: ${file.length} bytes are too many; at most ${most} with the header`);
    if (session.maySend) findInput(session, track, kind);
    if (kind === "audio") return this.#piece(track, file, stamp);
    return senderOf(this.#frames, track, () => new NewestFrame(new FrameSender(this.#link, track))).put(file, stamp);
  }

  #piece(track, file, stamp) {
    const { samples, channels, sampleRate } = /** @type {any} */ (readFile(withHeader(track, file).buffer));
    const sender = senderOf(this.#sounds, track, () => new SoundSender(this.#link, track));
    return sender.hasRoom && sender.send(file, samples.length / channels / sampleRate, stamp);
  }
}

/** The newest frame of a track that waits for room. */
class NewestFrame {
  #sender;
  // {file, stamp, settle}
  #waiting = null;
  #busy = false;

  constructor(sender) {
    this.#sender = sender;
  }

  /** Replace the waiting frame. Resolves to whether this one was sent. */
  put(file, stamp) {
    this.clear();
    return new Promise((settle) => {
      this.#waiting = { file, stamp, settle };
      if (!this.#busy) this.#send();
    });
  }

  clear() {
    this.#waiting?.settle(false);
    this.#waiting = null;
  }

  async #send() {
    this.#busy = true;
    while (this.#waiting) {
      await this.#sender.waitForRoom();
      const { file, stamp, settle } = this.#waiting ?? {};
      this.#waiting = null;
      settle?.(this.#sender.send(file, stamp));
    }
    this.#busy = false;
  }
}

function senderOf(senders, track, make) {
  if (!senders.has(track)) senders.set(track, make());
  return senders.get(track);
}
