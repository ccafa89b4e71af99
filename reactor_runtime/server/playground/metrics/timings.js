/**
 * Times of inputs and frames in the last ten seconds, and the server's clock.
 * Always recorded, because a trace is asked for after the hitch: the cost is one reference per frame and input.
 */

/** @import { Session } from "../client/reactor.js" */

const KEPT_MS = 10000;
const MOST_KEPT = 4096; // of each kind
const MOST_FIRSTS = 256;
const PONGS_KEPT_MS = 60000; // clocks drift, and wall clocks are put right
const MOST_PONGS = 64;
const [FIRST_PINGS, APART_MS] = [8, 200]; // while a page loads it is busy, and a single pong may say much that is wrong

export class Timings {
  clock = new ServerClock();
  #frames = []; // headers, as they came; the client fills in their times
  #inputs = []; // {type, inputAt, sentAt, repliedAt?, n?, shown?: the first frame that shows it}
  #firsts = []; // the frame that first showed each `applied`, rising
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
    if (typeof t === "number") this.clock.pong(t, serverUs, performance.now());
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

export class ServerClock {
  #best = []; // {at, rttMs, offsetMs}: each took longer than the one before it, and is there for when that is too old

  /** A pong that came at `now` for the ping of `sentAt`. */
  pong(sentAt, serverUs, now) {
    const rttMs = now - sentAt;
    if (!(rttMs >= 0) || !Number.isFinite(serverUs)) return;
    while (this.#best.length && this.#best.at(-1).rttMs >= rttMs) this.#best.pop();
    this.#best.push({ at: now, rttMs, offsetMs: serverUs / 1000 - (sentAt + rttMs / 2) });
    while (now - this.#best[0].at > PONGS_KEPT_MS || this.#best.length > MOST_PONGS) this.#best.shift();
  }

  /** Another server may be behind the same address. */
  restart() {
    this.#best = [];
  }

  /** When it was here, on performance.now()'s clock; null before the first pong. */
  toLocal(serverUs) {
    const [best] = this.#best;
    return best ? serverUs / 1000 - best.offsetMs : null;
  }
}
