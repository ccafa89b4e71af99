/** Widgets for one number and for two. Each has number boxes, which work by keyboard. */

import { el } from "../dom.js";
import { round } from "./parameters.js";

const LARGEST_SEED = 2 ** 32 - 1;

export function slider(spec, options, attributes) {
  const { min, max, step } = spec;
  const onSlide = () => {
    box.value = slider.value;
    fill();
    options.commit();
  };
  const slider = el("input", { ...attributes, type: "range", min, max, step, oninput: onSlide });
  const box = numberBox(spec, options, {
    "aria-label": `${options.label}, as a number`,
    oninput: () => place(box.value),
  });
  const fill = () => slider.style.setProperty("--fill", `${100 * shareOf(slider.value, spec)}%`);
  const place = (value) => {
    slider.value = value === "" ? min : value;
    fill();
  };
  const write = (value) => {
    box.value = value ?? min;
    place(box.value);
  };
  const main = el("div", { class: "slider" }, slider, ends(spec, spec));
  return {
    main,
    aside: withUnit(spec, box),
    read: () => readNumber(box),
    write,
    held: () => slider.matches(":active"),
  };
}

/** Show the ends of a slider below it. */
const ends = ({ min, max }, { ui }) =>
  el(
    "div",
    { class: "limits", "aria-hidden": "true" },
    ...[min, max].map((end) => el("span", {}, withUnitText(end, ui))),
  );

const withUnitText = (value, { unit }) => (unit ? `${value}${/^[%°]/.test(unit) ? "" : " "}${unit}` : String(value));

/** Return an element with the unit after it; the element itself without one. */
const withUnit = ({ ui: { unit } }, element) =>
  unit ? el("span", { class: "aside" }, element, el("span", { class: "unit" }, unit)) : element;

export function number(spec, options, attributes) {
  const box = numberBox(spec, options, attributes);
  return { aside: withUnit(spec, box), read: () => readNumber(box), write: (value) => (box.value = value ?? "") };
}

/** A number box, and a button that sets a random number. */
export function seed(spec, options, attributes) {
  const { min = 0, max = LARGEST_SEED } = spec;
  const widget = number(spec, options, attributes);
  const box = widget.aside.querySelector?.("input") ?? widget.aside;
  const onclick = () => {
    box.value = min + Math.floor(Math.random() * (max - min + 1));
    box.dispatchEvent(new Event("input", { bubbles: true }));
    options.commit();
  };
  const title = `Random ${options.label.toLowerCase()}`;
  const dice = el("button", { type: "button", class: "button dice", title, "aria-label": title, onclick });
  return { ...widget, aside: el("span", { class: "aside" }, dice, widget.aside) };
}

/** A dial in degrees, clockwise from the top; without limits it counts turns. */
export function angle(spec, options, attributes) {
  const { min = -Infinity, max = Infinity, step } = spec;
  const box = numberBox(spec, options, { ...attributes, oninput: () => turn() });
  const turn = () => dial.style.setProperty("--angle", `${Number(box.value) || 0}deg`);
  const dial = el("div", { class: "dial", "aria-hidden": "true" });
  const held = onDrag(dial, (x, y) => {
    const degrees = (Math.atan2(x - 0.5, 0.5 - y) * 180) / Math.PI;
    // The way round from the last value.
    let value = degrees + 360 * Math.round((Number(box.value) - degrees) / 360);
    if (value < min) value += 360;
    if (value > max) value -= 360;
    box.value = clamp(snap(value, 0, step === "any" ? 1 : step), min, max);
    turn();
    box.dispatchEvent(new Event("input", { bubbles: true }));
    options.commit();
  });
  const write = (value) => {
    box.value = value ?? "";
    turn();
  };
  return { aside: el("span", { class: "aside" }, dial, box), read: () => readNumber(box), write, held };
}

