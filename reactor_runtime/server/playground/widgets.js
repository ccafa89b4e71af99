/**
 * One widget for each kind of parameter. makeWidget(spec, options) returns {main, aside, read, write, held}: `main` goes below the
 * label, `aside` beside it; read() gives the value, undefined for none, or throws Error in words; held(): the user has hold of it.
 * Options: id, label, describedBy; live (has its own way to send), edited(), commit() when the value is meant to go.
 */

import { el } from "./dom.js";

const COMPOSED = 229; // Safari tells of the key that ends a composition after the composition

export function makeWidget(spec, given) {
  const options = { edited() {}, commit() {}, ...given };
  const make = { range, number, choice, text, switch: toggle, json, file }[spec.kind];
  const widget = { main: null, aside: null, held: () => false, ...make(spec, options, common(spec, options)) };
  widget.write(spec.default);
  return spec.optional && spec.kind !== "choice" ? nullable(spec, widget, options) : widget;
}

const common = ({ name }, { id, describedBy }) => ({ id, name, "aria-describedby": describedBy });

function range(spec, options, attributes) {
  const { min, max, step } = spec;
  const slid = () => {
    box.value = slider.value;
    fill();
    options.commit();
  };
  const slider = el("input", { ...attributes, type: "range", min, max, step, oninput: slid });
  const box = numberBox(spec, options, { "aria-label": `${options.label}, as a number`, oninput: () => place(box.value) });
  const fill = () => slider.style.setProperty("--fill", `${(100 * (slider.value - min)) / (max - min || 1)}%`);
  const place = (value) => {
    slider.value = value === "" ? min : value;
    fill();
  };
  const write = (value) => {
    box.value = value ?? min;
    place(box.value);
  };
  return { main: slider, aside: box, read: () => readNumber(box), write, held: () => slider.matches(":active") };
}

function number(spec, options, attributes) {
  const box = numberBox(spec, options, attributes);
  return { aside: box, read: () => readNumber(box), write: (value) => (box.value = value ?? "") };
}

/** A number is sent when it is complete (Enter, arrow, leaving the box), not while digits are being typed. */
function numberBox({ step, integer }, { edited, commit }, attributes) {
  const kind = { type: "number", class: "number", step, inputmode: integer ? "numeric" : "decimal" };
  const box = el("input", { ...attributes, ...kind, onchange: commit });
  box.addEventListener("input", edited);
  return box;
}

function readNumber(box) {
  if (box.validity.badInput) throw new Error("not a number");
  return box.value === "" ? undefined : Number(box.value);
}

function choice(spec, options, attributes) {
  const values = spec.optional ? [null, ...spec.choices] : spec.choices;
  const words = (value) => (value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));
  const items = values.map((value) => el("option", { value: words(value) }, words(value)));
  const select = el("select", { ...attributes, onchange: options.commit }, ...items);
  return { aside: select, read: () => values[select.selectedIndex], write: (value) => (select.selectedIndex = values.indexOf(value)) };
}

function toggle(spec, options, attributes) {
  const box = el("input", { ...attributes, type: "checkbox", role: "switch", class: "switch", onchange: options.commit });
  return { aside: box, read: () => box.checked, write: (value) => (box.checked = value === true) };
}

/** Few models take files: the widget comes when one does, and until then it has no value. */
function file(spec, options, attributes) {
  const main = el("div");
  let widget = null;
  let known;
  const write = (value) => (widget ? widget.write(value) : (known = value));
  import("./parts/file.js").then(({ makeFile }) => {
    widget = makeFile(options, attributes);
    main.append(widget.main);
    widget.write(known);
  });
  return { main, read: () => (widget ? widget.read() : known), write };
}

function text(spec, options, attributes) {
  const sends = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== COMPOSED;
  const [main, area] = textArea(options, attributes, sends, "Enter; Shift+Enter starts a new line");
  return { main, read: () => area.value, write: (value) => (area.value = value ?? "") };
}

function json(spec, options, attributes) {
  const sends = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey);
  const [main, area] = textArea(options, { ...attributes, class: "json", spellcheck: "false" }, sends, "Ctrl+Enter");
  const write = (value) => (area.value = JSON.stringify(value === undefined ? spec.empty : value, null, 1).replace(/\n */g, " "));
  return { main, read: () => parseJson(area.value), write };
}

function textArea({ live, label, edited, commit }, attributes, sends, hint) {
  const onkeydown = (event) => {
    if (!sends(event)) return;
    event.preventDefault();
    if (live) commit();
    else area.form.requestSubmit();
  };
  const area = el("textarea", { ...attributes, rows: 1, oninput: edited, onkeydown });
  const send = { type: "button", class: "button send", title: hint, "aria-label": `Send ${label}`, onclick: commit };
  return [el("div", { class: "text-row" }, area, live ? el("button", send, "Send") : null), area];
}

function parseJson(source) {
  if (!source.trim()) return undefined;
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new Error(`not JSON: ${error.message}`, { cause: error });
  }
}

/** A tick box for null beside the widget; touching the widget means a value again. */
function nullable(spec, widget, { label, commit }) {
  const parts = [widget.main, widget.aside].filter(Boolean);
  const mark = (isNull) => {
    box.checked = isNull;
    for (const part of parts) part.classList.toggle("unset", isNull);
  };
  const ticked = () => {
    mark(box.checked);
    commit();
  };
  const box = el("input", { type: "checkbox", "aria-label": `${label}: none`, onchange: ticked });
  for (const part of parts) part.addEventListener("input", () => mark(false), { capture: true });
  const write = (value) => {
    mark(value === null);
    if (value !== null) widget.write(value);
  };
  write(spec.default ?? null);
  const aside = el("span", { class: "aside" }, el("label", { class: "none" }, box, "none"), widget.aside);
  return { ...widget, aside, read: () => (box.checked ? null : widget.read()), write };
}
