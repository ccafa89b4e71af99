/**
 * Keys, by their position on the keyboard. A key is held until its keyup event, or until the page no longer receives
 * events.
 */

import { TEXT_FIELDS } from "../browser.js";

// Elements that react to arrows, Space and Enter when they have the focus.
const OWN = "button, summary, input, a[href], [tabindex]";
const MOVING = /^(Arrow|Page|Home|End|Space|Enter|Backspace|Insert|Delete)/;

const codeOf = ({ code }) => code.replace(/^(Shift)(Left|Right)$/, "$1");

export class Keyboard {
  // code → listeners
  #bound = new Map();
  #held = new Set();

  /**
   * Call `changed(down, late)` for each press and release; `late` for a key that was already down, which only its
   * repetition shows.
   */
  on(code, changed) {
    this.#bound.set(code, [...(this.#bound.get(code) ?? []), changed]);
  }

  listen(signal) {
    if (!this.#bound.size) return;
    window.addEventListener("keydown", (event) => this.#down(event), { signal });
    window.addEventListener("keyup", (event) => this.#up(event), { signal });
    const onFocus = (/** @type {any} */ { target }) => target.matches(TEXT_FIELDS) && this.release();
    document.addEventListener("focusin", onFocus, { signal });
  }

  release() {
    for (const code of [...this.#held]) this.#release(code);
  }

  #down(event) {
    const code = codeOf(event);
    const shortcut = event.ctrlKey || event.altKey || event.metaKey || event.isComposing;
    if (!this.#bound.has(code) || shortcut || keptBy(event.target, code)) return;
    // Do not scroll.
    event.preventDefault();
    if (this.#held.has(code)) return;
    this.#held.add(code);
    for (const changed of this.#bound.get(code)) changed(true, event.repeat);
  }

  /** Release a key. While Meta is down, browsers report no keyup of other keys. */
  #up(event) {
    if (event.key === "Meta") this.release();
    this.#release(codeOf(event));
  }

  #release(code) {
    if (!this.#held.delete(code)) return;
    for (const changed of this.#bound.get(code)) changed(false);
  }
}

function keptBy(target, code) {
  if (!(target instanceof Element)) return false;
  return target.closest(TEXT_FIELDS) !== null || (MOVING.test(code) && target.closest(OWN) !== null);
}
