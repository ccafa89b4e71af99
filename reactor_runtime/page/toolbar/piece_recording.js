/** Records the messages of a video stream as they arrive, from the next key on: together they are an MP4 file. */

/** @import { Session } from "../client/reactor.js" */

import { timestamp } from "../browser.js";
import { boxes, readVideo } from "../client/video/mp4.js";

const [FTYP, MOOV, MOOF, MDAT] = [0x66747970, 0x6d6f6f76, 0x6d6f6f66, 0x6d646174];
const [TRAF, TFDT, TRUN] = [0x74726166, 0x74666474, 0x7472756e];
const BOX_BYTES = 8;
// A server may not answer every request for a key; it sends statistics once a second, in order with the frames.
const MOST_STATISTICS = 5;
// JPEGs come beside video until a key is acknowledged. In presentation time, which a busy machine does not change.
const JPEGS_S = 2;

export class PieceRecording {
  /**
   * Promise of {file, failure, continues}: as of Recording; with `continues` video has ended or has another size, and
   * another file has to continue the recording.
   */
  ended;
  #session;
  #pieces = [];
  #config = null;
  // Of the session whose times begin at `#offsetS`, on the clock of the file; null before its first piece.
  #id;
  #offsetS = null;
  #beganAt = 0;
  // The presentation time of the newest piece, or of the first JPEG of a session before its first piece; null before.
  #lastS = null;
  #statistics = 0;
  #frames;
  #over = new AbortController();
  #onDecided;
  #onEnd;

  /**
   * Start with the next key of a track; resolve to null if none comes.
   * @param {Session} session
   * @param {string} track
   */
  static async start(session, track) {
    const recording = new PieceRecording(session, track);
    const begun = await new Promise((resolve) => {
      recording.#onDecided = resolve;
      session.notify("reactor.key", { track });
    });
    if (begun) return recording;
    recording.#over.abort();
    return null;
  }

  constructor(session, track) {
    this.#session = session;
    this.#id = session.id;
    this.ended = new Promise((resolve) => (this.#onEnd = resolve));
    const { signal } = this.#over;
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail), { signal });
    on("session", ({ session: id }) => {
      if (id === this.#id) return;
      this.#id = id;
      this.#offsetS = this.#lastS = null;
      // Those of a controller have ended with its session.
      if (session.role === "controller") this.#frames = session.frames(track, { jpeg: false });
    });
    on("stats", () => ++this.#statistics < MOST_STATISTICS || this.#onDecided(false));
    on("status", ({ phase }) => phase !== "ended" || this.#onDecided(false));
    on("encoded", (message) => {
      if (message.header.track === track) this.#add(message);
    });
    this.#frames = session.frames(track, { jpeg: false });
    this.#readWhileHidden();
  }

  /** Stop and return the file. */
  async stop() {
    this.#end();
    return (await this.ended).file;
  }

  #add({ header, bytes, isKey }) {
    if (isKey === undefined) {
      this.#lastS ??= header.ptsS;
      if (this.#config && header.ptsS - this.#lastS > JPEGS_S) this.#end({ continues: true });
      return;
    }
    const now = performance.now();
    const { config, sample } = readVideo(bytes);
    // Without a config, the file begins with this message, if it is a key.
    const known = this.#config ?? config;
    if (!known) return;
    if (config && (config.width !== known.width || config.height !== known.height))
      return this.#end({ continues: true });
    const found = new Map();
    for (const box of boxes(new DataView(bytes), 0, bytes.byteLength)) found.set(box.name, box);
    const copy = ({ start, end }) => bytes.slice(start - BOX_BYTES, end);
    if (!this.#config) {
      this.#pieces.push(copy(found.get(FTYP)), copy(found.get(MOOV)));
      [this.#config, this.#beganAt] = [config, now];
      this.#onDecided(true);
    }
    this.#lastS = header.ptsS;
    this.#offsetS ??= (now - this.#beganAt) / 1000 - header.ptsS;
    const isOther = config && `${config.description}` !== `${known.description}`;
    const whole = isOther ? joined(parameterSets(config.description), sample) : sample.slice();
    const head = new DataView(new ArrayBuffer(BOX_BYTES));
    head.setUint32(0, BOX_BYTES + whole.byteLength);
    head.setUint32(4, MDAT);
    const moof = fragmentAt(copy(found.get(MOOF)), header.ptsS + this.#offsetS, whole.byteLength);
    this.#pieces.push(moof, head, whole);
  }

  #end({ continues = false } = {}) {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    const name = `${this.#session.model}-${timestamp()}.mp4`;
    this.#onEnd({ file: new File(this.#pieces, name, { type: "video/mp4" }), failure: null, continues });
  }

  /** Acknowledge frames while the page is hidden and shows none. */
  async #readWhileHidden() {
    const { signal } = this.#over;
    signal.addEventListener("abort", () => this.#frames.return());
    while (!signal.aborted) {
      const frames = this.#frames;
      const { value } = document.hidden ? await frames.next().catch(() => ({})) : {};
      value?.bitmap.close();
      if (value || frames !== this.#frames) continue;
      await new Promise((resolve) => {
        document.addEventListener("visibilitychange", resolve, { once: true, signal });
        this.#session.addEventListener("session", resolve, { once: true, signal });
        signal.addEventListener("abort", resolve);
      });
    }
  }
}

/** Return a box `moof` for a sample of another size, at a time in seconds. */
function fragmentAt(moof, atS, sizeBytes) {
  const view = new DataView(moof);
  const traf = box(view, { start: BOX_BYTES, end: moof.byteLength }, TRAF);
  view.setBigUint64(box(view, traf, TFDT).start + 4, BigInt(Math.max(0, Math.round(1e6 * atS))));
  // After version and flags, the number of samples, the place and the duration.
  view.setUint32(box(view, traf, TRUN).start + 16, sizeBytes);
  return moof;
}

function box(view, { start, end }, name) {
  for (const each of boxes(view, start, end)) if (each.name === name) return each;
  throw new Error("a message of the video stream has another form");
}

/** Return the parameter sets of an AVCDecoderConfigurationRecord with one of each, as units with their lengths. */
function parameterSets(description) {
  const view = new DataView(description.buffer, description.byteOffset);
  const sized = (at) => joined(new Uint8Array(2), description.subarray(at, at + 2 + view.getUint16(at)));
  const sps = sized(6);
  return joined(sps, sized(6 + sps.byteLength - 2 + 1));
}

function joined(first, second) {
  const whole = new Uint8Array(first.byteLength + second.byteLength);
  whole.set(first);
  whole.set(second, first.byteLength);
  return whole;
}
