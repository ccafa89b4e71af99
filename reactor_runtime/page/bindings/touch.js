/** Shows sticks and buttons for touch screens: over the frame, or below it on a phone held upright. */

import { el, humanise } from "../dom.js";

// Share of the stick's width that a finger moves to reach the end.
const REACH = 0.5;
// More buttons would cover the frame. Their switches and buttons in the panel remain.
const MOST_BUTTONS = 6;
const UPRIGHT = /^(KeyW|ArrowUp|PageUp|Home)$/;

export class Touch {
  root;
  #sticks = [];
  #releases = [];

  constructor(targets) {
    const axes = targets.flatMap((target) => axesOf(target).map((axis) => ({ target, ...axis })));
    for (const axis of axes) this.#assign(axis);
    const pressed = targets.filter(({ sources }) => sources.some(({ kind }) => /^(key|button)$/.test(kind)));
    const sticks = this.#sticks.map((stick) => this.#stick(stick));
    const shown = pressed.length > MOST_BUTTONS ? [] : pressed;
    const buttons = el("div", { class: "touch-buttons" }, ...shown.map((target) => this.#button(target)));
    this.root = el("div", { class: "touch", hidden: true }, sticks[0], buttons, ...sticks.slice(1));
  }

  get empty() {
    return !this.root.querySelector("button, .touch-stick");
  }

  release() {
    for (const release of this.#releases) release();
  }

  /** Assign an axis to a stick that has it free, preferably to the one of its side. */
  #assign(axis) {
    const free = this.#sticks.filter((stick) => axis.axes.every((name) => !stick.axes[name]));
    const stick = free.find(({ side }) => side === axis.side) ?? free[0] ?? { side: axis.side, axes: {} };
    if (!free.length) this.#sticks.push(stick);
    for (const name of axis.axes) stick.axes[name] = axis.target;
  }

  #stick({ axes }) {
    const targets = [...new Set(Object.values(axes))];
    const knob = el("i");
    const label = el("span", {}, el("b", {}, targets.map(nameOf).join(", ")));
    const root = el("div", { class: "touch-stick", "aria-hidden": true }, knob, label);
    const source = {};
    const show = (x, y) => {
      knob.style.setProperty("--x", x);
      knob.style.setProperty("--y", y);
      for (const target of targets) {
        const [across, up] = [axes.x === target ? x : 0, axes.y === target ? -y : 0];
        const part = axes.x === axes.y ? [across, up] : [across + up, 0];
        target.set(source, across || up ? part : null);
      }
    };
    this.#follow(
      root,
      (event) => {
        const { left, top, width } = root.getBoundingClientRect();
        const [x, y] = [axes.x ? event.clientX - left - width / 2 : 0, axes.y ? event.clientY - top - width / 2 : 0];
        const scale = 1 / Math.max(REACH * width, Math.hypot(x, y));
        show(...[x, y].map((value) => Number((value * scale).toFixed(2))));
      },
      () => show(0, 0),
    );
    return root;
  }

  #button(target) {
    const source = {};
    const root = el("button", { type: "button" }, nameOf(target));
    let held = false;
    const hold = (down) => {
      // A finger that moves is held already.
      if (down === held) return;
      held = down;
      if (target.set) target.set(source, down ? [1, 0] : null);
      else target.hold(source, down);
    };
    this.#follow(
      root,
      () => hold(true),
      () => hold(false),
    );
    // Clicks without a pointer.
    if (target.press) root.addEventListener("click", ({ detail }) => detail || target.press());
    return root;
  }

  /** Follow one finger at a time: call `held(event)` when it touches and moves, `released()` when it leaves. */
  #follow(root, held, released) {
    let finger = null;
    const release = () => {
      if (finger === null) return;
      finger = null;
      root.removeAttribute("data-held");
      released();
    };
    root.addEventListener("pointerdown", (event) => {
      if (finger !== null) return;
      finger = event.pointerId;
      root.setPointerCapture(finger);
      root.dataset.held = "";
      held(event);
    });
    root.addEventListener("pointermove", (event) => event.pointerId === finger && held(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      root.addEventListener(end, ({ pointerId }) => pointerId === finger && release());
    }
    root.addEventListener("contextmenu", (event) => event.preventDefault());
    this.#releases.push(release);
  }
}

const nameOf = ({ label, name }) => label ?? humanise(name);

/** Return the axes a stick can control: none, one, or both. */
function axesOf({ sources, set }) {
  if (!set) return [];
  const stick = sources.find(({ kind, stick: name }) => kind === "stick" && name !== "dpad");
  const keys = sources.find(({ kind }) => kind === "keys");
  const pad = sources.find(({ kind }) => kind === "stick");
  if (!keys && !pad) return [];
  const side = stick?.stick ?? "left";
  const axis = (stick ?? pad)?.axis ?? (keys?.keys.length === 2 ? (UPRIGHT.test(keys.keys[1]) ? "y" : "x") : null);
  return [{ side, axes: axis ? [axis] : ["x", "y"] }];
}
