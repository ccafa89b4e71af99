/** What one track sends: files with its header, and pings after them. The pong says that the server has read all before the ping. */

import { withHeader } from "./header.js";

const FREE_BYTES = 4096; // so little unsent delays nobody: events, acknowledgements

export class Way {
  #session;
  #connection;
  #track;
  #leave = new AbortController();

  /** `link` is {session, connection}; answered(t, now) is called for each pong, lost() when the connection went. */
  constructor({ session, connection }, track, { answered, lost }) {
    this.#session = session;
    this.#connection = connection;
    this.#track = track;
    const { signal } = this.#leave;
    session.addEventListener("pong", ({ detail }) => answered(detail.t, performance.now()), { signal });
    session.addEventListener("status", ({ detail }) => /reconnecting|ended/.test(detail.phase) && lost(), { signal });
  }

  /** Whether what is sent now leaves this machine's program at once. */
  get free() {
    return this.#connection.unsentBytes <= FREE_BYTES;
  }

  /** Send a JPEG or WAV; false where nobody takes it. */
  send(file) {
    return this.#session.role === "controller" && this.#connection.sendBytes(withHeader(this.#track, file));
  }

  ping(now) {
    return this.#connection.notify("reactor.ping", { t: now });
  }

  end() {
    this.#leave.abort();
  }
}
