/** Shows values of the model over the frame: those fields of its state and messages that have a widget in the schema. */

import { loadStyle } from "../browser.js";
import { el, humanise, setText } from "../dom.js";
import { asClock, asText } from "./texts.js";

await loadStyle(new URL("values.css", import.meta.url));

export class Values {
  #root = el("div", { class: "values", role: "group", "aria-label": "Values", hidden: true });
  #session = null;
  #declared = "";
  // the type of a message, "" for the state → {field: Value}
  #owners = {};

  /** `stage` is the element around the canvases. */
  constructor(stage) {
    stage.append(this.#root);
  }

  /** Show what a schema declares. In the same session, values that were received stay. */
  begin(session, { fields, messages }, state) {
    const before = session === this.#session ? this.#owners : {};
    const declared = JSON.stringify([fields, messages]);
    if (session !== this.#session || declared !== this.#declared) {
      const owners = { "": fields };
      for (const [type, { data }] of Object.entries(messages)) owners[type] = data.properties;
      this.#owners = Object.fromEntries(Object.entries(owners).map(([owner, each]) => [owner, valuesOf(each)]));
      const values = Object.values(this.#owners).flatMap((each) => Object.values(each));
      this.#root.replaceChildren(...values.map(({ root }) => root));
      for (const [owner, each] of Object.entries(before))
        for (const [name, { last }] of Object.entries(each)) this.#show(owner, { [name]: last });
    }
    this.#session = session;
    this.#declared = declared;
    this.follow(state);
  }

  /** Show changes of the state. */
  follow(changes) {
    this.#show("", changes);
  }

  /** Show the fields of a message. */
  receive(type, data) {
    this.#show(type, data);
  }

  #show(owner, data) {
    const values = this.#owners[owner] ?? {};
    for (const [name, value] of Object.entries(data)) values[name]?.show(value);
    this.#root.hidden = [...this.#root.children].every(({ hidden }) => hidden);
  }
}

/** Return the Values of an object's properties, by name; none for those without a widget. */
const valuesOf = (properties = {}) =>
  Object.fromEntries(
    Object.entries(properties)
      .filter(([, schema]) => WIDGETS[schema["x-reactor-ui"]?.widget])
      .map(([name, schema]) => [name, new Value(name, schema)]),
  );

/** One value: its label and its widget. It is hidden until the model has sent it. */
class Value {
  root;
  last;
  #show;

  constructor(name, schema) {
    const { widget, label, unit = "" } = schema["x-reactor-ui"];
    const text = label || humanise(name);
    const { element, show } = WIDGETS[widget]({ label: text, unit, schema });
    const attributes = { class: "value over", "data-widget": widget, hidden: true, title: schema.description };
    this.root = el("div", attributes, el("span", {}, text), element);
    this.#show = show;
  }

  show(value) {
    if (value === undefined || value === this.last) return;
    this.last = value;
    this.root.hidden = false;
    this.#show(value);
  }
}

// widget → function that makes its element, and one that shows a value in it
const WIDGETS = {
  value: ({ unit }) => {
    const element = el("b");
    return { element, show: (value) => setText(element, asText(value, unit)) };
  },

  clock: () => {
    const element = el("b");
    return { element, show: (value) => setText(element, asClock(value)) };
  },

  light: () => {
    const element = el("span", { class: "value-light", role: "img" });
    const show = (value) => {
      element.toggleAttribute("data-on", Boolean(value));
      element.ariaLabel = value === null ? "unknown" : value ? "on" : "off";
    };
    return { element, show };
  },

  bar: ({ label, unit, schema }) => {
    const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = withoutNull(schema);
    const [low, high] = [minimum ?? exclusiveMinimum ?? 0, maximum ?? exclusiveMaximum ?? 1];
    const range = { "aria-valuemin": low, "aria-valuemax": high };
    const fill = el("i");
    const text = el("b");
    const meter = el("span", { class: "value-bar", role: "meter", "aria-label": label, ...range }, fill);
    const show = (value) => {
      const share = high > low ? (value - low) / (high - low) : 0;
      fill.style.setProperty("--share", String(Math.min(1, Math.max(0, share))));
      meter.setAttribute("aria-valuenow", String(Math.min(high, Math.max(low, value ?? low))));
      meter.setAttribute("aria-valuetext", asText(value, unit));
      setText(text, asText(value, unit));
    };
    return { element: el("span", { class: "value-meter" }, meter, text), show };
  },
};

const withoutNull = (schema) => schema.anyOf?.find(({ type }) => type !== "null") ?? schema;
