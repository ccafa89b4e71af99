/** The button that turns sound on and off, with a level meter, and the volume slider. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { el, setText } from "./dom.js";
import { secureAddressHint } from "./inputs/devices.js";
import { recall, remember } from "./storage.js";

const FALL_PER_PIECE = 0.8;

export class SoundButton {
  #button;
  #speaker;
  #volume;
  #level = 0;

  /**
   * `onError(text)` reports why there can be no sound.
   * @param {HTMLElement} button
   * @param {Session} session
   * @param {(text: string) => void} onError
   */
  constructor(button, session, onError) {
    const { speaker } = session;
    this.#button = button;
    this.#speaker = speaker;
    this.#volume = new Volume(speaker);
    button.after(this.#volume.root);
    session.addEventListener("listening", () => this.show());
    session.addEventListener("sound", ({ detail }) => this.showLevel(detail));
    button.onclick = async () => {
      try {
        if (!speaker.on)
          this.#showState("starting", "The browser opens a loudspeaker; some browsers wait until there is one");
        await (speaker.on ? speaker.stop() : speaker.start());
        this.show();
      } catch (error) {
        const text = window.isSecureContext ? error.message : `${error.message}. ${secureAddressHint()}`;
        this.#showState("impossible", text);
        onError(text);
      }
    };
    this.show();
  }

  /** Load the style sheet, then make the button. */
  static async make(button, session, onError) {
    await loadStyle(new URL("sound.css", import.meta.url));
    return new SoundButton(button, session, onError);
  }

  set available(available) {
    this.#button.hidden = !available;
    this.show();
  }

  show() {
    this.#button.ariaChecked = String(this.#speaker.on);
    this.#volume.root.hidden = this.#button.hidden || !this.#speaker.on;
    if (this.#speaker.on) this.#showState("on", "Turn the sound off");
    else this.#showState("off", "Turn the sound on");
  }

  /** Show the level of received sound in the button, also while it is off. */
  showLevel({ samples }) {
    let peak = 0;
    for (const sample of samples) peak = Math.max(peak, Math.abs(sample) / 32768);
    this.#level = Math.max(Math.sqrt(peak), this.#level * FALL_PER_PIECE);
    this.#button.style.setProperty("--level", this.#level.toFixed(2));
  }

  #showState(state, title) {
    setText(this.#button.querySelector("[data-state]"), state);
    this.#button.title = title;
  }
}

class Volume {
  #speaker;
  #slider = el("input", { type: "range", min: 0, max: 100, "aria-label": "Volume", oninput: () => this.#set(false) });
  #mute = el("button", { type: "button", class: "quiet", onclick: () => this.#set(!this.#muted) }, "Mute");

  constructor(speaker) {
    this.#speaker = speaker;
    this.root = el(
      "span",
      { class: "volume", role: "group", "aria-label": "Sound", hidden: true },
      this.#slider,
      this.#mute,
    );
    const { percent = 100, muted = false } = recall("volume");
    this.#slider.value = percent;
    this.#set(muted);
  }

  get #muted() {
    return this.#mute.ariaPressed === "true";
  }

  /** The square makes half the slider sound half as loud. */
  #set(muted) {
    const percent = Number(this.#slider.value);
    this.#mute.ariaPressed = String(muted);
    this.#slider.style.setProperty("--fill", `${percent}%`);
    this.root.toggleAttribute("data-muted", muted);
    this.#speaker.volume = muted ? 0 : (percent / 100) ** 2;
    remember("volume", { percent, muted });
  }
}
