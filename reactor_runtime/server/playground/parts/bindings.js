/** What a model's author has bound to keys, a gamepad, mouse and fingers: loaded when a schema says x-reactor-bind. */

import { Gamepad } from "./bindings/gamepad.js";
import { Keyboard } from "./bindings/keyboard.js";
import { Legend } from "./bindings/legend.js";
import { Pointer } from "./bindings/pointer.js";
import { readTargets } from "./bindings/targets.js";
import { Touch } from "./bindings/touch.js";
import { style } from "./style.js";

await style("bindings/bindings.css");

const unsettled = new WeakMap(); // stage → what was held as the connection broke: a session that is resumed still has it

/**
 * Bind what the session's schema says; `session` is the data of reactor.welcome, `stage` the element around the picture,
 * `send(event, data, inputAt)` returns a promise of the reply. Returns {follow, detach}: follow(changes) takes reactor.state.
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
  const follow = (changes) => targets.forEach((target) => Object.hasOwn(changes, target.field) && target.follow(changes[target.field]));
  const letGo = () => [keyboard, pointer, touch, ...targets].forEach((part) => part.letGo());
  const on = (target, name, listener) => target.addEventListener(name, listener, { signal: over.signal });
  const bringTouch = (needed) => {
    touch.root.hidden = !needed || touch.empty;
    show();
  };

  for (const target of targets) {
    for (const source of target.sources) bind(source, target, { keyboard, gamepad, pointer });
  }
  for (const device of [keyboard, gamepad, pointer]) device.listen(over.signal);
  on(window, "blur", () => {
    gamepad.away = true;
    letGo();
  });
  on(window, "focus", () => (gamepad.away = false));
  on(document, "visibilitychange", () => document.hidden && letGo());
  on(coarse, "change", () => bringTouch(coarse.matches));
  on(stage, "pointerdown", ({ pointerType }) => pointerType === "touch" && bringTouch(true));
  follow(session.state ?? {});
  const before = unsettled.get(stage);
  const resumed = before?.session === session.session;
  for (const target of targets) if (resumed && before.names.includes(target.name)) target.rest();
  stage.append(touch.root, legend.root);
  bringTouch(coarse.matches);

  const detach = () => {
    unsettled.set(stage, { session: session.session, names: targets.filter((target) => target.unsettled).map(({ name }) => name) });
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
    source.keys.forEach((code, i) => keyboard.on(code, (down) => {
      held[i] = Number(down);
      const [less, more, below = 0, above = 0] = held;
      target.set(source, held.some(Boolean) ? [more - less, above - below] : null);
    }));
  } else if (kind === "button" || kind === "stick") gamepad.on(source, target);
  else if (["pointer", "tap", "look", "wheel"].includes(kind)) pointer.on(source, target);
}
