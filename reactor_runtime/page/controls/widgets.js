/**
 * One widget for each way to show a parameter. makeWidget(spec, options) returns {main, aside, read, write, held}: `main` goes
 * below the label, `aside` beside it; read() returns the value, undefined for none, or throws Error with a message for people;
 * held(): the user is holding it. Options: id, label, describedBy; live: it has its own button to send; edited(); commit(): the
 * value is to be sent.
 */

import { el, setText } from "../dom.js";
import { angle, number, range, seed, slider, xy } from "./numbers.js";
import { nameChoice } from "./parameters.js";

// Safari reports the key that ends a composition after its end.
const COMPOSED = 229;

export const WIDGETS = {
  slider,
  number,
  seed,
  angle,
  xy,
  range,
  select,
  radio,
  switch: toggle,
  text,
  multiline,
  password,
  color,
  datetime: moment("datetime-local", toLocal, (text) => `${new Date(text).toISOString().slice(0, 19)}+00:00`),
  date: moment("date"),
  time: moment("time"),
  file,
  image: (spec, options, attributes) => file(spec, options, { ...attributes, accept: "image/*" }),
  json,
};

export function makeWidget(spec, given) {
  const options = { edited() {}, commit() {}, ...given };
  const make = WIDGETS[spec.widget];
  const widget = { main: null, aside: null, held: () => false, ...make(spec, options, common(spec, options)) };
  widget.write(spec.default);
  return spec.optional && !["choice", "file"].includes(spec.kind) ? nullable(spec, widget, options) : widget;
}

const common = ({ name }, { id, describedBy }) => ({ id, name, "aria-describedby": describedBy });

const choicesOf = ({ optional, choices }) => (optional ? [null, ...choices] : choices);

function select(spec, options, attributes) {
  const values = choicesOf(spec);
  const items = values.map(nameChoice).map((name) => el("option", { value: name }, name));
  const select = el("select", { ...attributes, onchange: options.commit }, ...items);
  return {
    aside: select,
    read: () => values[select.selectedIndex],
    write: (value) => (select.selectedIndex = values.indexOf(value)),
  };
}

function radio(spec, options, { id, "aria-describedby": describedBy }) {
  const values = choicesOf(spec);
  const inputs = values.map((_, i) => el("input", { type: "radio", name: id, value: i, onchange: options.commit }));
  const buttons = values.map((value, i) => el("label", {}, inputs[i], nameChoice(value)));
  const group = {
    id,
    class: "radio",
    role: "radiogroup",
    "aria-label": options.label,
    "aria-describedby": describedBy,
  };
  return {
    aside: el("div", group, ...buttons),
    read: () => values[inputs.findIndex(({ checked }) => checked)],
    write(value) {
      for (const [i, input] of inputs.entries()) input.checked = values[i] === value;
    },
  };
}

function toggle(_spec, options, attributes) {
  const box = el("input", {
    ...attributes,
    type: "checkbox",
    role: "switch",
    class: "switch",
    onchange: options.commit,
  });
  return { aside: box, read: () => box.checked, write: (value) => (box.checked = value === true) };
}

/** Make a field to choose or drop a file, with a preview of an image; read() returns the File, or the model's value. */
function file({ widget, optional }, { label, commit }, attributes) {
  const none = optional ? null : undefined;
  let picked = null;
  let known = none;
  const show = (file) => {
    URL.revokeObjectURL(preview.src);
    preview.hidden = !file?.type.startsWith("image/");
    preview.src = preview.hidden ? "" : URL.createObjectURL(file);
    const other = known ? "The model has a file." : `Choose ${nouns[widget]} or drop it here.`;
    setText(status, file ? `${file.name} · ${size(file.size)}` : other);
    remove.hidden = !optional || !(file || known);
  };
  const take = (file) => {
    if (!file) return;
    picked = file;
    show(file);
    commit();
  };
  const nouns = { file: "a file", image: "an image" };
  // Otherwise choosing the same file, edited, would be no change.
  const onclick = () => (box.value = "");
  const box = el("input", { ...attributes, type: "file", onclick, onchange: () => take(box.files[0]) });
  const preview = el("img", { alt: "", hidden: true });
  const status = el("span", { class: "file-words" });
  const hold = (event) => event.preventDefault();
  const drop = (event) => {
    event.preventDefault();
    if (box.matches(":disabled")) return;
    box.value = "";
    take(event.dataTransfer.files[0]);
  };
  const write = (value) => {
    known = value ?? none;
    if (!value) {
      picked = null;
      box.value = "";
    }
    show(picked);
  };
  const onremove = () => {
    write(null);
    commit();
  };
  const remove = el(
    "button",
    { type: "button", class: "quiet", "aria-label": `Remove ${label}`, onclick: onremove },
    "Remove",
  );
  const main = el("div", { class: "file", ondragover: hold, ondrop: drop }, preview, box, status, remove);
  return { main, read: () => box.files[0] ?? picked ?? known, write };
}

