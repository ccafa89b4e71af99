/** Mouse and fingers on a canvas: position, movement, clicks, and the wheel. */

import { recall, remember } from "../storage.js";

// Per CSS pixel.
const MOUSE_RADIANS = 0.0025;
const FINGER_RADIANS = 0.006;
const TAP_MS = 400;
const TAP_PX = 12;
// One notch of the wheel, in pixels, lines and pages.
const NOTCH = [100, 3, 1];
// Elements that lie over the canvas.
const OVERLAYS = "button, .legend";

export class Pointer {
  #stage;
  #onChange;
  #bound = { pointer: [], tap: [], look: [], wheel: [] };
  // {id, x, y, at, moved, drags}: the press that is followed.
  #active = null;
  // Of the last lock that was asked for.
  #isRefused = false;

  /** `onChange()` is called when the pointer is locked or unlocked. */
  constructor(stage, onChange) {
    this.#stage = stage;
    this.#onChange = onChange;
  }

  on(source, target) {
    this.#bound[source.kind].push({ source, target });
  }

  get looks() {
    return this.#bound.look.length > 0;
  }

  get locked() {
    return this.#stage.contains(document.pointerLockElement);
  }

  /** Return how to look around, as text over the canvas; "" for a user who has done it, once in this browser. */
  get hint() {
    if (!this.looks) return "";
    if (this.locked) return "Esc releases the mouse";
    if (recall("looked").once) return "";
    return this.#isRefused ? "Drag the video to look around" : "Click the video to look around";
  }

  listen(signal) {
    const stage = this.#stage;
    const on = (target, name, listener, options) => target.addEventListener(name, listener, { signal, ...options });
    if (this.#bound.wheel.length) on(stage, "wheel", (event) => this.#onWheel(event), { passive: false });
    if (!this.looks && !this.#bound.pointer.length && !this.#bound.tap.length) return;
    on(stage, "pointerdown", (event) => this.#onDown(event));
    on(stage, "pointermove", (event) => this.#onMove(event));
    on(stage, "pointerup", (event) => this.#onUp(event));
    on(stage, "pointercancel", () => this.release());
    // A captured pointer does not leave.
    on(stage, "pointerleave", ({ pointerId }) => (this.#active?.id ?? pointerId) === pointerId && this.release());
    on(document, "pointerlockchange", () => {
      if (this.locked) {
        this.release();
        this.#isRefused = false;
        remember("looked", { once: true });
      }
      this.#onChange();
    });
    on(document, "pointerlockerror", () => this.#onRefused());
    stage.dataset.pointer = this.looks ? "look" : this.#bound.pointer.length ? "press" : "tap";
    signal.addEventListener("abort", () => {
      delete stage.dataset.pointer;
      if (this.locked) document.exitPointerLock();
    });
  }

  release() {
    this.#active = null;
    this.#place(null);
  }

  #onDown(event) {
    if (event.button !== 0 || this.#active || event.target.closest(OVERLAYS)) return;
    if (this.locked) return this.#tap([0.5, 0.5]);
    const place = this.#placeOf(event);
    if (!place) return;
    const { pointerId: id, clientX: x, clientY: y, timeStamp: at } = event;
    const drags = event.pointerType !== "mouse";
    this.#active = { id, x, y, at, moved: 0, drags };
    if (this.looks && !drags) this.#lock();
    else this.#stage.setPointerCapture(id);
    this.#place(place);
    if (!this.looks && !drags) this.#tap(place);
  }

  #onMove(event) {
    if (this.locked) return this.#look(event.movementX, event.movementY, MOUSE_RADIANS);
    const active = this.#active;
    if (active?.id === event.pointerId) {
      const [dx, dy] = [event.clientX - active.x, event.clientY - active.y];
      Object.assign(active, { x: event.clientX, y: event.clientY, moved: active.moved + Math.hypot(dx, dy) });
      if (active.drags) this.#look(dx, dy, FINGER_RADIANS);
      this.#place(this.#placeOf(event, true));
    } else if (!active && event.pointerType === "mouse") {
      this.#place(event.target.closest(OVERLAYS) ? null : this.#placeOf(event), true);
    }
  }

  #onUp(event) {
    const active = this.#active;
    if (active?.id !== event.pointerId) return;
    const brief = event.timeStamp - active.at < TAP_MS && active.moved < TAP_PX;
    if (brief && active.drags) this.#tap(this.#placeOf(event, true));
    this.release();
  }

  /** Set position targets; while nothing is pressed only those with `hover`. */
  #place(place, hovering = false) {
    for (const { source, target } of this.#bound.pointer) {
      const here = hovering && !source.hover ? null : place;
      if (target.set) target.set(source, here && { place: here });
      else target.at(here);
    }
  }

  #tap(place) {
    for (const { target } of this.#bound.tap) target.press(place);
  }

  #look(dx, dy, radians) {
    const { width, height } = frameRect(this.#stage.querySelector(".screen canvas"));
    for (const { source, target } of this.#bound.look) {
      const [across, down] = source.unit === "radians" ? [radians, radians] : [1 / width, 1 / height];
      target.move(dx * across * source.sensitivity, dy * down * source.sensitivity);
    }
  }

  /** Lock the pointer. Older browsers return nothing and report by an event. */
  async #lock() {
    try {
      await this.#stage.requestPointerLock();
    } catch (error) {
      console.debug(error);
      this.#onRefused();
    }
  }

  /** Drag instead until the press ends. The next one may be given the lock: after Escape, browsers refuse for a second. */
  #onRefused() {
    this.#isRefused = true;
    if (this.#active && !this.#active.drags) {
      this.#active.drags = true;
      this.#stage.setPointerCapture(this.#active.id);
    }
    this.#onChange();
  }

  #onWheel(event) {
    // Pinching zooms the page.
    if (event.ctrlKey || event.target.closest(OVERLAYS)) return;
    event.preventDefault();
    const notches = -event.deltaY / NOTCH[event.deltaMode];
    for (const { source, target } of this.#bound.wheel) target.step(notches * source.step);
  }

  /**
   * Return the position on the frame, 0 to 1 from the upper left; null beside it, or the nearest position if `clamped`.
   */
  #placeOf({ target, clientX, clientY }, clamped = false) {
    const canvas = target.closest("canvas") ?? this.#stage.querySelector(".screen canvas");
    if (!canvas) return null;
    const { left, top, width, height } = frameRect(canvas);
    const place = [(clientX - left) / width, (clientY - top) / height];
    const inside = place.map((at) => Number(Math.min(1, Math.max(0, at)).toFixed(4)));
    return clamped || place.every((at) => at >= 0 && at <= 1) ? inside : null;
  }
}

/** Return the rectangle of the frame on a canvas; of another aspect ratio, it is within the canvas or covers it. */
function frameRect(canvas) {
  const box = canvas.getBoundingClientRect();
  const scales = [box.width / canvas.width, box.height / canvas.height];
  const scale = getComputedStyle(canvas).objectFit === "cover" ? Math.max(...scales) : Math.min(...scales);
  const [width, height] = [canvas.width * scale, canvas.height * scale];
  return { left: box.left + (box.width - width) / 2, top: box.top + (box.height - height) / 2, width, height };
}
