/**
 * Keeps the last ten seconds that were on screen, encoded as they arrived, with their sound; also over a reconnection
 * and into the next session.
 */

/** @import { Session } from "../client/reactor.js" */

const KEPT_S = 10;
const MOST_BYTES = 64e6;
// Frames that were received and neither painted nor replaced yet, as in a hidden page.
const MOST_UNSEEN = 30;
// Between two sessions the clip has no gap.
const BETWEEN_S = 1 / 30;

export class LastSeconds {
  #session;
  // {atS, bytes} of the first video track, and {atS, sampleRate, channels, samples} of the first audio track
  #frames = [];
  #sounds = [];
  #bytes = 0;
  // seq → bytes
  #unseen = new Map();
  #shownId = null;
  // What a presentation time of this session is on the clock of the clip; null before its first frame.
  #offsetS = null;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    on("session", ({ session: id }) => {
      if (id !== this.#shownId) this.#offsetS = null;
      this.#shownId = id;
      this.#unseen.clear();
    });
    on("encoded", ({ header, bytes }) => {
      if (header.track !== this.#nameOf("video")) return;
      this.#unseen.set(header.seq, bytes);
      if (this.#unseen.size > MOST_UNSEEN) this.#unseen.delete(this.#unseen.keys().next().value);
    });
    on("painted", ({ track, seq, ptsS }) => {
      if (track === this.#nameOf("video")) this.#seen(seq, ptsS);
    });
    on("sound", (sound) => {
      if (sound.track === this.#nameOf("audio")) this.#keep(this.#sounds, sound, sound.samples.buffer);
    });
  }

  /** Return {frames, sounds} of the last ten seconds; the first frame is at 0. */
  get pieces() {
    const firstS = this.#frames[0]?.atS ?? 0;
    const fromFirst = (piece) => ({ ...piece, atS: piece.atS - firstS });
    return {
      frames: this.#frames.map(fromFirst),
      sounds: this.#sounds.map(fromFirst).filter(({ atS }) => atS >= 0),
    };
  }

  #nameOf(kind) {
    return this.#session.tracks.find((track) => track.kind === kind && track.direction === "out")?.name;
  }

  #seen(seq, ptsS) {
    const bytes = this.#unseen.get(seq);
    for (const received of this.#unseen.keys()) if (received <= seq) this.#unseen.delete(received);
    if (bytes) this.#keep(this.#frames, { ptsS, bytes }, bytes);
  }

  #keep(pieces, { ptsS, ...piece }, { byteLength }) {
    this.#offsetS ??= (this.#frames.at(-1)?.atS ?? -BETWEEN_S) + BETWEEN_S - ptsS;
    pieces.push({ ...piece, byteLength, atS: ptsS + this.#offsetS });
    this.#bytes += byteLength;
    for (const each of [this.#frames, this.#sounds]) {
      while (each.length && (each[0].atS < pieces.at(-1).atS - KEPT_S || this.#bytes > MOST_BYTES)) {
        this.#bytes -= each.shift().byteLength;
      }
    }
  }
}
