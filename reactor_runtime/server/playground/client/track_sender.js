/**
 * Flow control of published tracks, by pings: a pong reports that the server has read everything before its ping.
 * Video goes out as fast as it arrives and no faster; sound goes out completely, until a second of it is unread.
 */

import { withHeader } from "./media_writer.js";
import { Median } from "./median.js";

const CHECK_MS = 5; // browsers don't tell when a socket has sent

export class FrameSender {
  #sender;
  #window = new SendWindow();
  #ended = false;
  #wake = () => {};

  /** `link` is as TrackSender wants it. */
  constructor(link, track) {
    this.#sender = new TrackSender(link, track, {
      answered: (sentAt, now) => this.#window.answered(sentAt, now) && this.checkRoom(),
      lost: () => {
        this.#window.restart();
        this.checkRoom();
      },
    });
  }

  /** Wait for room, or for the end. */
  async waitForRoom() {
    while (!this.#ended && !this.#hasRoom) await this.#change();
  }

  /** See whether there is room now: timers are slow in pages that are hidden. */
  checkRoom() {
    this.#wake();
  }

  /** Send a JPEG (Uint8Array); false where nobody takes it. */
  send(file) {
    if (!this.#sender.send(file)) return false;
    const now = performance.now();
    if (this.#sender.ping(now)) this.#window.sent(now);
    return true;
  }

  end() {
    this.#ended = true;
    this.#sender.end();
    this.checkRoom();
  }

  get #hasRoom() {
    return this.#sender.isIdle && this.#window.hasRoom(performance.now());
  }

  #change() {
    return new Promise((resolve) => {
      this.#wake = () => resolve();
      if (!this.#sender.isIdle) setTimeout(resolve, CHECK_MS);
    });
  }
}

const MOST_UNREAD_S = 1;
const PING_S = 0.2; // of sound between two pings

export class SoundSender {
  #sender;
  #unread = []; // {at, seconds}: pings without a pong, and how much sound went before each
  #sinceS = 0; // the last ping

  /** `link` is as TrackSender wants it. */
  constructor(link, track) {
    this.#sender = new TrackSender(link, track, {
      answered: (sentAt) => this.#answered(sentAt),
      lost: () => this.#restart(),
    });
  }

  get hasRoom() {
    return this.#unread.reduce((sum, { seconds }) => sum + seconds, this.#sinceS) < MOST_UNREAD_S;
  }

  /** Send a WAV (Uint8Array) that lasts so long; false where nobody takes it. */
  send(file, seconds) {
    if (!this.#sender.send(file)) return false;
    const at = performance.now();
    this.#sinceS += seconds;
    if (this.#sinceS < PING_S || !this.#sender.ping(at)) return true;
    this.#unread.push({ at, seconds: this.#sinceS });
    this.#sinceS = 0;
    return true;
  }

  end() {
    this.#sender.end();
  }

  #answered(sentAt) {
    if (this.#unread.some(({ at }) => at === sentAt)) this.#unread = this.#unread.filter(({ at }) => at > sentAt);
  }

  #restart() {
    this.#unread = [];
    this.#sinceS = 0;
  }
}

const FREE_BYTES = 4096; // so little unsent delays nobody: events, acknowledgements

class TrackSender {
  #session;
  #connection;
  #track;
  #leave = new AbortController();

  /** `link` is {session, connection}; answered(t, now) is called for each pong, lost() when the connection went. */
  constructor({ session, connection }, track, { answered, lost }) {
    this.#session = session;
    this.#connection = connection;
    this.#track = track;
    const { signal } = this.#leave;
    session.addEventListener("pong", ({ detail }) => answered(detail.t, performance.now()), { signal });
    session.addEventListener("status", ({ detail }) => /reconnecting|ended/.test(detail.phase) && lost(), { signal });
  }

  /** Whether what is sent now leaves this machine's program at once. */
  get isIdle() {
    return this.#connection.unsentBytes <= FREE_BYTES;
  }

  /** Send a JPEG or WAV; false where nobody takes it. */
  send(file) {
    return this.#session.role === "controller" && this.#connection.sendBytes(withHeader(this.#track, file));
  }

  ping(now) {
    return this.#connection.notify("reactor.ping", { t: now });
  }

  end() {
    this.#leave.abort();
  }
}

const RATE_OVER_MS = 1000;
const MEASURE_EVERY_MS = 10000; // the time that one thing takes, with nothing else on the way
const WAITING = 0.5; // of the time between two arrivals: what takes so much longer than alone has waited for another
const JITTER_MS = 100; // so much longer is nothing: a page has other things to do, too

export class SendWindow {
  #waiting = []; // when each was sent
  #arrivals = []; // the last ones
  #aloneMs = Infinity;
  #tookMs = new Median(7);
  #measuredAt = -Infinity;
  #measuring = NaN; // when the one was sent that is alone on the way

  get inFlight() {
    return this.#waiting.length;
  }

  /** Whether one more may go. */
  hasRoom(now) {
    if (now - this.#measuredAt > MEASURE_EVERY_MS) return this.#waiting.length === 0;
    return this.#waiting.length < this.#most(now);
  }

  sent(now) {
    if (!this.#waiting.length && now - this.#measuredAt > MEASURE_EVERY_MS) this.#measuring = now;
    this.#waiting.push(now);
  }

  /** The pong of what was sent at `sentAt` has come; false where that is none of ours. */
  answered(sentAt, now) {
    if (!this.#waiting.includes(sentAt)) return false;
    this.#waiting = this.#waiting.filter((at) => at > sentAt);
    this.#arrivals.push(now);
    this.#tookMs.add(now - sentAt);
    if (sentAt === this.#measuring) this.#measuredAt = now;
    this.#aloneMs = sentAt === this.#measuring ? now - sentAt : Math.min(this.#aloneMs, now - sentAt);
    return true;
  }

  /** The connection went, and all that was on its way with it. */
  restart() {
    this.#waiting = [];
    this.#arrivals = [];
    this.#tookMs.clear();
    this.#measuredAt = -Infinity;
  }

  #most(now) {
    while (now - this.#arrivals[0] > RATE_OVER_MS) this.#arrivals.shift();
    const [first, last] = [this.#arrivals[0], this.#arrivals.at(-1)];
    const perMs = last > first ? (this.#arrivals.length - 1) / (last - first) : 0;
    const isWaiting = this.#tookMs.value - this.#aloneMs > Math.max(JITTER_MS, WAITING / perMs);
    return Math.max(1, Math.ceil(perMs * this.#aloneMs - 0.25)) + (isWaiting ? 0 : 1);
  }
}
