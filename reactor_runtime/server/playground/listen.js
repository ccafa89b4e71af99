/** The button that turns sound on and off: says which, shows that there is something to hear, or why it can't be heard. */

import { setText } from "./dom.js";

const FALL_PER_PIECE = 0.8;

export class ListenButton {
  #button;
  #sound;
  #level = 0;

  /** `failed(error)` is told why there can be no sound. */
  constructor(button, session, failed) {
    const { sound } = session;
    this.#button = button;
    this.#sound = sound;
    session.addEventListener("listening", () => this.show());
    session.addEventListener("sound", ({ detail }) => this.hear(detail));
    button.onclick = async () => {
      try {
        await (sound.on ? sound.stop() : sound.start());
        this.show();
      } catch (error) {
        this.#say("impossible", error.message);
        failed(error);
      }
    };
    this.show();
  }

  set available(available) {
    this.#button.hidden = !available;
  }

  show() {
    const [is, other] = this.#sound.on ? ["on", "off"] : ["off", "on"];
    this.#button.ariaChecked = is === "on";
    this.#say(is, `Turn the sound ${other}`);
  }

  /** Let the bars of the button follow what comes, heard or not. */
  hear({ samples }) {
    let peak = 0;
    for (const sample of samples) peak = Math.max(peak, Math.abs(sample) / 32768);
    this.#level = Math.max(Math.sqrt(peak), this.#level * FALL_PER_PIECE);
    this.#button.style.setProperty("--level", this.#level.toFixed(2));
  }

  #say(state, title) {
    setText(this.#button.querySelector("[data-state]"), state);
    this.#button.title = title;
  }
}
