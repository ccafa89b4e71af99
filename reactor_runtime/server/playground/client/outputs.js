/** The model's pictures on their way to canvases and feeds; acknowledged when they are shown, and at once where nobody takes them. */

import { MediaError } from "./errors.js";
import { Feed } from "./feed.js";
import { Screen } from "./screen.js";

export class Outputs {
  #takers = new Set(); // {track, sink, fail}; track null for the first one
  #names = [];
  #known = false; // whether the names are
  #newest = new Map(); // track → {header, bytes}
  #acknowledged = new Map(); // track → seq
  #tell;

  /** `tell`: acknowledge(track, seq); shown(header, at) for each picture that is; emit(name, detail); paintAt as Screen wants it. */
  constructor(tell) {
    this.#tell = tell;
  }

  /** Whether all that is shown is shown on canvases. */
  get onScreenOnly() { return [...this.#takers].every(({ sink }) => sink instanceof Screen); }

  /** A new session with these tracks: nothing still under way belongs to it. */
  restart(names) {
    this.#names = names;
    this.#known = true;
    this.#newest.clear();
    this.#acknowledged.clear();
    for (const { track, sink, fail } of this.#takers) {
      sink.restart();
      const fault = this.#faultOf(track);
      if (fault) fail(fault);
    }
  }

  /** Frames left out on our own wish (hidden page) are no skipped frames. */
  skipGap() {
    for (const { sink } of this.#takers) sink.skipGap?.();
  }

  show(header, bytes) {
    const name = header?.track ?? this.#names[0];
    if (!this.#names.includes(name)) throw new MediaError(`a picture of ${name ?? "no track"}, which this session doesn't have`);
    this.#newest.set(name, { header, bytes });
    const takers = [...this.#takers].filter(({ track }) => (track ?? this.#names[0]) === name);
    for (const { sink } of takers) sink.show(header, bytes);
    if (!takers.length && header) this.#acknowledge(header);
  }

  attach(track, canvas) {
    const fault = track && this.#faultOf(track);
    if (fault) throw fault;
    const painted = (header, skipped) => {
      const at = performance.now();
      this.#shown(header, at);
      this.#tell.emit("painted", { ...(header ?? { track }), canvas, skipped, at });
    };
    const broken = (header, error) => this.#broken(header, error);
    const fail = (error) => track && console.error(error); // attach() has returned
    return this.#add({ track, sink: new Screen(canvas, { painted, broken, paintAt: this.#tell.paintAt }), fail });
  }

  frames(track, end) {
    const take = (frame) => this.#take(track, frame);
    const feed = new Feed({ most: 1, take, stopped: () => remove(), end });
    const show = (header, bytes) => feed.push({ header, bytes });
    const fail = (error) => feed.fail(error);
    const remove = this.#add({ track, sink: { show, restart: () => feed.clear() }, fail });
    end.addEventListener("abort", () => remove()); // who takes nothing any more acknowledges nothing
    const fault = this.#faultOf(track);
    if (fault) fail(fault);
    return feed;
  }

  /** It begins with the picture that is there. */
  #add(taker) {
    const { track, sink } = taker;
    const { header, bytes } = this.#newest.get(track ?? this.#names[0]) ?? {};
    this.#takers.add(taker);
    if (bytes) sink.show(header, bytes);
    return () => {
      if (this.#takers.delete(taker)) sink.restart();
    };
  }

  /** Return the error for a track that the model does not have; null while its tracks are unknown. */
  #faultOf(track) {
    if (!this.#known || this.#names.includes(track ?? this.#names[0])) return null;
    return new TypeError(`the model sends no pictures ${track ?? "at all"}; it sends ${this.#names.join(", ") || "none"}`);
  }

  /** Gives undefined for what can't be decoded. */
  async #take(track, { header, bytes }) {
    try {
      const bitmap = globalThis.createImageBitmap ? await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })) : null;
      this.#shown(header, performance.now());
      return { ...(header ?? { track }), jpeg: new Uint8Array(bytes), bitmap };
    } catch (error) {
      return this.#broken(header, error);
    }
  }

  #shown(header, at) {
    if (!header) return;
    header.paintedAt ??= at;
    this.#tell.shown(header, at);
    this.#acknowledge(header);
  }

  /** Acknowledged all the same: a frame nobody can show must not use up the window. */
  #broken(header, error) {
    this.#tell.emit("ignored", { what: `A picture of ${header?.track ?? "no track"} can't be decoded`, why: error.message });
    if (header) this.#acknowledge(header);
  }

  #acknowledge({ track, seq }) {
    if (seq <= (this.#acknowledged.get(track) ?? -1)) return;
    this.#acknowledged.set(track, seq);
    this.#tell.acknowledge(track, seq);
  }
}
