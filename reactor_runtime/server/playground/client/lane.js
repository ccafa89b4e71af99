/** The way of a track of pictures to the model, without a queue: there is room for one when it would arrive without waiting for another. */

import { Pace } from "./pace.js";
import { Way } from "./way.js";

const LOOK_MS = 5; // browsers don't tell when a socket has sent

export class Lane {
  #way;
  #pace = new Pace();
  #ended = false;
  #wake = () => {};

  /** `link` is as Way wants it. */
  constructor(link, track) {
    this.#way = new Way(link, track, {
      answered: (sentAt, now) => this.#pace.answered(sentAt, now) && this.look(),
      lost: () => {
        this.#pace.restart();
        this.look();
      },
    });
  }

  /** Wait for room, or for the end. */
  async room() {
    while (!this.#ended && !this.#hasRoom) await this.#change();
  }

  /** See whether there is room now: timers are slow in pages that are hidden. */
  look() {
    this.#wake();
  }

  /** Send a JPEG (Uint8Array); false where nobody takes it. */
  send(file) {
    if (!this.#way.send(file)) return false;
    const now = performance.now();
    if (this.#way.ping(now)) this.#pace.sent(now);
    return true;
  }

  end() {
    this.#ended = true;
    this.#way.end();
    this.look();
  }

  get #hasRoom() {
    return this.#way.free && this.#pace.hasRoom(performance.now());
  }

  #change() {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (!this.#way.free) setTimeout(resolve, LOOK_MS);
    });
  }
}
