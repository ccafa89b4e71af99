/**
 * What happened in the last ten seconds: inputs, and frames with their times. It is kept always, since nobody asks for a trace
 * before the hitch; it costs a reference for each frame and input, and is read when somebody looks.
 */

import { Clock } from "./clock.js";

const KEPT_MS = 10000;
const MOST_KEPT = 4096; // of each kind
const MOST_FIRSTS = 256;
const [FIRST_PINGS, APART_MS] = [8, 200]; // while a page loads it is busy, and a single pong may say much that is wrong

export class Journal {
  clock = new Clock();
  #frames = []; // headers, as they came; the client fills in their times
  #inputs = []; // {type, inputAt, sentAt, repliedAt?, n?, shown?: the first frame that shows it}
  #firsts = []; // the frame that first showed each `applied`, rising
  #unshown = [];
  #pingsLeft = 0;
  #ping;

  constructor(session) {
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    this.#ping = () => session.notify("reactor.ping", { t: performance.now() });
    on("pong", (pong) => this.#answered(pong));
    on("arrived", (header) => keep(this.#frames, header, "receivedAt"));
    on("painted", (frame) => this.#painted(frame));
    on("session", () => this.#restart());
    on("status", ({ phase }) => phase === "reconnecting" && this.clock.restart());
    this.#settle();
  }

  /** An input goes to the model; `reply`, a promise of its answer, is only looked at. */
  async sent(type, inputAt, reply) {
    const now = performance.now();
    const input = { type, inputAt: inputAt ?? now, sentAt: now };
    keep(this.#inputs, input, "sentAt");
    const { n } = await reply.catch(() => ({}));
    input.repliedAt = performance.now();
    if (typeof n === "number" && this.#inputs.includes(input)) this.#unshown.push(Object.assign(input, { n }));
  }

  #painted(frame) {
    if (!(frame.applied > (this.#firsts.at(-1)?.applied ?? 0))) return;
    const { track, seq, applied, wallUs, receivedAt, decodedAt, paintedAt } = frame;
    this.#firsts.push({ track, seq, applied, wallUs, receivedAt, decodedAt, paintedAt });
    if (this.#firsts.length > MOST_FIRSTS) this.#firsts.shift();
  }

  /** The inputs that have come to be seen since it was last asked for them, oldest first. */
  newlyShown() {
    for (const input of this.#unshown) input.shown = this.#firsts.find(({ applied }) => applied >= input.n);
    const shown = this.#unshown.filter((input) => input.shown);
    this.#unshown = this.#unshown.filter((input) => !input.shown && performance.now() - input.sentAt < KEPT_MS);
    return shown;
  }

  /** How old the frame was when it was painted; null where that isn't known. */
  ageMs(frame) {
    const handedAt = this.handedAt(frame);
    return handedAt === null || frame.paintedAt === undefined ? null : frame.paintedAt - handedAt;
  }

  /** When the model handed the frame over, here; before it came, whatever the clocks say. Null where that isn't known. */
  handedAt({ wallUs, receivedAt }) {
    const at = wallUs === undefined ? null : this.clock.toLocal(wallUs);
    return at === null ? null : Math.min(at, receivedAt);
  }

  /** The last ten seconds before `now`, as `lanesOf` wants them. */
  recent(now) {
    const from = now - KEPT_MS;
    const frames = this.#frames.filter(({ receivedAt }) => receivedAt >= from);
    const inputs = this.#inputs.filter(({ sentAt }) => sentAt >= from);
    const inTime = (frame) => ({ ...frame, handedAt: this.handedAt(frame) });
    return { from, now, frames: frames.map(inTime), inputs: inputs.map((input) => ({ ...input })) };
  }

  #restart() {
    this.#frames = [];
    this.#inputs = [];
    this.#firsts = [];
    this.#unshown = [];
    this.#settle();
  }

  #settle() {
    this.#pingsLeft = FIRST_PINGS;
    this.#ping();
  }

  #answered({ t, server_us: serverUs }) {
    if (typeof t === "number") this.clock.heard(t, serverUs, performance.now());
    if (this.#pingsLeft-- > 0) setTimeout(this.#ping, APART_MS);
  }
}

/** Add an entry, and drop what is older than ten seconds before it; `time` names its time. */
function keep(ring, entry, time) {
  const from = entry[time] - KEPT_MS;
  ring.push(entry);
  const stale = ring.findIndex((each) => each[time] >= from);
  ring.splice(0, Math.max(stale, ring.length - MOST_KEPT));
}
