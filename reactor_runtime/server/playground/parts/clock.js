/** The server's wall clock by this page's: from the pong of the last minute that took the least time there and back. */

const KEPT_MS = 60000; // clocks drift, and wall clocks are put right
const MOST_KEPT = 64;

export class Clock {
  #best = []; // {at, rttMs, offsetMs}: each took longer than the one before it, and is there for when that is too old

  /** A pong that came at `now` for the ping of `sentAt`. */
  heard(sentAt, serverUs, now) {
    const rttMs = now - sentAt;
    if (!(rttMs >= 0) || !Number.isFinite(serverUs)) return;
    while (this.#best.length && this.#best.at(-1).rttMs >= rttMs) this.#best.pop();
    this.#best.push({ at: now, rttMs, offsetMs: serverUs / 1000 - (sentAt + rttMs / 2) });
    while (now - this.#best[0].at > KEPT_MS || this.#best.length > MOST_KEPT) this.#best.shift();
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
