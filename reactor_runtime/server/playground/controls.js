/** The panel of controls, made from the schema in reactor.welcome. */

import { el } from "./dom.js";
import { makeAction } from "./action.js";
import { LiveControl } from "./live.js";
import { describeParameter } from "./schema.js";

const OPEN_FORMS = 2; // more forms than this start folded

export class Controls {
  #fieldset;
  #resetAll;
  #send;
  #schema = null;
  #live = [];

  /** `send(event, data, inputAt)` as LiveControl wants it. */
  constructor(fieldset, resetAll, send) {
    this.#fieldset = fieldset;
    this.#resetAll = resetAll;
    this.#send = send;
    resetAll.onclick = () => this.#live.forEach((control) => control.isDefault || control.reset());
    fieldset.addEventListener("controlchange", () => this.#mark());
    this.#placeholder("The controls come with the model.");
  }

  set enabled(enabled) {
    this.#fieldset.disabled = !enabled;
    if (enabled) this.#fieldset.parentElement.removeAttribute("tabindex");
    else this.#fieldset.parentElement.tabIndex = 0; // nothing in it takes the keyboard, which could not scroll it
    this.#mark();
  }

  /** A new session; the same schema as before keeps the elements, so that nothing moves under the user's hand. */
  restart(events, state) {
    const schema = JSON.stringify(events);
    if (schema !== this.#schema) this.#build(Object.entries(events).map(readEvent));
    this.#schema = schema;
    for (const control of this.#live) control.restart(state[control.field]);
  }

  /** What differs from the defaults, by field. */
  get values() {
    return Object.fromEntries(this.#live.map(({ field, changed }) => [field, changed]).filter(([, value]) => value !== undefined));
  }

  /** Set fields as if by hand; returns the names of those there are no controls for. */
  set(values) {
    for (const control of this.#live) if (Object.hasOwn(values, control.field)) control.set(values[control.field]);
    return Object.keys(values).filter((name) => !this.#live.some(({ field }) => field === name));
  }

  /** Show the fields that changed. */
  follow(state) {
    for (const control of this.#live) {
      if (Object.hasOwn(state, control.field)) control.follow(state[control.field]);
    }
  }

  #build(events) {
    const ofStyle = (style) => events.filter((event) => event.style === style);
    const forms = ofStyle("form");
    const action = ({ name, event, specs }) => makeAction(name, event.description, specs, this.#send, forms.length > OPEN_FORMS || event.parameters["x-reactor-bind"]);
    this.#live = ofStyle("live").map(({ name, event, specs }) => new LiveControl(name, event, specs[0], this.#send));
    this.#fieldset.replaceChildren(
      ...group("live", this.#live.map(({ root }) => root)),
      ...group("buttons", ofStyle("button").map(action)),
      ...group("forms", forms.map(action)),
    );
    if (!events.length) this.#placeholder("This model takes no input. Watch.");
  }

  #placeholder(words) {
    this.#fieldset.replaceChildren(el("p", { class: "placeholder" }, words));
  }

  #mark() {
    this.#resetAll.hidden = this.#fieldset.disabled || this.#live.every(({ isDefault }) => isDefault);
  }
}

const group = (name, elements) => (elements.length ? [el("div", { class: `group ${name}` }, ...elements)] : []);

function readEvent([name, event]) {
  const properties = Object.entries(event.parameters?.properties ?? {});
  const specs = properties.map(([parameter, schema]) => describeParameter(parameter, schema, event.parameters));
  const style = specs.length === 0 ? "button" : event.field && specs.length === 1 ? "live" : "form";
  return { name, event, specs, style };
}
