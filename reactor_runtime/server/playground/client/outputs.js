/** The model's pictures on their way to canvases and feeds; acknowledged when they are shown, and at once where nobody takes them. */

import { Feed } from "./feed.js";
import { MediaError } from "./media.js";
import { Screen } from "./screen.js";

export class Outputs {
  #takers = new Set(); // {track, sink}; track null for the first one
  #names = [];
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
    this.#newest.clear();
    this.#acknowledged.clear();
    for (const { sink } of this.#takers) sink.restart();
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
    const painted = (header, skipped) => {
      const at = performance.now();
      this.#shown(header, at);
      this.#tell.emit("painted", { ...(header ?? { track }), canvas, skipped, at });
    };
    const broken = (header, error) => this.#broken(header, error);
    return this.#add(track, new Screen(canvas, { painted, broken, paintAt: this.#tell.paintAt }));
  }

  frames(track, end) {
    const take = (frame) => this.#take(track, frame);
    const feed = new Feed({ most: 1, take, stopped: () => remove(), end });
    const show = (header, bytes) => feed.push({ header, bytes });
    const remove = this.#add(track, { show, restart: () => feed.clear() });
    return feed;
  }

  /** It begins with the picture that is there. */
  #add(track, sink) {
    const taker = { track, sink };
    const { header, bytes } = this.#newest.get(track ?? this.#names[0]) ?? {};
    this.#takers.add(taker);
    if (bytes) sink.show(header, bytes);
    return () => {
      this.#takers.delete(taker);
      sink.restart();
    };
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
