/**
 * The time from an input to the first painted frame that shows it: the first whose `applied` is at least the number in the reply.
 * The frame may be painted before the reply arrives, so recent paint times are kept.
 */

import { Median } from "./median.js";

const KEPT_PAINTS = 256;
const KEPT_DELAYS = 9;
const GIVE_UP_MS = 10000;

export class InputDelay {
  #paints = []; // {applied, at}: when each number was first on screen, rising
  #waiting = []; // {n, inputAt}
  #delays = new Median(KEPT_DELAYS);

  /** Event `n`, entered at `inputAt`, was applied. */
  replied(n, inputAt) {
    const paint = this.#paints.find(({ applied }) => applied >= n);
    if (paint) this.#delays.add(paint.at - inputAt);
    else this.#waiting.push({ n, inputAt });
  }

  painted(applied, at) {
    if (applied <= (this.#paints.at(-1)?.applied ?? 0)) return;
    this.#paints.push({ applied, at });
    if (this.#paints.length > KEPT_PAINTS) this.#paints.shift();
    for (const { n, inputAt } of this.#waiting) {
      if (n <= applied && at - inputAt < GIVE_UP_MS) this.#delays.add(at - inputAt);
    }
    this.#waiting = this.#waiting.filter(({ n }) => n > applied);
  }

  /** A new session counts from 1 again. */
  restart() {
    this.#paints = [];
    this.#waiting = [];
  }

  /** Frames are not being painted for a while: what waits would be measured wrong. */
  forgetWaiting() {
    this.#waiting = [];
  }

  get lastMs() {
    return this.#delays.last;
  }

  get medianMs() {
    return this.#delays.value;
  }
}
