/**
 * Records times of inputs and frames of the last ten seconds, and the server's clock.
 * Always on, because users save a trace after the hitch; the cost is one reference per frame and input.
 */

/** @import { Session } from "../client/reactor.js" */

const KEPT_MS = 10000;
// Of each kind.
const MOST_KEPT = 4096;
const MOST_FIRSTS = 256;
// Clocks drift, and wall clocks are corrected.
const PONGS_KEPT_MS = 60000;
const MOST_PONGS = 64;
// A page that is loading is busy: a single pong would be unreliable.
const [FIRST_PINGS, APART_MS] = [8, 200];

export class Timings {
  clock = new ServerClock();
  // Headers in order of arrival; the client fills in their times.
  #frames = [];
  // {type, inputAt, sentAt, repliedAt?, n?, shown?: the first frame that shows it}
  #inputs = [];
  // The frames that first showed each `applied`, rising.
  #firsts = [];
  #unshown = [];
  #pingsLeft = 0;
  #ping;

  /** @param {Session} session */
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

  /** Record an input; `reply` is the promise of its reply. */
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

  /** Return the inputs that were painted since the last call, oldest first. */
  newlyShown() {
    for (const input of this.#unshown) input.shown = this.#firsts.find(({ applied }) => applied >= input.n);
    const shown = this.#unshown.filter((input) => input.shown);
    this.#unshown = this.#unshown.filter((input) => !input.shown && performance.now() - input.sentAt < KEPT_MS);
    return shown;
  }

  /** Return the age of the frame when it was painted; null if unknown. */
  ageMs(frame) {
    const handedAt = this.handedAt(frame);
    return handedAt === null || frame.paintedAt === undefined ? null : frame.paintedAt - handedAt;
  }

  /** Return when the model put out the frame, on this page's clock, not after its arrival; null if unknown. */
  handedAt({ wallUs, receivedAt }) {
    const at = wallUs === undefined ? null : this.clock.toLocal(wallUs);
    return at === null ? null : Math.min(at, receivedAt);
  }

  /** Return the last ten seconds before `now`, for a trace. */
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
    if (typeof t === "number") this.clock.pong(t, serverUs, performance.now());
    if (this.#pingsLeft-- > 0) setTimeout(this.#ping, APART_MS);
  }
}

/** Add an entry, and drop what is ten seconds older; `time` names its time. */
function keep(ring, entry, time) {
  const from = entry[time] - KEPT_MS;
  ring.push(entry);
  const stale = ring.findIndex((each) => each[time] >= from);
  ring.splice(0, Math.max(stale, ring.length - MOST_KEPT));
}

export class ServerClock {
  // {at, rttMs, offsetMs}: each has a larger rttMs than the one before, and replaces it when that is too old
  #best = [];

  /** Record a pong at `now` for the ping of `sentAt`. */
  pong(sentAt, serverUs, now) {
    const rttMs = now - sentAt;
    if (!(rttMs >= 0) || !Number.isFinite(serverUs)) return;
    while (this.#best.length && this.#best.at(-1).rttMs >= rttMs) this.#best.pop();
    this.#best.push({ at: now, rttMs, offsetMs: serverUs / 1000 - (sentAt + rttMs / 2) });
    while (now - this.#best[0].at > PONGS_KEPT_MS || this.#best.length > MOST_PONGS) this.#best.shift();
  }

  /** Forget the clock: another server may have the same address. */
  restart() {
    this.#best = [];
  }

  /** Return a time of the server on performance.now()'s clock; null before the first pong. */
  toLocal(serverUs) {
    const [best] = this.#best;
    return best ? serverUs / 1000 - best.offsetMs : null;
  }
}
