/** Binds keys, gamepad, mouse and fingers as the author declared it; loaded when a schema has x-reactor-bind. */

import { loadStyle } from "../browser.js";
import { Gamepad } from "./gamepad.js";
import { Keyboard } from "./keyboard.js";
import { Legend } from "./legend.js";
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
  const targets = readTargets(session.schema.events, send, (...held) => legend.light(...held));
  const over = new AbortController();
  const keyboard = new Keyboard();
  const gamepad = new Gamepad(() => show());
  const pointer = new Pointer(stage, () => show());
  const touch = new Touch(targets);
  const legend = new Legend(targets);
  const coarse = matchMedia("(pointer: coarse)");
  const show = () => {
    const { hint, locked } = pointer;
    const touched = !touch.root.hidden;
    legend.show({ pad: gamepad.connected, fingers: touched || coarse.matches, touched, hint, locked });
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
  // Not on the stage: on a phone held upright it is below the frame.
  stage.after(touch.root);
  stage.append(legend.root);
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
      else if (!late) target.hold(source, down);
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