/** An area for two numbers: the first grows to the right, the second upwards, or downwards if the pointer is bound to it. */
export function xy(spec, options, attributes) {
  const pair = numberBoxes(spec, options, attributes, ["x", "y"], () => place());
  const shown = (share) => (spec.downwards ? share : 1 - share);
  const place = () => {
    const [x, y] = pair.boxes.map((box, i) => shareOf(box.value, spec.parts[i]));
    area.style.setProperty("--x", `${100 * x}%`);
    area.style.setProperty("--y", `${100 * shown(y)}%`);
  };
  const area = el("div", { class: "pad", "aria-hidden": "true" });
  const held = onDrag(area, (x, y) => {
    for (const [i, share] of [x, shown(y)].entries()) {
      const { min, max, step } = spec.parts[i];
      pair.boxes[i].value = clamp(snap(min + clamp(share, 0, 1) * (max - min), min, step), min, max);
    }
    place();
    pair.boxes[0].dispatchEvent(new Event("input", { bubbles: true }));
    options.commit();
  });
  return { ...pair.widget, main: area, held };
}

/** A slider with two ends. */
export function range(spec, options, attributes) {
  const pair = numberBoxes(spec, options, attributes, ["from", "to"], () => place());
  const slid = (moved) => {
    const values = thumbs.map((end) => Number(end.value));
    if (values[0] > values[1]) thumbs[moved].value = values[1 - moved];
    for (const [i, end] of thumbs.entries()) pair.boxes[i].value = end.value;
    fill();
    options.commit();
  };
  const thumbs = spec.parts.map(({ min, max, step }, i) => {
    const label = `${options.label}, ${["from", "to"][i]}, slider`;
    return el("input", { type: "range", class: "end", min, max, step, "aria-label": label, oninput: () => slid(i) });
  });
  const fill = () => {
    for (const [i, name] of ["--from", "--to"].entries())
      both.style.setProperty(name, `${100 * shareOf(thumbs[i].value, spec.parts[i])}%`);
  };
  const place = () => {
    for (const [i, end] of thumbs.entries()) end.value = pair.boxes[i].value;
    fill();
  };
  const both = el("div", { class: "ends" }, ...thumbs);
  const main = el("div", { class: "slider" }, both, ends(spec.parts[0], spec));
  return { ...pair.widget, main, held: () => both.matches(":active") };
}

/** `place()` shows the numbers of the boxes. */
function numberBoxes(spec, options, attributes, names, place) {
  const boxes = spec.parts.map((part, i) => {
    const own = i ? { "aria-describedby": attributes["aria-describedby"] } : attributes;
    return numberBox(part, options, { ...own, "aria-label": `${options.label}, ${names[i]}`, oninput: place });
  });
  const read = () => {
    const values = boxes.map(readNumber);
    return values.includes(undefined) ? undefined : values;
  };
  const write = (values) => {
    for (const [i, box] of boxes.entries()) box.value = values?.[i] ?? "";
    place();
  };
  const aside = withUnit(spec, el("span", { class: "aside pair" }, ...boxes));
  return { boxes, widget: { aside, read, write } };
}

/** A number is sent when it is complete (Enter, arrow, leaving the box), not while digits are being typed. */
function numberBox({ step, integer }, { edited, commit }, attributes) {
  const kind = { type: "number", class: "number", step, inputmode: integer ? "numeric" : "decimal" };
  const box = el("input", { ...attributes, ...kind, onchange: commit });
  box.addEventListener("input", edited);
  return box;
}

function readNumber(box) {
  if (box.validity.badInput) throw new Error("Enter a number");
  return box.value === "" ? undefined : Number(box.value);
}

/** Call `move(x, y)` with the place in the element, from 0 to 1, while it is pressed; return held(). */
function onDrag(element, move) {
  let isHeld = false;
  const moved = (event) => {
    if (!isHeld) return;
    const { left, top, width, height } = element.getBoundingClientRect();
    move((event.clientX - left) / width, (event.clientY - top) / height);
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || element.matches(":disabled *")) return;
    isHeld = true;
    element.setPointerCapture(event.pointerId);
    moved(event);
  });
  element.addEventListener("pointermove", moved);
  element.addEventListener("lostpointercapture", () => (isHeld = false));
  return () => isHeld;
}

const clamp = (value, min, max) => Math.min(max, Math.max(min, value));

const snap = (value, start, step) =>
  step === "any" ? value : round(start + Math.round((value - start) / step) * step);

const shareOf = (value, { min, max }) => clamp((Number(value) - min) / (max - min || 1), 0, 1);
