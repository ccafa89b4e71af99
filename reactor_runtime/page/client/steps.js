/** The steps of a stepped session: collects what arrives while requests have no answer, and returns it with theirs. */

import { filesOf } from "./publish/step_media.js";

export class Steps {
  #session;
  #connection;
  #requests = 0;
  // {header, file} of frames, {header, …} of sound
  #media = [];
  #messages = [];
  // The request before has been sent.
  /** @type {Promise<unknown>} */
  #sent = Promise.resolve();

  constructor(session, connection) {
    this.#session = session;
    this.#connection = connection;
    session.addEventListener("encoded", ({ detail: { header, bytes } }) => this.#add(this.#media, { header, bytes }));
    session.addEventListener("sound", ({ detail }) => this.#add(this.#media, { header: detail, sound: detail }));
    session.addEventListener("message", ({ detail }) => this.#add(this.#messages, detail));
  }

  async request(given) {
    const { n, state, commands, media = {}, reset, seed } = given ?? {};
    this.#requests += 1;
    try {
      const files = filesOf(this.#session, media);
      // Reading a Blob takes a while, and requests are handled in order.
      const before = this.#sent;
      this.#sent = Promise.allSettled([files, before]);
      await before;
      const named = commands?.map(([command, data]) => ({ command, data }));
      const counts = Object.fromEntries(Object.entries(media).map(([track, { length }]) => [track, length]));
      for (const file of await files) this.#connection.sendBytes(file);
      const inputs = { n, state, commands: named, media: counts, reset, seed };
      return await this.#connection.send("reactor.step", inputs, (made) => this.#take(made));
    } finally {
      this.#requests -= 1;
      if (!this.#requests) this.#media.length = this.#messages.length = 0;
    }
  }

  #add(list, item) {
    if (this.#requests) list.push(item);
  }

  /** Return the result of an answer; later requests have the rest. */
  #take({ step, steps, elapsed_s: elapsedS, frames: ranges }) {
    const isMade = ({ header: { track, seq } }) => {
      const { first, count } = ranges[track] ?? { first: 0, count: 0 };
      return seq >= first && seq < first + count;
    };
    const made = this.#media.filter(isMade);
    this.#media = this.#media.filter((each) => !isMade(each));
    const frames = made
      .filter(({ bytes }) => bytes)
      .map(({ header, bytes }) => ({ ...header, jpeg: new Uint8Array(bytes), bitmap: null }));
    const sound = made.flatMap(({ sound }) => sound ?? []);
    return { step, steps, elapsedS, frames, sound, messages: this.#messages.splice(0), state: this.#session.state };
  }
}
