/** Shows what is bound over the frame: keys as caps where they are on the keyboard, events as buttons, the rest as text. */

import { el, humanise, setText } from "../dom.js";

const KEY_NAMES = {
  Space: "space",
  Enter: "enter",
  Shift: "shift",
  Control: "ctrl",
  Alt: "alt",
  Meta: "meta",
  Backspace: "⌫",
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  PageUp: "page up",
  PageDown: "page down",
  Home: "home",
  End: "end",
  Insert: "insert",
  Delete: "delete",
  Minus: "-",
  Equal: "=",
  BracketLeft: "[",
  BracketRight: "]",
  Backslash: "\\",
  Semicolon: ";",
  Quote: "'",
  Backquote: "`",
  Comma: ",",
  Period: ".",
  Slash: "/",
};
const MOUSE = { pointer: "press", tap: "click", look: "mouse", wheel: "wheel" };
const FINGER = { pointer: "touch", tap: "tap", look: "drag" };
// A key lights up from this share of the way to its end, which matters for sticks.
const LIT = 0.3;
// Rows of the keyboard below each other; a W is above its S, as in the usual drawings.
const ROWS = ["1234567890", "QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM"];
const ARROWS = { ArrowUp: [1, 2], ArrowLeft: [2, 1], ArrowDown: [2, 2], ArrowRight: [2, 3] };

export class Legend {
  root;
  #targets;
  #list = el("ul", { class: "unseen", role: "list", "aria-label": "Keys, mouse and gamepad" });
  #drawn = el("div", { class: "caps", "aria-hidden": "true" });
  #events = el("div", { class: "pills", role: "group", "aria-label": "Events with a key" });
  #padStatus = el("span", { class: "plate", role: "status" });
  #hint = el("p", { class: "legend-hint plate" });
  // The characters printed on the keys, in browsers that report them.
  #printed = null;
  #shown = { pad: false, fingers: false, touched: false };
  // code → elements
  #caps = new Map();
  // source → codes
  #lit = new Map();

