/** Limits a rate, evenly. Reads no clock: times are arguments, in milliseconds. */
export class RateLimiter {
  #next = -Infinity;

  /** Return whether an item at `now` is due. */
  isDue(now, perSecond) {
    const interval = 1000 / perSecond;
    // A slightly early item belongs to this interval.
    if (now < this.#next - interval / 4) return false;
    this.#next = Math.max(this.#next + interval, now - interval / 2);
    return true;
  }
}
