/** Says under the picture what does what, in the words of the keyboard that is there. */

import { el, humanise, setText } from "../../dom.js";

const WORDS = {
  Space: "space", Enter: "enter", Shift: "shift", Backspace: "⌫", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→",
  PageUp: "page up", PageDown: "page down", Home: "home", End: "end", Insert: "insert", Delete: "delete", Minus: "-", Equal: "=",
  BracketLeft: "[", BracketRight: "]", Backslash: "\\", Semicolon: ";", Quote: "'", Backquote: "`", Comma: ",", Period: ".", Slash: "/",
};
const MOUSE = { pointer: "press", tap: "click", look: "mouse", wheel: "wheel" };
const FINGER = { pointer: "touch", tap: "tap", look: "drag" };

export class Legend {
  root;
  #targets;
  #list = el("ul", { role: "list", "aria-label": "Keys, mouse and gamepad" });
  #said = el("span", { role: "status" });
  #hint = el("p", { class: "legend-hint" });
  #printed = null; // what is printed on the keys, where the browser tells
  #shown = { pad: false, fingers: false };

  constructor(targets) {
    this.#targets = targets;
    this.root = el("div", { class: "legend" }, this.#hint, el("div", { class: "legend-line" }, this.#list, this.#said));
    this.#draw();
    this.#learn();
  }

  show({ pad, fingers, hint, locked }) {
    this.root.toggleAttribute("data-locked", locked);
    setText(this.#said, pad ? "gamepad connected" : "");
    setText(this.#hint, fingers ? "" : hint);
    if (pad === this.#shown.pad && fingers === this.#shown.fingers) return;
    this.#shown = { pad, fingers };
    this.#draw();
  }

  async #learn() {
    try {
      this.#printed = await navigator.keyboard?.getLayoutMap();
    } catch (error) {
      console.debug(error); // in a frame that may not know; an English keyboard is shown
    }
    if (this.#printed) this.#draw();
  }

  #draw() {
    this.#list.replaceChildren(...this.#targets.map((target) => this.#item(target)).filter(Boolean));
  }

  #item({ name, sources }) {
    const ways = sources.map((source) => this.#words(source)).filter((words) => words.length);
    if (!ways.length) return null;
    const keys = ways.map((words, i) => [i ? " or " : "", ...words.flatMap((word, j) => [j ? " " : "", el("kbd", {}, word)])]);
    return el("li", {}, ...keys.flat(), ` ${humanise(name).toLowerCase()}`);
  }

  #words({ kind, key, keys, button, stick, hover }) {
    const { pad, fingers } = this.#shown;
    if (kind === "button") return pad ? [button.length > 1 ? button : button.toUpperCase()] : [];
    if (kind === "stick") return pad ? [stick === "dpad" ? "d-pad" : `${stick} stick`] : [];
    if (fingers) return FINGER[kind] ? [FINGER[kind]] : [];
    if (kind === "key") return [this.#label(key)];
    if (kind === "keys") return inOrder(keys).map((code) => this.#label(code));
    return MOUSE[kind] ? [hover ? "mouse" : MOUSE[kind]] : [];
  }

  #label(code) {
    return WORDS[code] ?? this.#printed?.get(code)?.toUpperCase() ?? code.replace(/^(Key|Digit)/, "");
  }
}

/** As people say them: W A S D and not A D S W, W S and not S W. */
function inOrder(keys) {
  const [less, more, down, up] = keys;
  if (keys.length === 4) return [up, less, down, more];
  return /^(KeyW|ArrowUp|PageUp|Home)$/.test(more) ? [more, less] : keys;
}
