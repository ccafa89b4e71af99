/** Who takes the pictures of which track, screens and feeds; what was shown is acknowledged, and at once what nobody takes. */

import { MediaError } from "./media.js";
import { Screen } from "./screen.js";

export class Outputs {
  #sinks = new Set(); // {track, sink}
  #names = [];
  #newest = new Map(); // track → {header, bytes}
  #acknowledged = new Map(); // track → seq
  #send;

  /** `send(track, seq)` acknowledges. */
  constructor(send) {
    this.#send = send;
  }

  /** Whether all that is shown is shown on screens. */
  get onScreenOnly() {
    return [...this.#sinks].every(({ sink }) => sink instanceof Screen);
  }

  /** A new session with these tracks: nothing still under way belongs to it. */
  restart(names) {
    this.#names = names;
    this.#newest.clear();
    this.#acknowledged.clear();
    for (const { sink } of this.#sinks) sink.restart();
  }

  /** Give `sink` the pictures of `track`, null for the first one; it begins with the one that is there. */
  add(track, sink) {
    const taker = { track, sink };
    const { header, bytes } = this.#newest.get(track ?? this.#names[0]) ?? {};
    this.#sinks.add(taker);
    if (bytes) sink.show(header, bytes);
    return () => {
      this.#sinks.delete(taker);
      sink.restart();
    };
  }

  show(header, bytes) {
    const name = header?.track ?? this.#names[0];
    if (!this.#names.includes(name)) throw new MediaError(`a picture of ${name ?? "no track"}, which this session doesn't have`);
    this.#newest.set(name, { header, bytes });
    const takers = [...this.#sinks].filter(({ track }) => (track ?? this.#names[0]) === name);
    for (const { sink } of takers) sink.show(header, bytes);
    if (!takers.length && header) this.acknowledge(header);
  }

  acknowledge({ track, seq }) {
    if (seq <= (this.#acknowledged.get(track) ?? -1)) return;
    this.#acknowledged.set(track, seq);
    this.#send(track, seq);
  }

  /** Frames left out on our own wish (hidden page) are no skipped frames. */
  skipGap() {
    for (const { sink } of this.#sinks) sink.skipGap?.();
  }
}
