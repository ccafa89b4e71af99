/** Keys, gamepad, mouse and fingers that a model's author has bound: there for as long as a session that the visitor controls. */

export class Bound {
  #stage;
  #send;
  #here = null; // what attach() gave
  #session = null; // the data of reactor.welcome

  /** `stage` is the element around the picture; `send(event, data, inputAt)` gives a promise of the reply. */
  constructor(stage, send) {
    this.#stage = stage;
    this.#send = send;
  }

  /** A session begins; what listens to devices is loaded for the first model that has bound any. */
  async begin(session) {
    this.leave();
    if (session.role !== "controller" || !JSON.stringify(session.schema.events).includes('"x-reactor-bind"')) return;
    this.#session = session;
    const { attach } = await import("./parts/bindings.js");
    if (this.#session === session) this.#here = attach({ send: this.#send, session, stage: this.#stage });
  }

  /** Pass on what changed of the model's state. */
  follow(changes) {
    if (this.#session) Object.assign(this.#session.state, changes);
    this.#here?.follow(changes);
  }

  leave() {
    this.#session = null;
    this.#here?.detach();
    this.#here = null;
  }
}
