/** Reads the gamepad once per repaint while one is connected. */

// Sticks do not rest at exactly 0.
const DEAD_ZONE = 0.15;
const AXES = { left: [0, 1], right: [2, 3] };
// dx and dy per second.
const SPEED = 2;

export class Gamepad {
  connected = false;
  // {source, target, pressed}
  #bound = [];
  #away = false;
  #request = 0;
  #last = 0;
  #onChange;

  /** `onChange()` is called when a gamepad is connected or disconnected. */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  on(source, target) {
    this.#bound.push({ source, target, pressed: false });
  }

  listen(signal) {
    if (!this.#bound.length || !navigator.getGamepads) return;
    window.addEventListener("gamepadconnected", () => this.#requestRead(), { signal });
    signal.addEventListener("abort", () => cancelAnimationFrame(this.#request));
    this.#requestRead();
  }

  /** Ignore the gamepad while the window is not in front. */
  set away(away) {
    this.#away = away;
  }

  #requestRead() {
    cancelAnimationFrame(this.#request);
    this.#request = requestAnimationFrame((now) => this.#read(now));
  }

  #read(now) {
    const pad = first();
    const seconds = Math.min(0.1, (now - this.#last) / 1000);
    this.#last = now;
    if (this.connected !== Boolean(pad)) {
      this.connected = Boolean(pad);
      this.#onChange();
    }
    for (const bound of this.#bound) follow(bound, this.#away ? undefined : pad, seconds);
    if (pad) this.#requestRead();
  }
}

/** Return the first gamepad; a page in an iframe may have no permission. */
function first() {
  try {
    const pads = [...navigator.getGamepads()].filter((pad) => pad?.connected);
    return pads.find(({ mapping }) => mapping === "standard") ?? pads[0];
  } catch (error) {
    console.debug(error);
    return undefined;
  }
}

function follow(bound, pad, seconds) {
  const { source, target } = bound;
  const isValue = target.set !== undefined;
  if (source.kind === "button") {
    const level = levelOf(pad?.buttons[source.index]);
    if (isValue) target.set(source, level ? [level, 0] : null);
    else if (level > 0.5 !== bound.pressed) target.hold(source, level > 0.5);
    bound.pressed = level > 0.5;
    return;
  }
  const [x, y] = stick(pad, source.stick);
  const speed = (source.speed ?? SPEED) * seconds;
  if (!isValue) target.move(x * speed, -y * speed);
  else target.set(source, x || y ? { x: [x, 0], y: [y, 0], both: [x, y] }[source.axis ?? "both"] : null);
}

const levelOf = (button) => (button ? Math.max(button.value, button.pressed ? 1 : 0) : 0);

/**
 * Return x and y of a stick, right and up positive. The dead zone counts as 0, the rest is scaled to the full range.
 */
function stick(pad, name) {
  if (name === "dpad") {
    const [up, down, left, right] = [12, 13, 14, 15].map((index) => levelOf(pad?.buttons[index]));
    return [right - left, up - down];
  }
  const [x, y] = AXES[name].map((axis) => pad?.axes[axis] ?? 0);
  const length = Math.hypot(x, y);
  const scale = length > DEAD_ZONE ? Math.min(1, (length - DEAD_ZONE) / (1 - DEAD_ZONE)) / length : 0;
  // Rounded, so that tremor is not sent.
  return [x, -y].map((value) => Number((value * scale).toFixed(2)));
}
