/**
 * One widget for each kind of parameter, and the kind of a parameter from its JSON Schema. makeWidget(spec, options)
 * returns {main, aside, read, write, held}: `main` goes below the label, `aside` beside it; read() returns the value,
 * undefined for none, or throws Error with a message for people; held(): the user is holding it. Options: id, label,
 * describedBy; live: it has its own button to send; edited(); commit(): the value is to be sent.
 */

import { el, setText } from "../dom.js";

// Safari reports the key that ends a composition after its end.
const COMPOSED = 229;

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
  const labelOf = (value) => (value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));
  const items = values.map((value) => el("option", { value: labelOf(value) }, labelOf(value)));
  const select = el("select", { ...attributes, onchange: options.commit }, ...items);
  return {
    aside: select,
    read: () => values[select.selectedIndex],
    write: (value) => (select.selectedIndex = values.indexOf(value)),
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

/** Make a field to choose or drop a file; read() returns the File, or the model's value. */
function file(_spec, { commit }, attributes) {
  let picked = null;
  let known;
  const take = (file) => {
    if (!file) return;
    picked = file;
    setText(status, `${file.name} · ${size(file.size)}`);
    // The value is not null any more.
    box.dispatchEvent(new Event("input", { bubbles: true }));
    commit();
  };
  // Otherwise choosing the same file, edited, would be no change.
  const onclick = () => (box.value = "");
  const box = el("input", { ...attributes, type: "file", onclick, onchange: () => take(box.files[0]) });
  const status = el("span", { class: "file-words" });
  const hold = (event) => event.preventDefault();
  const drop = (event) => {
    event.preventDefault();
    box.value = "";
    take(event.dataTransfer.files[0]);
  };
  const main = el("div", { class: "file", ondragover: hold, ondrop: drop }, box, status);
  const write = (value) => {
    known = value ?? undefined;
    if (value) return;
    picked = null;
    box.value = "";
    setText(status, "Choose a file or drop it here.");
  };
  return { main, read: () => box.files[0] ?? picked ?? known, write };
}

function text(_spec, options, attributes) {
  const isSendKey = (event) =>
    event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== COMPOSED;
  const [main, area] = textArea(options, attributes, isSendKey, "Enter; Shift+Enter starts a new line");
  return { main, read: () => area.value, write: (value) => (area.value = value ?? "") };
}

function json(spec, options, attributes) {
  const isSendKey = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey);
  const [main, area] = textArea(
    options,
    { ...attributes, class: "json", spellcheck: "false" },
    isSendKey,
    "Ctrl+Enter",
  );
  const write = (value) =>
    (area.value = JSON.stringify(value === undefined ? spec.empty : value, null, 1).replace(/\n */g, " "));
  return { main, read: () => parseJson(area.value), write };
}

function textArea({ live, label, edited, commit }, attributes, isSendKey, hint) {
  const onkeydown = (event) => {
    if (!isSendKey(event)) return;
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
  const [divisor, unit] = bytes < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  return `${Number((bytes / divisor).toPrecision(2))} ${unit}`;
}

/**
 * Return {kind, …} of a parameter: range, number, choice, text, switch, file or json; `optional` if null is allowed.
 */
export function describeParameter(name, schema, parameters) {
  const defs = parameters.$defs ?? {};
  const outer = resolve(schema, defs);
  const inner = withoutNull(outer, defs);
  const { default: initial, description = inner.description ?? "" } = outer;
  return {
    name,
    description,
    default: initial,
    ui: outer["x-reactor-ui"] ?? {},
    examples: outer.examples,
    hasDefault: initial !== undefined,
    optional: inner !== outer,
    ...shape(inner),
  };
}

function shape(schema) {
  if ("const" in schema) return { kind: "choice", choices: [schema.const] };
  if (Array.isArray(schema.enum)) return { kind: "choice", choices: schema.enum };
  if (schema.type === "boolean") return { kind: "switch" };
  if (schema.type === "string") return { kind: "text" };
  if (schema.type === "integer" || schema.type === "number") return numeric(schema);
  if (schema.format === "upload") return { kind: "file" };
  return { kind: "json", empty: schema.type === "array" ? [] : schema.type === "object" ? {} : null };
}

function numeric(schema) {
  const integer = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const given = schema.multipleOf ?? (integer ? 1 : null);
  if (low === undefined || high === undefined) return { kind: "number", integer, step: given ?? "any" };
  const step = given ?? niceStep(high - low);
  let min = given ? round(Math.ceil(round(low / step)) * step) : low;
  let max = given ? round(Math.floor(round(high / step)) * step) : high;
  if (schema.exclusiveMinimum >= min) min = round(min + step);
  if (schema.exclusiveMaximum <= max) max = round(max - step);
  return { kind: "range", integer, min, max, step };
}

/** Return 1, 2 or 5 times a power of ten that gives a slider at least 100 positions and ends on its maximum. */
function niceStep(span) {
  const power = 10 ** Math.floor(Math.log10(span / 100));
  const steps = [5, 2, 1, 0.5, 0.2, 0.1]
    .map((factor) => round(factor * power))
    .filter((step) => step <= round(span / 100));
  return steps.find((step) => Number.isInteger(round(span / step))) ?? (span > 0 ? span / 100 : "any");
}

/** Remove the noise of binary fractions: 0.1 + 0.2 is 0.3 on a slider. */
const round = (value) => Number(value.toPrecision(12));

function resolve(schema, defs) {
  const target = defs[schema.$ref?.split("/").at(-1)];
  return target ? resolve({ ...target, ...schema, $ref: target.$ref }, defs) : schema;
}

function withoutNull(schema, defs) {
  const options = schema.anyOf?.map((option) => resolve(option, defs));
  if (!options?.some(({ type }) => type === "null")) return schema;
  const rest = options.filter(({ type }) => type !== "null");
  return rest.length === 1 ? rest[0] : { anyOf: rest };
}
