/** Lets through so many things a second of those that come faster, evenly. Reads no clock: times are given in milliseconds. */
export class RateLimiter {
  #next = -Infinity;

  /** Whether what comes at `now` is due. */
  isDue(now, perSecond) {
    const interval = 1000 / perSecond;
    if (now < this.#next - interval / 4) return false; // what comes a little early was meant for this beat
    this.#next = Math.max(this.#next + interval, now - interval / 2);
    return true;
  }
}
