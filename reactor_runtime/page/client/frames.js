/** Passes received frames to canvases and readers, and acknowledges them when shown, or on arrival if nothing shows them. */

import { MediaError } from "./errors.js";

export class VideoOutputs {
  // {track, sink, fail}; track null for the first one
  #sinks = new Set();
  #names = [];
  // Whether the names are known.
  #known = false;
  // track → {header, bytes, image}; either bytes or an image
  #newest = new Map();
  // track → seq
  #acknowledged = new Map();
  #handlers;

  /** `handlers`: acknowledge(header); onShown(header, at); onSinks(); emit(name, detail); paintAt as for CanvasRenderer. */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** Whether only canvases show frames. */
  get onScreenOnly() {
    return [...this.#sinks].every(({ sink }) => sink instanceof CanvasRenderer);
  }

  /** Whether frames are shown, and none as a JPEG file. */
  get takesVideo() {
    return this.#sinks.size > 0 && [...this.#sinks].every(({ needsFiles }) => !needsFiles);
  }

  /** Start a session with these tracks, or with `resumed` continue it; drop what belongs to the last one. */
  restart(names, { resumed = false } = {}) {
    this.update(names);
    for (const { sink } of this.#sinks) sink.restart({ resumed });
  }

  /** End a session: readers that start later get none of its frames. */
  end() {
    for (const frame of this.#newest.values()) frame.over = true;
  }

  /** Change the tracks of the session. */
  update(names) {
    this.#names = names;
    this.#known = true;
    for (const { image } of this.#newest.values()) image?.close();
    this.#newest.clear();
    this.#acknowledged.clear();
    // Later: listeners detach canvases of tracks that are gone.
    queueMicrotask(() => {
      for (const { track, fail } of this.#sinks) {
        const error = this.trackError(track);
        if (error) fail(error);
      }
    });
  }

  /** Do not count the frames of a pause as skipped. */
  skipGap() {
    for (const { sink } of this.#sinks) sink.skipGap?.();
  }

  /** Show a frame: a JPEG file, or a VideoFrame, which is closed here. */
  put(header, bytes, image = null) {
    const name = header?.track ?? this.#names[0];
    if (!this.#names.includes(name)) {
      throw new MediaError(`a frame of ${name ?? "no track"}, which this session does not have`);
    }
    const newest = this.#newest.get(name);
    // A JPEG has overtaken it.
    if (image && newest?.header?.seq >= header.seq) return image.close();
    newest?.image?.close();
    this.#newest.set(name, { header, bytes, image });
    const sinks = [...this.#sinks].filter(({ track }) => (track ?? this.#names[0]) === name);
    for (const { sink } of sinks) sink.put(header, bytes, image);
    // The first one at once: the server sends as much as the socket accepts until the first acknowledgement.
    const first = !this.#acknowledged.has(name);
    if ((first || !sinks.length) && header) this.#acknowledge(header);
  }

  attach(track, canvas) {
    const error = track && this.trackError(track);
    if (error) throw error;
    const onPainted = (header, skipped) => {
      const at = performance.now();
      this.shown(header, at);
      this.#handlers.emit("painted", { ...(header ?? { track }), canvas, skipped, at });
    };
    const onBroken = (header, error) => this.reportBroken(header, error);
    // attach() has returned.
    const fail = (error) => track && console.error(error);
    const sink = new CanvasRenderer(canvas, { onPainted, onBroken, paintAt: this.#handlers.paintAt });
    return this.add({ track, sink, fail });
  }

  /**
   * Add {track, sink, fail} and give `sink`, with put(header, bytes, image) and restart(), the newest frame; `isReader`:
   * not of a session that is over. Return a function that removes it.
   */
  add(entry) {
    const { track, sink, isReader } = entry;
    const newest = this.#newest.get(track ?? this.#names[0]);
    this.#sinks.add(entry);
    this.#handlers.onSinks?.();
    if (newest && !(newest.over && isReader)) sink.put(newest.header, newest.bytes, newest.image);
    return () => {
      if (!this.#sinks.delete(entry)) return;
      sink.restart();
      this.#handlers.onSinks?.();
    };
  }

  /** Return the error for an unknown track; null before the tracks are known. */
  trackError(track) {
    if (!this.#known || this.#names.includes(track ?? this.#names[0])) return null;
    const names = this.#names.join(", ") || "none";
    return new TypeError(`the model sends no video track ${track ?? "at all"}; it sends ${names}`);
  }

  /** Acknowledge a frame that is shown since `at`. */
  shown(header, at) {
    if (!header) return;
    header.paintedAt ??= at;
    this.#handlers.onShown(header, at);
    this.#acknowledge(header);
  }

  /** Report and acknowledge: a broken frame must not fill the send window. */
  reportBroken(header, error) {
    const what = `A frame of ${header?.track ?? "no track"} can't be decoded`;
    this.#handlers.emit("ignored", { what, why: error.message });
    if (header) this.#acknowledge(header);
  }

  #acknowledge(header) {
    const { track, seq } = header;
    if (seq <= (this.#acknowledged.get(track) ?? -1)) return;
    this.#acknowledged.set(track, seq);
    this.#handlers.acknowledge(header);
  }
}

export async function decode(bytes) {
  if (new Uint8Array(bytes)[0] === 0xff) return createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  const { imageSource } = await import("./read_media.js");
  return createImageBitmap(imageSource(bytes));
}

// Half a repaint: the next one may be later than this one is early.
const EARLY_MS = 8;
const MOST_WAITING = 6;

class CanvasRenderer {
  #canvas;
  #context;
  #handlers;
  #epoch = 0;
  #decoding = false;
  #undecoded = null;
  // {header, image, at}: decoded, due at `at`
  #waiting = [];
  // The highest number that was decoded.
  #highest = -1;
  // Whether a repaint was requested.
  #asked = false;
  #lastSeq = null;

  /**
   * `handlers`: onPainted(header, skipped); onBroken(header, error); paintAt(header, now) returns the earliest time to
   * paint, on performance.now()'s clock. `header` may be null.
   */
  constructor(canvas, handlers) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#handlers = handlers;
  }

  put(header, bytes, image) {
    if (image) return this.#schedule(header, image.clone());
    this.#undecoded = { header, bytes };
    if (!this.#decoding) this.#decode();
  }

  /** Drop what belongs to the last session. */
  restart() {
    this.#epoch += 1;
    this.#undecoded = null;
    this.#highest = -1;
    this.#drop(this.#waiting.length);
    this.skipGap();
  }

  skipGap() {
    this.#lastSeq = null;
  }

  async #decode() {
    this.#decoding = true;
    while (this.#undecoded) {
      const { header, bytes } = this.#undecoded;
      const epoch = this.#epoch;
      this.#undecoded = null;
      try {
        const image = await decode(bytes);
        if (epoch === this.#epoch) this.#schedule(header, image);
        else image.close();
      } catch (error) {
        if (epoch === this.#epoch) this.#handlers.onBroken(header, error);
      }
    }
    this.#decoding = false;
  }

  #schedule(header, image) {
    const now = performance.now();
    if (header) {
      // It has been overtaken, as JPEGs and video are decoded apart.
      if (header.seq <= this.#highest) return image.close();
      this.#highest = header.seq;
      header.decodedAt = now;
    }
    this.#waiting.push({ header, image, at: header ? this.#handlers.paintAt(header, now) : now });
    this.#drop(this.#waiting.length - MOST_WAITING);
    this.#ask();
  }

  #ask() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#repaint());
  }

  #drop(count) {
    for (const { image } of this.#waiting.splice(0, Math.max(0, count))) image.close();
  }

  #repaint() {
    const now = performance.now();
    this.#asked = false;
    this.#drop(this.#waiting.findLastIndex(({ at }) => at - EARLY_MS <= now));
    if (this.#waiting[0]?.at - EARLY_MS <= now) this.#paint(this.#waiting.shift());
    if (this.#waiting.length) this.#ask();
  }

  #paint({ header, image }) {
    const canvas = this.#canvas;
    const { displayWidth: width = image.width, displayHeight: height = image.height } = image;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    this.#context.drawImage(image, 0, 0);
    image.close();
    this.#handlers.onPainted(header, header ? this.#gap(header) : 0);
  }

  #gap({ seq, held }) {
    const last = this.#lastSeq;
    this.#lastSeq = held ? null : seq;
    return last === null || seq <= last ? 0 : seq - last - 1;
  }
}
