/**
 * Keeps the last ten seconds that were on screen, encoded as they arrived, with their sound; also over a reconnection
 * and into the next session.
 */

/** @import { Session } from "../client/reactor.js" */

const KEPT_S = 10;
const MOST_BYTES = 64e6;
// A clip is decoded from a key on: a longer stream would take long.
const MOST_DECODED_S = 60;
// Frames that were received and neither painted nor replaced yet, as in a hidden page.
const MOST_UNSEEN = 30;
// Between two sessions the clip has no gap.
const BETWEEN_S = 1 / 30;

export class LastSeconds {
  #session;
  // {atS, bytes, isKey} of the first video track, with all pieces of a video stream from a key on, and {atS, sampleRate, channels, samples} of the first audio track
  #frames = [];
  #sounds = [];
  #bytes = 0;
  // seq → bytes
  #unseen = new Map();
  #shownId = null;
  // What a presentation time of this session is on the clock of the clip; null before its first frame.
  #offsetS = null;
  // When the last key of a video stream was, -Infinity before one; Infinity after another was requested.
  #keyS = -Infinity;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    on("session", ({ session: id }) => {
      if (id !== this.#shownId) this.#offsetS = null;
      this.#shownId = id;
      this.#unseen.clear();
      // The last connection may have ended before the key that was requested.
      this.#keyS = -Infinity;
    });
    on("encoded", ({ header, bytes, isKey }) => {
      if (header.track !== this.#nameOf("video")) return;
      // Later pieces depend on those that are not painted.
      if (isKey !== undefined) return this.#keepPiece({ ptsS: header.ptsS, bytes, isKey }, header.track);
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

  /**
   * Return {frames, sounds} of the last ten seconds; the first frame is at 0. Frames before 0 are only needed to decode
   * the others.
   */
  get pieces() {
    const startS = (this.#frames.at(-1)?.atS ?? 0) - KEPT_S;
    const firstS = this.#frames.find(({ atS }) => atS >= startS)?.atS ?? 0;
    const fromFirst = (piece) => ({ ...piece, atS: piece.atS - firstS });
    return {
      frames: this.#frames.map(fromFirst),
      sounds: this.#sounds.map(fromFirst).filter(({ atS }) => atS >= 0),
    };
  }

  /** Whether the first video track comes as a video stream, or will with the key that was requested. */
  get isVideo() {
    return this.#keyS === Infinity || this.#frames.at(-1)?.isKey !== undefined;
  }

  #nameOf(kind) {
    return this.#session.tracks.find((track) => track.kind === kind && track.direction === "out")?.name;
  }

  #seen(seq, ptsS) {
    const bytes = this.#unseen.get(seq);
    for (const received of this.#unseen.keys()) if (received <= seq) this.#unseen.delete(received);
    if (bytes) this.#keep(this.#frames, { ptsS, bytes }, bytes);
  }

  #keepPiece(piece, track) {
    // The key may have come before this object was made, or was dropped for its bytes with all that needs it.
    const canDecode = piece.isKey || this.#frames.some(({ isKey }) => isKey);
    if (canDecode) {
      // Drop JPEGs that are older than the key and were painted after it: #keep would cut the stream there.
      if (!piece.isKey) while (this.#frames.at(-1).isKey === undefined) this.#bytes -= this.#frames.pop().byteLength;
      this.#keep(this.#frames, piece, piece.bytes);
    }
    const { atS } = this.#frames.at(-1) ?? {};
    if (piece.isKey) this.#keyS = atS;
    else if (this.#keyS < Infinity && !(canDecode && atS - this.#keyS <= MOST_DECODED_S)) {
      this.#keyS = Infinity;
      this.#session.notify("reactor.key", { track });
    }
  }

  #keep(pieces, { ptsS, ...piece }, { byteLength }) {
    this.#offsetS ??= (this.#frames.at(-1)?.atS ?? -BETWEEN_S) + BETWEEN_S - ptsS;
    pieces.push({ ...piece, byteLength, atS: ptsS + this.#offsetS });
    this.#bytes += byteLength;
    const startS = pieces.at(-1).atS - KEPT_S;
    for (const each of [this.#frames, this.#sounds]) {
      while (each.length && (isOver(each, startS) || this.#bytes > MOST_BYTES)) this.#bytes -= each.shift().byteLength;
    }
    // What was cut off cannot be decoded.
    while (this.#frames[0]?.isKey === false) this.#bytes -= this.#frames.shift().byteLength;
  }
}

/** Return whether the first piece is before `startS`, and none after it needs it to be decoded. */
function isOver(pieces, startS) {
  const last = pieces.findLastIndex(({ atS, isKey }) => atS <= startS && isKey !== false);
  return last > 0 || (pieces[0].atS < startS && pieces[0].isKey === undefined);
}
