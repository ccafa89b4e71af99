/**
 * How many of the things we send may be on their way at once: as many as the way holds, so that what arrives is late by the way
 * alone, whatever buffers there are. After each thing goes a ping, and the pong says that it has arrived.
 * The way holds what arrives in the time that one thing alone takes; one more is tried while none seems to wait for another.
 * Reads no clock: all times are given, in milliseconds.
 */

import { Median } from "./median.js";

const RATE_OVER_MS = 1000;
const MEASURE_EVERY_MS = 10000; // the time that one thing takes, with nothing else on the way
const WAITING = 0.5; // of the time between two arrivals: what takes so much longer than alone has waited for another
const JITTER_MS = 100; // so much longer is nothing: a page has other things to do, too

export class Pace {
  #waiting = []; // when each was sent
  #arrivals = []; // the last ones
  #aloneMs = Infinity;
  #tookMs = new Median(7);
  #measuredAt = -Infinity;
  #measuring = NaN; // when the one was sent that is alone on the way

  get onTheWay() {
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
