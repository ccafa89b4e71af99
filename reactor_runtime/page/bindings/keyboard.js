/**
 * Keys, by their position on the keyboard. A key is held until its keyup event, or until the page no longer receives
 * events.
 */

import { TEXT_FIELDS } from "../browser.js";

// Elements that react to arrows, Space and Enter when they have the focus.
const KEY_ELEMENTS = "button, summary, input, a[href], [tabindex]";
const ELEMENT_KEYS = /^(Arrow|Page|Home|End|Space|Enter|Backspace|Insert|Delete)/;

// While one of them is held and not bound, a key is a shortcut of the browser.
const MODIFIERS = ["Control", "Alt", "Meta"];

const codeOf = ({ code }) => code.replace(/^(Shift|Control|Alt|Meta)(Left|Right)$/, "$1");

export class Keyboard {
  // code → listeners
  #bound = new Map();
  #held = new Set();

  /**
   * Call `changed(down, late)` for each press and release. `late` is true if the key was down already before, so that
   * only a repeated keydown event reports it.
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
    const shortcut = MODIFIERS.some((modifier) => event.getModifierState(modifier) && !this.#bound.has(modifier));
    if (!this.#bound.has(code) || shortcut || event.isComposing || isForElement(event.target, code)) return;
    // The page would scroll, or the browser take it as a shortcut.
    event.preventDefault();
    if (this.#held.has(code)) return;
    this.#held.add(code);
    for (const changed of this.#bound.get(code)) changed(true, event.repeat);
  }

  /** Release a key. While Meta is down, browsers report no keyup of other keys. */
  #up(event) {
    // Alt would open a menu.
    if (this.#held.has(codeOf(event))) event.preventDefault();
    if (event.key === "Meta") this.release();
    this.#release(codeOf(event));
  }

  #release(code) {
    if (!this.#held.delete(code)) return;
    for (const changed of this.#bound.get(code)) changed(false);
  }
}

function isForElement(target, code) {
  if (!(target instanceof Element)) return false;
  return target.closest(TEXT_FIELDS) !== null || (ELEMENT_KEYS.test(code) && target.closest(KEY_ELEMENTS) !== null);
}