  constructor(targets) {
    this.#targets = targets;
    this.root = el("div", { class: "legend" }, this.#hint, this.#list, this.#drawn, this.#padStatus, this.#events);
    this.#draw();
    this.#learn();
  }

  show({ pad, fingers, touched, hint, locked }) {
    this.root.toggleAttribute("data-locked", locked);
    setText(this.#padStatus, pad ? "gamepad connected" : "");
    setText(this.#hint, fingers ? "" : hint);
    const shown = { pad, fingers, touched };
    if (JSON.stringify(shown) === JSON.stringify(this.#shown)) return;
    this.#shown = shown;
    this.#draw();
  }

  /** Light the keys of a source that is held, `part` from rest; those that stand for it if it is no key. */
  light(target, source, part) {
    const isKey = ({ kind }) => kind === "key" || kind === "keys";
    const keys = isKey(source) ? source : target.sources.find(isKey);
    const codes = keys && Array.isArray(part) ? codesAt(keys, part) : [];
    if (String(codes) === String(this.#lit.get(source) ?? [])) return;
    if (codes.length) this.#lit.set(source, codes);
    else this.#lit.delete(source);
    this.#showLit();
    // A gamepad and sticks make no event that shows what has faded.
    this.root.dispatchEvent(new Event("activity"));
  }

  #showLit() {
    const lit = new Set([...this.#lit.values()].flat());
    for (const [code, elements] of this.#caps)
      for (const element of elements) element.toggleAttribute("data-held", lit.has(code));
  }

  async #learn() {
    try {
      this.#printed = await navigator.keyboard?.getLayoutMap();
    } catch (error) {
      // Not allowed in this frame: an English keyboard is shown.
      console.debug(error);
    }
    if (this.#printed) this.#draw();
  }

  #draw() {
    const { fingers, touched } = this.#shown;
    this.#caps.clear();
    this.#list.replaceChildren(...this.#targets.map((target) => this.#item(target)).filter(Boolean));
    const values = this.#targets.filter(({ set }) => set);
    const blocks = fingers ? [] : [this.#block(values, placeOnRows), this.#block(values, (code) => ARROWS[code])];
    const others = this.#targets.map((target) => this.#other(target)).filter(Boolean);
    this.#drawn.replaceChildren(...blocks.filter(Boolean), ...others);
    this.#events.replaceChildren(...(touched ? [] : this.#targets.flatMap((target) => this.#pill(target))));
    this.#showLit();
  }

  /** Draw the keys of these targets that have a place, and below them what the axes do; nothing without any. */
  #block(targets, placeOf) {
    const caps = new Map();
    const captions = new Set();
    for (const target of targets) {
      for (const { kind, key, keys = [key] } of target.sources) {
        if (!/^keys?$/.test(kind)) continue;
        for (const code of keys.filter(placeOf)) {
          const name = kind === "key" ? el("small", {}, labelOf(target)) : null;
          if (name) caps.set(code, this.#cap(code, name));
          else caps.set(code, caps.get(code) ?? this.#cap(code));
          if (!name) captions.add(labelOf(target));
        }
      }
    }
    for (const [code, cap] of caps) cap.style.gridArea = placeOf(code).join(" / ");
    const caption = captions.size ? el("figcaption", { class: "plate" }, [...captions].join(" · ")) : null;
    return caps.size ? el("figure", {}, el("div", {}, ...caps.values()), caption) : null;
  }

  #cap(code, name = null, style = "plate") {
    const cap = el("kbd", { class: style, "data-key": code }, this.#label(code), name);
    this.#caps.set(code, [...(this.#caps.get(code) ?? []), cap]);
    return cap;
  }

  /** Describe the sources of a target that are neither keys with a place nor those of a button. */
  #other(target) {
    const hasPlace = (code) => placeOnRows(code) || ARROWS[code];
    const isDrawn = ({ kind, key, keys = [key] }) =>
      /^keys?$/.test(kind) && (target.press !== undefined || keys.every(hasPlace));
    const labels = target.sources.filter((source) => !isDrawn(source)).flatMap((source) => this.#labels(source));
    const keys = labels.flatMap((label, i) => [i ? " " : "", el("kbd", {}, label)]);
    return labels.length ? el("span", { class: "plate" }, ...keys, ` ${labelOf(target)}`) : null;
  }

  /** Make the button of an event that has keys. */
  #pill(target) {
    const keys = target.sources.filter(({ kind }) => kind === "key");
    if (!target.press || !keys.length) return [];
    const caps = keys.map(({ key }) => this.#cap(key, null, ""));
    const name = target.label ?? humanise(target.name);
    const onclick = () => target.press();
    // A mouse leaves the focus where it is, or the button would take its own key from the model.
    const onmousedown = (event) => event.preventDefault();
    const attributes = { type: "button", class: "pill plate", "aria-label": name, onclick, onmousedown };
    return [el("button", attributes, name, ...caps)];
  }

  #item({ label, name, sources }) {
    const parts = sources.map((source) => this.#labels(source)).filter((labels) => labels.length);
    if (!parts.length) return null;
    const keys = parts.map((labels, i) => [
      i ? " or " : "",
      ...labels.flatMap((label, j) => [j ? " " : "", el("kbd", {}, label)]),
    ]);
    return el("li", {}, ...keys.flat(), ` ${labelOf({ label, name })}`);
  }

  #labels({ kind, key, keys, button, stick, hover }) {
    const { pad, fingers } = this.#shown;
    if (kind === "button") return pad ? [button.length > 1 ? button : button.toUpperCase()] : [];
    if (kind === "stick") return pad ? [stick === "dpad" ? "d-pad" : `${stick} stick`] : [];
    if (fingers) return FINGER[kind] ? [FINGER[kind]] : [];
    if (kind === "key") return [this.#label(key)];
    if (kind === "keys") return inOrder(keys).map((code) => this.#label(code));
    return MOUSE[kind] ? [hover ? "mouse" : MOUSE[kind]] : [];
  }

  #label(code) {
    return KEY_NAMES[code] ?? this.#printed?.get(code)?.toUpperCase() ?? code.replace(/^(Key|Digit)/, "");
  }
}

const labelOf = ({ label, name }) => label ?? humanise(name).toLowerCase();

/** Return the row and the column of a key; Shift is left of the letters, Ctrl below it and Space below them. */
function placeOnRows(code) {
  if (code === "Shift") return [4, 1];
  if (code === "Control") return [5, 1];
  if (code === "Space") return [5, 2, "span 1", "span 9"];
  const character = /^(?:Key|Digit)(.)$/.exec(code)?.[1];
  const row = character ? ROWS.findIndex((each) => each.includes(character)) : -1;
  return row < 0 ? null : [row + 1, ROWS[row].indexOf(character) + 2];
}

/** Return the keys of a source that lead from rest to x and y. */
function codesAt({ kind, key, keys }, part) {
  const [x, y] = part;
  if (kind === "key") return x > LIT ? [key] : [];
  const [less, more, down, up] = keys;
  const pairs = [
    [less, -x],
    [more, x],
    [down, -y],
    [up, y],
  ];
  return pairs.filter(([code, share]) => code && share > LIT).map(([code]) => code);
}

/** Return keys in the usual order: W A S D instead of A D S W, W S instead of S W. */
function inOrder(keys) {
  const [less, more, down, up] = keys;
  if (keys.length === 4) return [up, less, down, more];
  return /^(KeyW|ArrowUp|PageUp|Home)$/.test(more) ? [more, less] : keys;
}
