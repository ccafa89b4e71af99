/**
 * The time from an input to the first painted frame that shows it: the first whose `applied` is at least the number in
 * the reply. The frame may be painted before the reply arrives, so recent paint times are kept.
 */

import { Median } from "./median.js";

const KEPT_PAINTS = 256;
const KEPT_DELAYS = 9;
const GIVE_UP_MS = 10000;

export class InputDelay {
  /** In milliseconds. */
  delays = new Median(KEPT_DELAYS);
  // {applied, at}: when each number was first painted, rising
  #paints = [];
  // {n, inputAt}
  #waiting = [];

  /** Record that event `n`, entered at `inputAt`, was applied. */
  replied(n, inputAt) {
    const paint = this.#paints.find(({ applied }) => applied >= n);
    if (paint) this.delays.add(paint.at - inputAt);
    else this.#waiting.push({ n, inputAt });
  }

  painted(applied, at) {
    if (applied <= (this.#paints.at(-1)?.applied ?? 0)) return;
    this.#paints.push({ applied, at });
    if (this.#paints.length > KEPT_PAINTS) this.#paints.shift();
    for (const { n, inputAt } of this.#waiting) {
      if (n <= applied && at - inputAt < GIVE_UP_MS) this.delays.add(at - inputAt);
    }
    this.#waiting = this.#waiting.filter(({ n }) => n > applied);
  }

  /** Start a session, which counts from 1 again. */
  restart() {
    this.#paints = [];
    this.#waiting = [];
  }

  /** Drop waiting inputs: during a pause of painting they would be measured wrong. */
  forgetWaiting() {
    this.#waiting = [];
  }
}
