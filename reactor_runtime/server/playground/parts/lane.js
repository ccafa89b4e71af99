/**
 * The way of one track to the model, without a queue: after a file goes a ping, and its pong says that the server has read both.
 * All that the parts need of the connection while they send is in here.
 */

import { Pace } from "./pace.js";

export class Lane {
  #session;
  #publish;
  #publisher;
  #every;
  #pace = new Pace();
  #count = 0;
  #leave = new AbortController();

  /**
   * Every so many files are followed by a ping; `room()` is called when there may be room for another. `publisher` is the session's.
   */
  constructor({ session, publisher }, track, { every = 1, room = () => {} } = {}) {
    this.#session = session;
    this.#publisher = publisher;
    this.#publish = (file) => session.role === "controller" && publisher.publish(track, file);
    this.#every = every;
    const { signal } = this.#leave;
    session.addEventListener("pong", ({ detail }) => this.#pace.answered(detail.t, performance.now()) && room(), { signal });
    session.addEventListener("status", ({ detail }) => detail.phase === "closed" && this.#pace.restart(), { signal });
  }

  /** Whether a file would go at once, and nothing before it is to be waited for. */
  get hasRoom() {
    return this.#publisher.free && this.#pace.hasRoom(performance.now());
  }

  /** How many pings have no answer yet. */
  get behind() {
    return this.#pace.onTheWay;
  }

  /** Send a JPEG or WAV; false where nobody takes it. */
  publish(file) {
    if (!this.#publish(file)) return false;
    const now = performance.now();
    if (this.#count++ % this.#every === 0 && this.#session.notify("reactor.ping", { t: now })) this.#pace.sent(now);
    return true;
  }

  end() {
    this.#leave.abort();
  }
}
