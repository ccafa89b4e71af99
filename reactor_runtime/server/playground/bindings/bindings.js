/** Binds keys, gamepad, mouse and fingers as the author declared it; loaded when a schema has x-reactor-bind. */

import { loadStyle } from "../browser.js";
import { el, humanise, setText } from "../dom.js";
import { Gamepad } from "./gamepad.js";
import { Keyboard } from "./keyboard.js";
import { Pointer } from "./pointer.js";
import { readTargets } from "./targets.js";
import { Touch } from "./touch.js";

await loadStyle(new URL("bindings.css", import.meta.url));

// stage → {session, names}: values that were held when the connection broke. A resumed session still has them.
const unreleased = new WeakMap();

/**
 * Bind what the session's schema declares. `session` is the data of reactor.welcome, `stage` the element around the
 * canvases, `send(event, data, inputAt)` returns a promise of the reply. Return {follow, detach}: follow(changes) takes
 * reactor.state.
 */
export function attach({ send, session, stage }) {
  const targets = readTargets(session.schema.events, send);
  const over = new AbortController();
  const keyboard = new Keyboard();
  const gamepad = new Gamepad(() => show());
  const pointer = new Pointer(stage, () => show());
  const touch = new Touch(targets);
  const legend = new Legend(targets);
  const coarse = matchMedia("(pointer: coarse)");
  const show = () => {
    const { hint, locked } = pointer;
    legend.show({ pad: gamepad.connected, fingers: !touch.root.hidden || coarse.matches, hint, locked });
  };
  const follow = (changes) =>
    targets.forEach((target) => Object.hasOwn(changes, target.field) && target.follow(changes[target.field]));
  const release = () => [keyboard, pointer, touch, ...targets].forEach((part) => part.release());
  const on = (target, name, listener) => target.addEventListener(name, listener, { signal: over.signal });
  const showTouch = (needed) => {
    touch.root.hidden = !needed || touch.empty;
    show();
  };

  for (const target of targets) {
    for (const source of target.sources) bind(source, target, { keyboard, gamepad, pointer });
  }
  for (const device of [keyboard, gamepad, pointer]) device.listen(over.signal);
  on(window, "blur", () => {
    gamepad.away = true;
    release();
  });
  on(window, "focus", () => (gamepad.away = false));
  on(document, "visibilitychange", () => document.hidden && release());
  on(coarse, "change", () => showTouch(coarse.matches));
  on(stage, "pointerdown", ({ pointerType }) => pointerType === "touch" && showTouch(true));
  follow(session.state ?? {});
  const before = unreleased.get(stage);
  const resumed = before?.session === session.session;
  for (const target of targets) if (resumed && before.names.includes(target.name)) target.rest();
  stage.append(touch.root, legend.root);
  showTouch(coarse.matches);

  const detach = () => {
    unreleased.set(stage, {
      session: session.session,
      names: targets.filter((target) => target.unreleased).map(({ name }) => name),
    });
    over.abort();
    touch.root.remove();
    legend.root.remove();
  };
  return { follow, detach };
}

function bind(source, target, { keyboard, gamepad, pointer }) {
  const { kind } = source;
  if (kind === "key") {
    keyboard.on(source.key, (down, late) => {
      if (target.set) target.set(source, down ? [1, 0] : null);
      else if (down && !late) target.press();
    });
  } else if (kind === "keys") {
    const held = source.keys.map(() => 0);
    source.keys.forEach((code, i) =>
      keyboard.on(code, (down) => {
        held[i] = Number(down);
        const [less, more, below = 0, above = 0] = held;
        target.set(source, held.some(Boolean) ? [more - less, above - below] : null);
      }),
    );
  } else if (kind === "button" || kind === "stick") gamepad.on(source, target);
  else if (["pointer", "tap", "look", "wheel"].includes(kind)) pointer.on(source, target);
}

const KEY_NAMES = {
  Space: "space",
  Enter: "enter",
  Shift: "shift",
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

class Legend {
  root;
  #targets;
  #list = el("ul", { role: "list", "aria-label": "Keys, mouse and gamepad" });
  #padStatus = el("span", { role: "status" });
  #hint = el("p", { class: "legend-hint" });
  // The characters printed on the keys, in browsers that report them.
  #printed = null;
  #shown = { pad: false, fingers: false };

  constructor(targets) {
    this.#targets = targets;
    this.root = el(
      "div",
      { class: "legend" },
      this.#hint,
      el("div", { class: "legend-line" }, this.#list, this.#padStatus),
    );
    this.#draw();
    this.#learn();
  }

  show({ pad, fingers, hint, locked }) {
    this.root.toggleAttribute("data-locked", locked);
    setText(this.#padStatus, pad ? "gamepad connected" : "");
    setText(this.#hint, fingers ? "" : hint);
    if (pad === this.#shown.pad && fingers === this.#shown.fingers) return;
    this.#shown = { pad, fingers };
    this.#draw();
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
    this.#list.replaceChildren(...this.#targets.map((target) => this.#item(target)).filter(Boolean));
  }

  #item({ label, name, sources }) {
    const parts = sources.map((source) => this.#labels(source)).filter((labels) => labels.length);
    if (!parts.length) return null;
    const keys = parts.map((labels, i) => [
      i ? " or " : "",
      ...labels.flatMap((label, j) => [j ? " " : "", el("kbd", {}, label)]),
    ]);
    return el("li", {}, ...keys.flat(), ` ${label ?? humanise(name).toLowerCase()}`);
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

/** Return keys in the usual order: W A S D instead of A D S W, W S instead of S W. */
function inOrder(keys) {
  const [less, more, down, up] = keys;
  if (keys.length === 4) return [up, less, down, more];
  return /^(KeyW|ArrowUp|PageUp|Home)$/.test(more) ? [more, less] : keys;
}
