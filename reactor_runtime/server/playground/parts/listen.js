/** The button that turns sound on and off: says which, shows that there is something to hear, or why it can't be heard. */

import { setText } from "../dom.js";
import { style } from "./style.js";
import { Volume } from "./volume.js";
import { secureWays } from "./words.js";

const FALL_PER_PIECE = 0.8;

export class ListenButton {
  #button;
  #speaker;
  #volume;
  #level = 0;

  /** `failed(words)` is told why there can be no sound. */
  constructor(button, session, failed) {
    const { speaker } = session;
    this.#button = button;
    this.#speaker = speaker;
    this.#volume = new Volume(speaker);
    button.after(this.#volume.root);
    session.addEventListener("listening", () => this.show());
    session.addEventListener("sound", ({ detail }) => this.hear(detail));
    button.onclick = async () => {
      try {
        if (!speaker.on) this.#say("starting", "The browser opens a loudspeaker; where there is none, some wait for one");
        await (speaker.on ? speaker.stop() : speaker.start());
        this.show();
      } catch (error) {
        const words = window.isSecureContext ? error.message : `${error.message}. ${secureWays()}`;
        this.#say("impossible", words);
        failed(words);
      }
    };
    this.show();
  }

  /** The button, once it looks like one. */
  static async make(...given) {
    await style("listen.css");
    return new ListenButton(...given);
  }

  set available(available) {
    this.#button.hidden = !available;
    this.show();
  }

  show() {
    this.#button.ariaChecked = this.#speaker.on;
    this.#volume.root.hidden = this.#button.hidden || !this.#speaker.on;
    if (this.#speaker.on) this.#say("on", "Turn the sound off");
    else this.#say("off", "Turn the sound on");
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
