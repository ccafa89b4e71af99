/**
 * The controls of a model, made from the schema in reactor.welcome: a row for each state field, a button or form for
 * other events.
 */

import { ConnectionLost } from "../client/reactor.js";
import { el, humanise, newId, setText } from "../dom.js";
import { findMainText } from "../prompt.js";
import { describeParameter, nameChoice } from "./parameters.js";
import { throttledSender } from "./throttle.js";
import { makeWidget } from "./widgets.js";

// With more forms than this, all start closed.
const OPEN_FORMS = 2;
const STYLES = ["live", "button", "form"];
const BOUND = "Keys and pointer";

export class Controls {
  #fieldset;
  #resetAll;
  #send;
  #promptBar;
  #presets;
  #schema = null;
  #live = [];

  /** `send(event, data, inputAt)` is as for LiveControl; `promptBar` is the control of the model's main text. */
  constructor(fieldset, resetAll, send, promptBar) {
    this.#promptBar = promptBar;
    this.#presets = Object.entries(JSON.parse(fieldset.dataset.presets ?? "{}"));
    this.#fieldset = fieldset;
    this.#resetAll = resetAll;
    this.#send = send;
    resetAll.onclick = () => this.#live.forEach((control) => control.isDefault || control.reset());
    document.addEventListener("controlchange", () => this.#update());
    this.#placeholder("Controls appear when the model is ready");
  }

  set enabled(enabled) {
    this.#fieldset.disabled = !enabled;
    this.#promptBar.enabled = enabled;
    if (enabled) this.#fieldset.parentElement.removeAttribute("tabindex");
    // Disabled controls take no focus; without one, the keyboard could not scroll the panel.
    else this.#fieldset.parentElement.tabIndex = 0;
    this.#update();
  }

  /** Start a session; with the same schema the elements stay, so that nothing moves during use. */
  restart(events, state) {
    const schema = JSON.stringify(events);
    if (schema !== this.#schema) this.#build(Object.entries(events).map(readEvent));
    this.#schema = schema;
    for (const control of this.#live) control.restart(state[control.field]);
  }

  /** Return the values that differ from the defaults, by field. */
  get values() {
    return Object.fromEntries(
      this.#live.map(({ field, changed }) => [field, changed]).filter(([, value]) => value !== undefined),
    );
  }

  /** Set fields as the user would; return the names without a control. */
  set(values) {
    for (const control of this.#live) if (Object.hasOwn(values, control.field)) control.set(values[control.field]);
    return Object.keys(values).filter((name) => !this.#live.some(({ field }) => field === name));
  }

  /** Show changed fields. */
  follow(state) {
    for (const control of this.#live) {
      if (Object.hasOwn(state, control.field)) control.follow(state[control.field]);
    }
  }

  #build(events) {
    const main = findMainText(events);
    this.#promptBar.begin(main);
    this.#promptBar.enabled = !this.#fieldset.disabled;
    const manyForms = events.filter(({ style }) => style === "form").length > OPEN_FORMS;
    const make = ({ style, name, event, field, specs }) =>
      style === "live"
        ? new LiveControl(name, { ...event, field, inState: Boolean(event.field) }, specs[0], this.#send)
        : { root: makeAction(name, event, specs, this.#send, manyForms) };
    const parts = events.filter((event) => event !== main).map((event) => ({ ...event, control: make(event) }));
    const live = parts.filter(({ style }) => style === "live").map(({ control }) => control);
    this.#live = main ? [this.#promptBar, ...live] : live;
    const sections = new Map();
    for (const part of parts.sort(byOrder)) {
      const name = sectionOf(part);
      sections.set(name, [...(sections.get(name) ?? []), part]);
    }
    const named = [...sections.keys()].filter((name) => name && name !== BOUND);
    const layOut = (name) => makeSection(name, sections.get(name) ?? []);
    this.#fieldset.replaceChildren(...this.#makePresets(), ...["", ...named, BOUND].flatMap(layOut));
    if (!events.length) this.#placeholder("This model takes no input.");
  }

  /** Make a button for each preset of the manifest; it sends the values of the fields that the model has. */
  #makePresets() {
    if (!this.#live.length) return [];
    const buttons = this.#presets.map(([name, values]) =>
      el("button", { type: "button", class: "example", onclick: () => this.set(values) }, name),
    );
    return buttons.length ? [el("div", { class: "examples", role: "group", "aria-label": "Presets" }, ...buttons)] : [];
  }

  #placeholder(text) {
    this.#fieldset.replaceChildren(el("p", { class: "placeholder" }, text));
  }

  #update() {
    this.#resetAll.hidden = this.#fieldset.disabled || this.#live.every(({ isDefault }) => isDefault);
  }
}

const byOrder = (a, b) => a.order - b.order;

/** Return the group that the author named, that of controls bound to devices, or "". */
function sectionOf({ event, specs }) {
  const group = specs.find(({ ui }) => ui.group)?.ui.group;
  const isBound = event.parameters?.["x-reactor-bind"] || specs.some(({ bound }) => bound);
  return group ?? (isBound ? BOUND : "");
}

function makeSection(name, parts) {
  const groups = STYLES.flatMap((wanted) => {
    const roots = parts.filter(({ style }) => style === wanted).map(({ control }) => control.root);
    return roots.length ? [el("div", { class: `group ${wanted}s` }, ...roots)] : [];
  });
  if (!name || !parts.length) return groups;
  return [el("details", { class: "section", open: name !== BOUND }, el("summary", {}, name), ...groups)];
}

function readEvent([name, event]) {
  const properties = Object.entries(event.parameters?.properties ?? {});
  const specs = properties.map(([parameter, schema]) => describeParameter(parameter, schema, event.parameters));
  // An event set_x with one parameter x is a control too: it shows the value that was sent.
  const setsOne = specs.length === 1 && name === `set_${specs[0].name}`;
  const field = event.field ?? (setsOne ? specs[0].name : undefined);
  const style = specs.length === 0 ? "button" : field && specs.length === 1 ? "live" : "form";
  specs.sort((a, b) => (a.ui.order ?? 0) - (b.ui.order ?? 0));
  return { name, event, field, specs, style, order: specs[0]?.ui.order ?? 0 };
}

// The state message follows the reply closely; until then the user's value stays.
const SETTLE_MS = 250;

class LiveControl {
  #event;
  #spec;
  #send;
  #row;
  #sender;
  #reset;
  #known;
  #inState;
  #edited = false;
  #settleTimer = 0;

  /** `send(event, data, inputAt)` resolves to the reply and rejects as Session.send does. */
  constructor(event, { field, description, inState }, spec, send) {
    this.field = field;
    this.#inState = inState;
    this.#event = event;
    this.#spec = spec;
    this.#send = send;
    this.#known = spec.default;
    this.#sender = throttledSender((value, inputAt) => this.#deliver(value, inputAt));
    const labels = { title: `Reset to ${JSON.stringify(spec.default)}`, "aria-label": `Reset ${labelOf(spec, field)}` };
    this.#reset = el(
      "button",
      { ...labels, type: "button", class: "reset idle", onclick: () => this.#resetByHand() },
      "↺",
    );
    this.#row = makeRow(spec, field, spec.description || description, {
      live: true,
      edited: () => this.#update(true),
      commit: () => this.#commit(),
      reset: this.#reset,
      error: { "data-error-for": event },
    });
    this.root = this.#row.root;
    this.root.dataset.event = event;
    this.root.addEventListener("keydown", ({ key }) => key === "Escape" && this.#settle());
  }

  get isDefault() {
    if (!this.#spec.hasDefault) return true;
    try {
      return JSON.stringify(this.#row.widget.read()) === JSON.stringify(this.#spec.default);
    } catch {
      // A value that cannot be read is not the default.
      return false;
    }
  }

  /** Return the model's value; undefined for the default, and for a file, which only this session knows. */
  get changed() {
    if (this.#spec.kind === "file") return undefined;
    return this.#spec.hasDefault && JSON.stringify(this.#known) === JSON.stringify(this.#spec.default)
      ? undefined
      : this.#known;
  }

  set(value) {
    this.#row.widget.write(value);
    this.#commit();
  }

  reset() {
    this.set(this.#spec.default);
  }

  /** Take the model's value, from reactor.state; show it when the user is not editing. */
  follow(value) {
    this.#known = value;
    if (this.#busy) this.#settleSoon();
    else this.#settle();
  }

  /** Start a session with its state; only a value that was typed and not sent is kept. */
  restart(value = this.#spec.default) {
    this.#known = value;
    if (!this.#edited) this.#settle();
  }

  /** Reset; the button disappears, so the focus moves to the control. */
  #resetByHand() {
    this.reset();
    this.root.querySelector("[name]").focus();
  }

  get #busy() {
    return this.#edited || this.#sender.busy || this.#row.widget.held();
  }

  #settle() {
    this.#row.fail("");
    if (this.#known !== undefined) this.#row.widget.write(this.#known);
    this.#update(false);
  }

  #settleSoon() {
    clearTimeout(this.#settleTimer);
    this.#settleTimer = setTimeout(() => {
      if (this.#row.widget.held()) this.#settleSoon();
      else if (!this.#busy && !this.#row.failed) this.#settle();
    }, SETTLE_MS);
  }

  #commit() {
    try {
      const value = this.#row.widget.read();
      if (value === undefined) throw new Error("a value is needed");
      this.#sender.push(value);
    } catch (error) {
      this.#row.fail(error.message);
    }
    this.#update(false);
  }

  async #deliver(value, inputAt) {
    try {
      await this.#send(this.#event, { [this.#spec.name]: value }, inputAt);
      // No message of the state follows.
      if (!this.#inState) this.#known = value;
      this.#row.fail("");
    } catch (error) {
      if (!(error instanceof ConnectionLost))
        this.#row.fail(errorsOf(error, this.#event, this.#spec.name) || error.message);
    }
    this.#settleSoon();
  }

  #update(edited) {
    this.#edited = edited;
    this.#reset.classList.toggle("idle", this.isDefault);
    this.root.toggleAttribute("data-edited", edited);
    this.root.dispatchEvent(new Event("controlchange", { bubbles: true }));
  }
}

/** Make a button, or a form for an event with parameters, closed if there are many forms; `send` is as for LiveControl. */
function makeAction(event, { description, parameters }, specs, send, manyForms) {
  const folded = manyForms || parameters?.["x-reactor-bind"];
  const rows = specs.map((spec) =>
    makeRow(spec, spec.name, spec.description, { error: { "data-error-param": spec.name } }),
  );
  const button = el("button", { class: "button", title: event }, humanise(event));
  const error = el("p", { class: "error", "data-error-for": event, "aria-live": "polite" });
  const hint = makeHint(description);
  const submitted = async (submit) => {
    submit.preventDefault();
    const values = readAll(rows);
    if (!values) return;
    button.dataset.busy = "";
    const failure = await send(event, values, performance.now()).then(
      () => null,
      (reason) => reason,
    );
    delete button.dataset.busy;
    if (failure instanceof ConnectionLost) return;
    error.textContent = failure?.message ?? "";
    for (const { name, fail } of rows) fail(failure ? errorsOf(failure, event, name) : "");
  };
  const parts = rows.length ? [...hint, ...rows.map(({ root }) => root), button] : [button, ...hint];
  const form = el("form", { novalidate: true, onsubmit: submitted }, ...parts, error);
  const outside = { class: "action", "data-event": event };
  if (!rows.length) return el("div", outside, form);
  return el("details", { ...outside, open: !folded }, el("summary", { title: event }, humanise(event)), form);
}

/** Read all arguments, without those that have no value; return null if one is invalid, and show why. */
function readAll(rows) {
  const values = {};
  let readable = true;
  for (const { name, widget, fail } of rows) {
    fail("");
    try {
      const value = widget.read();
      if (value !== undefined) values[name] = value;
    } catch (failure) {
      fail(failure.message);
      readable = false;
    }
  }
  return readable ? values : null;
}

const labelOf = ({ ui }, name) => ui.label || humanise(name);

/**
 * `options`: live, edited, commit for the widget; reset, a button beside the label; error, attributes of the error
 * element.
 */
function makeRow(spec, name, description, { error, reset = null, ...options }) {
  const [id, hintId, errorId] = [newId(), newId(), newId()];
  const label = labelOf(spec, name);
  const widget = makeWidget(spec, { id, label, describedBy: `${hintId} ${errorId}`, ...options });
  const place = el("p", { class: "error", id: errorId, "aria-live": "polite", ...error });
  const root = el(
    "div",
    { class: "control", "data-kind": spec.kind, "data-widget": spec.widget },
    el("div", { class: "control-head" }, el("label", { for: id, title: name }, label), reset, widget.aside),
    ...makeHint(description?.toLowerCase() === label.toLowerCase() ? "" : description, hintId),
    widget.main,
    ...makeExamples(spec, label, (value) => {
      widget.write(value);
      options.commit?.();
    }),
    place,
  );
  const fail = (text) => {
    setText(place, text);
    for (const input of root.querySelectorAll("input, select, textarea")) input.ariaInvalid = text !== "";
  };
  return {
    name: spec.name,
    root,
    widget,
    fail,
    get failed() {
      return place.textContent !== "";
    },
  };
}

function makeExamples({ examples }, label, choose) {
  if (!examples.length) return [];
  const buttons = examples.map((value) => {
    const name = nameChoice(value);
    return el("button", { type: "button", class: "example", title: name, onclick: () => choose(value) }, name);
  });
  return [el("div", { class: "examples", role: "group", "aria-label": `${label}, examples` }, ...buttons)];
}

/** Return the errors of one parameter as text, with the rest of a deeper path (`pose.x`, `steps[2]`). */
function errorsOf({ fields = [] }, event, parameter) {
  const start = `${event}.${parameter}`;
  const text = ({ path = "", message = "" }) => {
    const rest = path.slice(start.length);
    return path.startsWith(start) && /^([.[]|$)/.test(rest) ? (rest && `${parameter}${rest}: `) + message : "";
  };
  return fields.map(text).filter(Boolean).join("; ");
}

// Characters that fit in three lines on the narrowest page.
const CERTAINLY_SHORT = 100;

/** Return the elements of a description; a long one shows three lines and a switch for the rest. */
function makeHint(text = "", id = newId()) {
  const hint = el("p", { class: "hint", id }, text);
  if (text.length <= CERTAINLY_SHORT) return [hint];
  // Not a button: those are disabled for viewers.
  const more = el("span", { class: "more", role: "button", tabindex: 0, "aria-controls": id, hidden: true });
  const show = (open) => {
    hint.toggleAttribute("data-clamped", !open);
    more.ariaExpanded = String(open);
    setText(more, open ? "less" : "more");
  };
  const toggle = () => show(more.ariaExpanded !== "true");
  const fit = () => (more.hidden = more.ariaExpanded !== "true" && hint.scrollHeight <= hint.clientHeight);
  more.addEventListener("click", toggle);
  more.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  new ResizeObserver(fit).observe(hint);
  show(false);
  return [hint, more];
}
