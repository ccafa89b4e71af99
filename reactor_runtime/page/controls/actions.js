/** The button or form of an event that is no control of a value. */

import { ConnectionLost } from "../client/reactor.js";
import { el, humanise } from "../dom.js";
import { errorsOf, makeHint, makeRow } from "./rows.js";

export class Action {
  root;
  #event;
  #send;
  #rows;
  #button;
  #error;

  /**
   * Make a button, or a form for an event with parameters; `send` is as for LiveControl. `options`: folded, whether the
   * form starts closed; old, the control that this one replaces, or nothing.
   */
  constructor(event, { description, parameters }, specs, send, { folded, old }) {
    this.#event = event;
    this.#send = send;
    this.#rows = specs.map((spec) =>
      makeRow(spec, spec.name, spec.description, { error: { "data-error-param": spec.name } }),
    );
    this.#button = el("button", { class: "button", title: event }, humanise(event));
    this.#error = el("p", { class: "error", "data-error-for": event, "aria-live": "polite" });
    const hint = makeHint(description);
    const rows = this.#rows.map(({ root }) => root);
    const parts = rows.length ? [...hint, ...rows, this.#button] : [this.#button, ...hint];
    const onsubmit = (submit) => {
      submit.preventDefault();
      this.#submit();
    };
    const form = el("form", { novalidate: true, onsubmit }, ...parts, this.#error);
    const outside = { class: "action", "data-event": event };
    const open = old?.root.open ?? !(folded || parameters?.["x-reactor-bind"]);
    this.root = rows.length
      ? el("details", { ...outside, open }, el("summary", { title: event }, humanise(event)), form)
      : el("div", outside, form);
    if (old instanceof Action) for (const row of this.#rows) row.adopt(old.#rows.find(({ name }) => name === row.name));
  }

  /** Start a session: the errors of the one before are over. */
  restart() {
    this.#error.textContent = "";
    for (const { fail } of this.#rows) fail("");
  }

  async #submit() {
    const values = readAll(this.#rows);
    if (!values) return;
    this.#button.dataset.busy = "";
    const failure = await this.#send(this.#event, values, performance.now()).then(
      () => null,
      (reason) => reason,
    );
    delete this.#button.dataset.busy;
    if (failure instanceof ConnectionLost) return;
    this.#error.textContent = failure?.message ?? "";
    for (const { name, fail } of this.#rows) fail(failure ? errorsOf(failure, this.#event, name) : "");
  }
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
