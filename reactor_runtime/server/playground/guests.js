/** Parts that only some models need, each for as long as a session of such a model that the visitor controls. */

const KNOWN = [
  {
    load: () => import("./parts/bindings.js"),
    isNeeded: ({ schema }) => JSON.stringify(schema.events).includes('"x-reactor-bind"'),
  },
];

export class Guests {
  #stage;
  #send;
  #here = [];
  #session = null; // the data of reactor.welcome

  /** `stage` is the element around the picture; `send(event, data, inputAt)` gives a promise of the reply. */
  constructor(stage, send) {
    this.#stage = stage;
    this.#send = send;
  }

  /** A session begins; each part it needs gets {send, session, stage} and gives {follow, detach}. */
  async invite(session) {
    this.leave();
    if (session.role !== "controller") return;
    this.#session = session;
    for (const { load } of KNOWN.filter(({ isNeeded }) => isNeeded(session))) {
      const { attach } = await load();
      if (this.#session !== session) return;
      this.#here.push(attach({ send: this.#send, session, stage: this.#stage }));
    }
  }

  /** Pass on what changed of the model's state. */
  follow(changes) {
    if (this.#session) Object.assign(this.#session.state, changes);
    for (const part of this.#here) part.follow(changes);
  }

  leave() {
    this.#session = null;
    for (const part of this.#here.splice(0)) part.detach();
  }
}
