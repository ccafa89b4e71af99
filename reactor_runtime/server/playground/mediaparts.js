/** The button of sound and the panels of cameras and microphones: brought by the first model that has use for them, and kept. */

import { byId } from "./dom.js";

export class MediaParts {
  #session;
  #log;
  #here = {}; // name → promise of the part, undefined where it could not be loaded

  constructor(session, log) {
    this.#session = session;
    this.#log = log;
  }

  /** A session begins. */
  async restart() {
    const session = this.#session;
    const hasSound = session.speaker.tracks.length > 0;
    const inputs = session.role === "controller" ? session.tracks.filter(({ direction }) => direction === "in") : [];
    const failed = (words) => this.#log.add("error", `No sound: ${words}`);
    if (hasSound) this.#bring("listen", async () => (await import("./parts/listen.js")).ListenButton.make(byId("listen"), session, failed));
    if (inputs.length) this.#bring("inputs", async () => (await import("./parts/camera.js")).attach({ session, stage: byId("side") }));
    (await this.#here.inputs)?.offer(inputs);
    const listen = await this.#here.listen;
    if (listen) listen.available = hasSound;
  }

  /** Once; what can't be loaded is tried again with the next session. */
  #bring(name, load) {
    this.#here[name] ??= load().catch(({ message }) => {
      delete this.#here[name];
      this.#log.add("error", `A part of the page can't be loaded: ${message}`);
    });
  }
}
