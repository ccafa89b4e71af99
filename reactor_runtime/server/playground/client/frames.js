/** Received frames on their way to canvases and iterators; acknowledged when shown, at once if nothing shows them. */

import { AsyncQueue } from "./async_queue.js";
import { MediaError } from "./errors.js";

export class VideoOutputs {
  #sinks = new Set(); // {track, sink, fail}; track null for the first one
  #names = [];
  #known = false; // whether the names are
  #newest = new Map(); // track → {header, bytes}
  #acknowledged = new Map(); // track → seq
  #handlers;

  /** `handlers`: acknowledge(track, seq); onShown(header, at); emit(name, detail); paintAt as CanvasRenderer wants it. */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** Whether all that is shown is shown on canvases. */
  get onScreenOnly() {
    return [...this.#sinks].every(({ sink }) => sink instanceof CanvasRenderer);
  }

  /** A new session with these tracks: nothing still under way belongs to it. */
  restart(names) {
    this.#names = names;
    this.#known = true;
    this.#newest.clear();
    this.#acknowledged.clear();
    for (const { track, sink, fail } of this.#sinks) {
      sink.restart();
      const error = this.#trackError(track);
      if (error) fail(error);
    }
  }

  /** Frames left out on our own wish (hidden page) are no skipped frames. */
  skipGap() {
    for (const { sink } of this.#sinks) sink.skipGap?.();
  }

  put(header, bytes) {
    const name = header?.track ?? this.#names[0];
    if (!this.#names.includes(name))
      throw new MediaError(`a picture of ${name ?? "no track"}, which this session doesn't have`);
    this.#newest.set(name, { header, bytes });
    const sinks = [...this.#sinks].filter(({ track }) => (track ?? this.#names[0]) === name);
    for (const { sink } of sinks) sink.put(header, bytes);
    if (!sinks.length && header) this.#acknowledge(header);
  }

  attach(track, canvas) {
    const error = track && this.#trackError(track);
    if (error) throw error;
    const onPainted = (header, skipped) => {
      const at = performance.now();
      this.#shown(header, at);
      this.#handlers.emit("painted", { ...(header ?? { track }), canvas, skipped, at });
    };
    const onBroken = (header, error) => this.#reportBroken(header, error);
    const fail = (error) => track && console.error(error); // attach() has returned
    return this.#add({
      track,
      sink: new CanvasRenderer(canvas, { onPainted, onBroken, paintAt: this.#handlers.paintAt }),
      fail,
    });
  }

  frames(track, end) {
    const take = (frame) => this.#decode(track, frame);
    const queue = new AsyncQueue({ most: 1, take, stopped: () => remove(), end });
    const put = (header, bytes) => queue.push({ header, bytes });
    const fail = (error) => queue.fail(error);
    const remove = this.#add({ track, sink: { put, restart: () => queue.clear() }, fail });
    end.addEventListener("abort", () => remove()); // who takes nothing any more acknowledges nothing
    const error = this.#trackError(track);
    if (error) fail(error);
    return queue;
  }

  /** It begins with the picture that is there. */
  #add(entry) {
    const { track, sink } = entry;
    const { header, bytes } = this.#newest.get(track ?? this.#names[0]) ?? {};
    this.#sinks.add(entry);
    if (bytes) sink.put(header, bytes);
    return () => {
      if (this.#sinks.delete(entry)) sink.restart();
    };
  }

  /** Return the error for a track that the model does not have; null while its tracks are unknown. */
  #trackError(track) {
    if (!this.#known || this.#names.includes(track ?? this.#names[0])) return null;
    return new TypeError(
      `the model sends no pictures ${track ?? "at all"}; it sends ${this.#names.join(", ") || "none"}`,
    );
  }

  /** Gives undefined for what can't be decoded. */
  async #decode(track, { header, bytes }) {
    try {
      const bitmap = globalThis.createImageBitmap
        ? await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }))
        : null;
      this.#shown(header, performance.now());
      return { ...(header ?? { track }), jpeg: new Uint8Array(bytes), bitmap };
    } catch (error) {
      return this.#reportBroken(header, error);
    }
  }

  #shown(header, at) {
    if (!header) return;
    header.paintedAt ??= at;
    this.#handlers.onShown(header, at);
    this.#acknowledge(header);
  }

  /** Acknowledged all the same: a frame nobody can show must not use up the window. */
  #reportBroken(header, error) {
    this.#handlers.emit("ignored", {
      what: `A picture of ${header?.track ?? "no track"} can't be decoded`,
      why: error.message,
    });
    if (header) this.#acknowledge(header);
  }

  #acknowledge({ track, seq }) {
    if (seq <= (this.#acknowledged.get(track) ?? -1)) return;
    this.#acknowledged.set(track, seq);
    this.#handlers.acknowledge(track, seq);
  }
}

const EARLY_MS = 8; // half a repaint: the next one may be later than this one is early
const MOST_WAITING = 6;

class CanvasRenderer {
  #canvas;
  #context;
  #handlers;
  #epoch = 0;
  #decoding = false;
  #undecoded = null;
  #waiting = []; // {header, bitmap, at}: decoded, to be painted from `at` on
  #asked = false; // for a repaint
  #lastSeq = null;

  /**
   * `handlers`: onPainted(header, skipped); onBroken(header, error) for what can't be decoded; paintAt(header, now) when to paint
   * a frame at the earliest, on performance.now()'s clock. `header` is null for a frame without one.
   */
  constructor(canvas, handlers) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#handlers = handlers;
  }

  put(header, bytes) {
    this.#undecoded = { header, bytes };
    if (!this.#decoding) this.#decode();
  }

  /** A new session: nothing still under way belongs on screen. */
  restart() {
    this.#epoch += 1;
    this.#undecoded = null;
    this.#drop(this.#waiting.length);
    this.skipGap();
  }

  /** Frames left out on our own wish (hidden tab) are no skipped frames. */
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
        const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
        if (epoch === this.#epoch) this.#schedule(header, bitmap);
        else bitmap.close();
      } catch (error) {
        if (epoch === this.#epoch) this.#handlers.onBroken(header, error);
      }
    }
    this.#decoding = false;
  }

  #schedule(header, bitmap) {
    const now = performance.now();
    if (header) header.decodedAt = now;
    this.#waiting.push({ header, bitmap, at: header ? this.#handlers.paintAt(header, now) : now });
    this.#drop(this.#waiting.length - MOST_WAITING);
    this.#ask();
  }

  #ask() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#repaint());
  }

  #drop(count) {
    for (const { bitmap } of this.#waiting.splice(0, Math.max(0, count))) bitmap.close();
  }

  #repaint() {
    const now = performance.now();
    this.#asked = false;
    this.#drop(this.#waiting.findLastIndex(({ at }) => at - EARLY_MS <= now));
    if (this.#waiting[0]?.at - EARLY_MS <= now) this.#paint(this.#waiting.shift());
    if (this.#waiting.length) this.#ask();
  }

  #paint({ header, bitmap }) {
    const canvas = this.#canvas;
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    this.#context.drawImage(bitmap, 0, 0);
    bitmap.close();
    this.#handlers.onPainted(header, header ? this.#gap(header) : 0);
  }

  #gap({ seq, held }) {
    const last = this.#lastSeq;
    this.#lastSeq = held ? null : seq;
    return last === null || seq <= last ? 0 : seq - last - 1;
  }
}
