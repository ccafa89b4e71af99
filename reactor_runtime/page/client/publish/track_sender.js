/**
 * Flow control of published tracks, by pings: a pong reports that the server has read everything before its ping.
 * Video is sent as fast as it arrives and no faster; sound is sent completely, until a second of it is unread.
 */

import { Median } from "../median.js";
import { withHeader } from "./media_writer.js";

// Browsers do not report when a socket has sent.
const CHECK_MS = 5;

export class FrameSender {
  #sender;
  #window = new SendWindow();
  #ended = false;
  #wake = () => {};

  /** `link` is as for TrackSender. */
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

  /** Check for room now: timers are slow in hidden pages. */
  checkRoom() {
    this.#wake();
  }

  /** Send a JPEG (Uint8Array) with its stamp; return false if there is no session. */
  send(file, stamp) {
    if (!this.#sender.send(file, stamp)) return false;
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
// Sound between two pings.
const PING_S = 0.2;

export class SoundSender {
  #sender;
  // {at, seconds}: pings without a pong, and the sound before each
  #unread = [];
  // Sound since the last ping.
  #sinceS = 0;

  /** `link` is as for TrackSender. */
  constructor(link, track) {
    this.#sender = new TrackSender(link, track, {
      answered: (sentAt) => this.#answered(sentAt),
      lost: () => this.#restart(),
    });
  }

  get hasRoom() {
    return this.#unread.reduce((sum, { seconds }) => sum + seconds, this.#sinceS) < MOST_UNREAD_S;
  }

  /** Send a WAV (Uint8Array) of this duration with its stamp; return false if there is no session. */
  send(file, seconds, stamp) {
    if (!this.#sender.send(file, stamp)) return false;
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

// So few unsent bytes are events and acknowledgements, and delay nothing.
const FREE_BYTES = 4096;

class TrackSender {
  #session;
  #connection;
  #track;
  #leave = new AbortController();

  /** `link` is {session, connection}; answered(t, now) is called for each pong, lost() when the connection breaks. */
  constructor({ session, connection }, track, { answered, lost }) {
    this.#session = session;
    this.#connection = connection;
    this.#track = track;
    const { signal } = this.#leave;
    session.addEventListener("pong", ({ detail }) => answered(detail.t, performance.now()), { signal });
    session.addEventListener("status", ({ detail }) => /reconnecting|ended/.test(detail.phase) && lost(), { signal });
  }

  /** Whether a message would leave this program at once. */
  get isIdle() {
    return this.#connection.unsentBytes <= FREE_BYTES;
  }

  /** Send a JPEG or WAV; return false if there is no session. */
  send(file, stamp) {
    return this.#session.maySend && this.#connection.sendBytes(withHeader(this.#track, file, stamp));
  }

  ping(now) {
    return this.#connection.notify("reactor.ping", { t: now });
  }

  end() {
    this.#leave.abort();
  }
}

const RATE_OVER_MS = 1000;
// How often the time of a single frame is measured, with nothing else in flight.
const MEASURE_EVERY_MS = 10000;
// A frame that takes longer than a single one by this share of the interval between arrivals has waited for another.
const WAITING = 0.5;
// A smaller difference is ignored: the page has other work, too.
const JITTER_MS = 100;

export class SendWindow {
  // When each was sent.
  #waiting = [];
  // The last arrivals.
  #arrivals = [];
  #aloneMs = Infinity;
  #tookMs = new Median(7);
  #measuredAt = -Infinity;
  // When the single frame was sent that is being measured.
  #measuring = NaN;

  get inFlight() {
    return this.#waiting.length;
  }

  /** Return whether another frame may be sent. */
  hasRoom(now) {
    if (now - this.#measuredAt > MEASURE_EVERY_MS) return this.#waiting.length === 0;
    return this.#waiting.length < this.#most(now);
  }

  sent(now) {
    if (!this.#waiting.length && now - this.#measuredAt > MEASURE_EVERY_MS) this.#measuring = now;
    this.#waiting.push(now);
  }

  /** Record the pong of the frame sent at `sentAt`; return false if there is no such frame. */
  answered(sentAt, now) {
    if (!this.#waiting.includes(sentAt)) return false;
    this.#waiting = this.#waiting.filter((at) => at > sentAt);
    this.#arrivals.push(now);
    this.#tookMs.add(now - sentAt);
    if (sentAt === this.#measuring) this.#measuredAt = now;
    this.#aloneMs = sentAt === this.#measuring ? now - sentAt : Math.min(this.#aloneMs, now - sentAt);
    return true;
  }

  /** Forget what was in flight on a broken connection. */
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
