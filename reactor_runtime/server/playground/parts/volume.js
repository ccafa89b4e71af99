/** How loud the sound is: a slider, and a button that silences it and leaves the slider where it is. Remembered. */

import { el } from "../dom.js";
import { recall, remember } from "./memory.js";

export class Volume {
  #speaker;
  #slider = el("input", { type: "range", min: 0, max: 100, "aria-label": "Volume", oninput: () => this.#set(false) });
  #mute = el("button", { type: "button", class: "quiet", onclick: () => this.#set(!this.#muted) }, "Mute");

  constructor(speaker) {
    this.#speaker = speaker;
    this.root = el("span", { class: "volume", role: "group", "aria-label": "Sound", hidden: true }, this.#slider, this.#mute);
    const { percent = 100, muted = false } = recall("volume");
    this.#slider.value = percent;
    this.#set(muted);
  }

  get #muted() {
    return this.#mute.ariaPressed === "true";
  }

  /** Squared: what the ear calls half is far less than half. */
  #set(muted) {
    const percent = Number(this.#slider.value);
    this.#mute.ariaPressed = String(muted);
    this.#slider.style.setProperty("--fill", `${percent}%`);
    this.root.toggleAttribute("data-muted", muted);
    this.#speaker.volume = muted ? 0 : (percent / 100) ** 2;
    remember("volume", { percent, muted });
  }
}