function text(spec, options, attributes) {
  const isSendKey = (event) =>
    event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== COMPOSED;
  const hint = "Enter; Shift+Enter starts a new line";
  const [main, area] = textField(
    "textarea",
    options,
    { ...attributes, ...placeholder(spec), rows: 1 },
    isSendKey,
    hint,
  );
  return { main, read: () => area.value, write: (value) => (area.value = value ?? "") };
}

function multiline(spec, options, attributes) {
  const [main, area] = textField(
    "textarea",
    options,
    { ...attributes, ...placeholder(spec), rows: 4 },
    isCtrlEnter,
    CTRL_ENTER,
  );
  main.classList.add("tall");
  return { main, read: () => area.value, write: (value) => (area.value = value ?? "") };
}

function password(spec, options, attributes) {
  const kind = { ...placeholder(spec), type: "password", class: "line", autocomplete: "off" };
  const [main, box] = textField("input", options, { ...attributes, ...kind }, ({ key }) => key === "Enter", "Enter");
  return { main, read: () => box.value, write: (value) => (box.value = value ?? "") };
}

const placeholder = ({ ui }) => ({ placeholder: ui.placeholder ?? null });

function color(_spec, { commit }, attributes) {
  const name = el("code", {});
  const show = () => setText(name, box.value);
  const oninput = () => {
    show();
    commit();
  };
  const box = el("input", { ...attributes, type: "color", oninput });
  const write = (value) => {
    box.value = value ?? "#000000";
    show();
  };
  return { aside: el("span", { class: "aside" }, name, box), read: () => box.value, write };
}

/** Return a widget of a date or a time, whose input takes `toBox` of its value; `toValue` is the way back. */
function moment(type, toBox = withSeconds, toValue = withSeconds) {
  // A year is typed digit by digit: 2, 20, 202.
  const least = { date: "1000-01-01", "datetime-local": "1000-01-01T00:00" };
  return ({ optional }, { commit }, attributes) => {
    let known;
    let shown;
    const onchange = () => box.validity.valid && commit();
    const step = type === "date" ? null : 1;
    const box = el("input", { ...attributes, type, class: "line moment", step, min: least[type] ?? null, onchange });
    const write = (value) => {
      known = value ?? undefined;
      box.value = known ? toBox(known) : "";
      shown = box.value;
    };
    const entered = () => (box.value ? toValue(box.value) : undefined);
    // The input has no fractions of a second and no offset.
    const read = () => (box.value === shown ? known : entered());
    // A value that is written while another is typed would begin its year anew.
    const held = () => document.activeElement === box;
    // Beside the label is no room for both a date and a time, or for a box that means none.
    const place = type === "datetime-local" || optional ? "main" : "aside";
    return { [place]: box, read, write, held };
  };
}

function withSeconds(text) {
  return /^\d\d:\d\d$/.test(text) ? `${text}:00` : text.replace(/\..*/, "");
}

/** Return a date with an offset as the same moment in the browser's time zone, as an input takes it. */
function toLocal(text) {
  const at = new Date(text);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function json(spec, options, attributes) {
  const kind = { class: "json", spellcheck: "false", rows: 1 };
  const [main, area] = textField("textarea", options, { ...attributes, ...kind }, isCtrlEnter, CTRL_ENTER);
  const write = (value) =>
    (area.value = JSON.stringify(value === undefined ? spec.empty : value, null, 1).replace(/\n */g, " "));
  return { main, read: () => parseJson(area.value), write };
}

const CTRL_ENTER = "Ctrl+Enter";
const isCtrlEnter = ({ key, ctrlKey, metaKey }) => key === "Enter" && (ctrlKey || metaKey);

/** Return [row, field]: a field for text, with a button to send if it is live; `hint` names the key that sends. */
function textField(tag, { live, label, edited, commit }, attributes, isSendKey, hint) {
  const onkeydown = (event) => {
    if (!isSendKey(event)) return;
    event.preventDefault();
    if (live) commit();
    else field.form.requestSubmit();
  };
  const field = el(tag, { ...attributes, oninput: edited, onkeydown });
  const send = { type: "button", class: "button send", title: hint, "aria-label": `Send ${label}`, onclick: commit };
  return [el("div", { class: "text-row" }, field, live ? el("button", send, "Send") : null), field];
}

function parseJson(source) {
  if (!source.trim()) return undefined;
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new Error(`not JSON: ${error.message}`, { cause: error });
  }
}

/** Add a tick box for null beside the widget; using the widget clears it. */
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

function size(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  const [divisor, unit] = bytes < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  return `${Number((bytes / divisor).toPrecision(2))} ${unit}`;
}
