/** Mouse and fingers on a canvas: position, movement, clicks, and the wheel. */

// Per CSS pixel.
const MOUSE_RADIANS = 0.0025;
const FINGER_RADIANS = 0.006;
const TAP_MS = 400;
const TAP_PX = 12;
// One notch of the wheel, in pixels, lines and pages.
const NOTCH = [100, 3, 1];
// Elements that lie over the canvas.
const OTHERS = "button, .tools, .legend, .touch";

export class Pointer {
  #stage;
  #noticed;
  #wanted = { pointer: [], tap: [], look: [], wheel: [] };
  // {id, x, y, at, moved}: the press that is followed.
  #active = null;
  #wasLocked = false;
  #lockless = false;

  /** `onChange()` is called when the pointer is locked or unlocked. */
  constructor(stage, noticed) {
    this.#stage = stage;
    this.#noticed = noticed;
  }

  on(source, target) {
    this.#wanted[source.kind].push({ source, target });
  }

  get looks() {
    return this.#wanted.look.length > 0;
  }

  get locked() {
    return this.#stage.contains(document.pointerLockElement);
  }

  /** Return how to look around, as text over the canvas; "" if there is nothing to explain. */
  get hint() {
    if (!this.looks) return "";
    if (this.#lockless) return "Drag the picture to look around";
    return this.locked ? "Esc lets the mouse go" : "Click the picture to look around";
  }

  listen(signal) {
    const stage = this.#stage;
    const on = (target, name, listener, options) => target.addEventListener(name, listener, { signal, ...options });
    if (this.#wanted.wheel.length) on(stage, "wheel", (event) => this.#turned(event), { passive: false });
    if (!this.looks && !this.#wanted.pointer.length && !this.#wanted.tap.length) return;
    on(stage, "pointerdown", (event) => this.#down(event));
    on(stage, "pointermove", (event) => this.#moved(event));
    on(stage, "pointerup", (event) => this.#up(event));
    on(stage, "pointercancel", () => this.release());
    // A captured pointer does not leave.
    on(stage, "pointerleave", ({ pointerId }) => (this.#active?.id ?? pointerId) === pointerId && this.release());
    on(document, "pointerlockchange", () => {
      this.#wasLocked ||= this.locked;
      this.#noticed();
    });
    on(document, "pointerlockerror", () => this.#refused());
    stage.dataset.pointer = this.looks ? "look" : this.#wanted.pointer.length ? "press" : "tap";
    signal.addEventListener("abort", () => {
      delete stage.dataset.pointer;
      if (this.locked) document.exitPointerLock();
    });
  }

  release() {
    this.#active = null;
    this.#place(null);
  }

  #down(event) {
    if (event.button !== 0 || this.#active || event.target.closest(OTHERS)) return;
    if (this.locked) return this.#tap([0.5, 0.5]);
    const place = this.#placeOf(event);
    if (!place) return;
    const fingers = event.pointerType !== "mouse";
    this.#active = { id: event.pointerId, x: event.clientX, y: event.clientY, at: event.timeStamp, moved: 0 };
    if (this.looks && !fingers && !this.#lockless) this.#lock();
    else this.#stage.setPointerCapture(event.pointerId);
    this.#place(place);
    if (!this.looks && !fingers) this.#tap(place);
  }

  #moved(event) {
    if (this.locked) return this.#look(event.movementX, event.movementY, MOUSE_RADIANS);
    const active = this.#active;
    if (active?.id === event.pointerId) {
      const [dx, dy] = [event.clientX - active.x, event.clientY - active.y];
      Object.assign(active, { x: event.clientX, y: event.clientY, moved: active.moved + Math.hypot(dx, dy) });
      if (event.pointerType !== "mouse" || this.#lockless) this.#look(dx, dy, FINGER_RADIANS);
      this.#place(this.#placeOf(event, true));
    } else if (!active && event.pointerType === "mouse") {
      this.#place(event.target.closest(OTHERS) ? null : this.#placeOf(event), true);
    }
  }

  #up(event) {
    const active = this.#active;
    if (active?.id !== event.pointerId) return;
    const brief = event.timeStamp - active.at < TAP_MS && active.moved < TAP_PX;
    const finger = event.pointerType !== "mouse" || (this.looks && this.#lockless);
    if (brief && finger) this.#tap(this.#placeOf(event, true));
    this.release();
  }

  /** Set position targets; while nothing is pressed only those with `hover`. */
  #place(place, hovering = false) {
    for (const { source, target } of this.#wanted.pointer) {
      const here = hovering && !source.hover ? null : place;
      if (target.set) target.set(source, here && { place: here });
      else target.at(here);
    }
  }

  #tap(place) {
    for (const { target } of this.#wanted.tap) target.press(place);
  }

  #look(dx, dy, radians) {
    const { width, height } = shown(this.#stage.querySelector(".screen canvas"));
    for (const { source, target } of this.#wanted.look) {
      const [across, down] = source.unit === "radians" ? [radians, radians] : [1 / width, 1 / height];
      target.move(dx * across * source.sensitivity, dy * down * source.sensitivity);
    }
  }

  /** Lock the pointer. Older browsers return nothing and report by an event. */
  async #lock() {
    try {
      await this.#stage.requestPointerLock();
      this.#active = null;
    } catch (error) {
      console.debug(error);
      this.#refused();
    }
  }

  /** After Escape, browsers refuse for a second. In one that never locks, dragging replaces the lock. */
  #refused() {
    this.#lockless = !this.#wasLocked;
    this.#noticed();
  }

  #turned(event) {
    // Pinching zooms the page.
    if (event.ctrlKey || event.target.closest(OTHERS)) return;
    event.preventDefault();
    const notches = -event.deltaY / NOTCH[event.deltaMode];
    for (const { source, target } of this.#wanted.wheel) target.step(notches * source.step);
  }

  /**
   * Return the position on the frame, 0 to 1 from the upper left; null beside it, or the nearest position if `clamped`.
   */
  #placeOf({ target, clientX, clientY }, clamped = false) {
    const canvas = target.closest("canvas") ?? this.#stage.querySelector(".screen canvas");
    if (!canvas) return null;
    const { left, top, width, height } = shown(canvas);
    const place = [(clientX - left) / width, (clientY - top) / height];
    const inside = place.map((at) => Number(Math.min(1, Math.max(0, at)).toFixed(4)));
    return clamped || place.every((at) => at >= 0 && at <= 1) ? inside : null;
  }
}

/** Return the rectangle of the frame on a canvas; the canvas may have another aspect ratio. */
function shown(canvas) {
  const box = canvas.getBoundingClientRect();
  const scale = Math.min(box.width / canvas.width, box.height / canvas.height);
  const [width, height] = [canvas.width * scale, canvas.height * scale];
  return { left: box.left + (box.width - width) / 2, top: box.top + (box.height - height) / 2, width, height };
}
