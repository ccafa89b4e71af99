/**
 * The controls of a model, made from the schema in reactor.welcome: a row for each state field, a button or form for
 * other events.
 */

import { el } from "../dom.js";
import { findMainText } from "../prompt.js";
import { Action } from "./actions.js";
import { arrange, Layout } from "./layout.js";
import { LiveControl } from "./live_control.js";
import { describeParameter } from "./parameters.js";
import { thumbnailOf } from "./thumbnails.js";

// With more forms than this, all start closed.
const OPEN_FORMS = 2;

/** Return the events that a client may send: of those for the host, none from another seat. */
export const eventsOf = (events, isHost) =>
  isHost ? events : Object.fromEntries(Object.entries(events).filter(([, { host }]) => !host));

export class Controls {
  #fieldset;
  #resetAll;
  #send;
  #promptBar;
  #presets;
  #schema = null;
  #takesMedia = false;
  #layout = new Layout();
  // Name of an event → {text: its schema, control}
  #kept = new Map();
  #live = [];
  // Whether this client is in the first seat, and may set what is for all.
  isHost = true;

  /** `send(event, data, inputAt)` is as for LiveControl; `promptBar` is the control of the model's main text. */
  constructor(fieldset, resetAll, send, promptBar) {
    this.#promptBar = promptBar;
    this.#fieldset = fieldset;
    this.readPresets();
    this.#resetAll = resetAll;
    this.#send = send;
    resetAll.onclick = () => this.#live.forEach((control) => control.isDefault || control.reset());
    document.addEventListener("controlchange", () => this.#update());
    fieldset.replaceChildren(makePlaceholder("Controls appear when the model is ready"));
  }

  set enabled(enabled) {
    this.#fieldset.disabled = !enabled;
    this.#promptBar.enabled = enabled;
    if (enabled) this.#fieldset.parentElement.removeAttribute("tabindex");
    // Disabled controls take no focus; without one, the keyboard could not scroll the panel.
    else this.#fieldset.parentElement.tabIndex = 0;
    this.#update();
  }

  /** Start a session. */
  restart(events, state, tracks) {
    this.update(events, state, tracks);
    for (const { control } of this.#kept.values()) control.restart(state[control.field]);
    if (this.hasPrompt) this.#promptBar.restart(state[this.#promptBar.field]);
  }

  /** Show the controls of these events; those that stay keep their elements, so that nothing moves during use. */
  update(events, state, tracks) {
    // Their panels are elsewhere.
    const takesMedia = tracks.some(({ direction }) => direction === "in");
    const own = eventsOf(events, this.isHost);
    const schema = JSON.stringify([own, takesMedia]);
    if (schema === this.#schema) return;
    this.#schema = schema;
    this.#takesMedia = takesMedia;
    this.#build(Object.entries(own).map(readEvent), state);
    this.#update();
  }

  /** Read the presets of the manifest, which the fieldset holds; the next update shows them. */
  readPresets() {
    this.#presets = this.#makePresets(JSON.parse(this.#fieldset.dataset.presets ?? "{}"));
    this.#schema = null;
  }

  /** Whether the model has a main text, which the prompt bar controls. */
  get hasPrompt() {
    return this.#live.includes(this.#promptBar);
  }

  /** Return the model's main text; null without one. */
  get prompt() {
    return this.hasPrompt ? this.#promptBar.known : null;
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

  #build(events, state) {
    const main = findMainText(events);
    this.#promptBar.begin(main, this.#presets);
    this.#promptBar.enabled = !this.#fieldset.disabled;
    const manyForms = events.filter(({ style }) => style === "form").length > OPEN_FORMS;
    const rest = events.filter((event) => event !== main);
    const parts = rest.map((event) => ({ ...event, control: this.#makeOrKeep(event, state, manyForms) }));
    this.#kept = new Map(parts.map(({ name, event, control }) => [name, { text: JSON.stringify(event), control }]));
    const live = parts.filter(({ style }) => style === "live").map(({ control }) => control);
    this.#live = main ? [this.#promptBar, ...live] : live;
    const presets = this.#live.length && !main ? this.#presets : [];
    const hasInput = events.length || this.#takesMedia;
    const placeholder = hasInput ? [] : [makePlaceholder("This model takes no input.")];
    arrange(this.#fieldset, [...presets, ...this.#layout.arrange(parts), ...placeholder]);
  }

  /** Return the control of an event: the one there is, unless the event has changed. */
  #makeOrKeep({ style, name, event, field, specs }, state, manyForms) {
    const old = this.#kept.get(name);
    if (old?.text === JSON.stringify(event)) return old.control;
    if (style !== "live") return new Action(name, event, specs, this.#send, { folded: manyForms, old: old?.control });
    const control = new LiveControl(name, { ...event, field, inState: Boolean(event.field) }, specs[0], this.#send);
    control.restart(state[field]);
    control.adopt(old?.control);
    return control;
  }

  /** Make a group of cards, one for each preset; a card sends the values of the fields that the model has. */
  #makePresets(presets) {
    const cards = Object.entries(presets).map(([name, values]) => {
      const text = Object.values(values).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
      return el(
        "button",
        { type: "button", class: "preset plate", "aria-label": name, onclick: () => this.set(values) },
        thumbnailOf(values),
        el("b", {}, name),
        el("span", { "aria-hidden": "true" }, text.join(" · ")),
      );
    });
    return cards.length ? [el("div", { class: "presets", role: "group", "aria-label": "Presets" }, ...cards)] : [];
  }

  #update() {
    this.#resetAll.hidden = this.#fieldset.disabled || this.#live.every(({ isDefault }) => isDefault);
  }
}

const makePlaceholder = (text) => el("p", { class: "placeholder" }, text);

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
