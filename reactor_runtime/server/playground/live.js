/** A control that is the value of one state field: sends what the user sets, shows what the model has. */

import { el, humanise } from "./dom.js";
import { ConnectionLost } from "./client/reactor.js";
import { newestSender } from "./client/newest.js";
import { about, makeRow } from "./row.js";

const SETTLE_MS = 250; // the state message follows the reply closely; until then the user's value stands

export class LiveControl {
  #event;
  #spec;
  #send;
  #row;
  #sender;
  #reset;
  #known;
  #edited = false;
  #settleTimer = 0;

  /** `send(event, data, inputAt)` resolves to the reply and rejects as Session.send does. */
  constructor(event, { field, description }, spec, send) {
    this.field = field;
    this.#event = event;
    this.#spec = spec;
    this.#send = send;
    this.#known = spec.default;
    this.#sender = newestSender((value, inputAt) => this.#deliver(value, inputAt));
    const words = { title: `Reset to ${JSON.stringify(spec.default)}`, "aria-label": `Reset ${humanise(field)}` };
    this.#reset = el("button", { ...words, type: "button", class: "reset idle", onclick: () => this.#resetByHand() }, "↺");
    this.#row = makeRow(spec, field, spec.description || description, {
      live: true, edited: () => this.#mark(true), commit: () => this.#commit(), reset: this.#reset, error: { "data-error-for": event },
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
      return false; // what can't be read is no default
    }
  }

  /** What the model has; undefined while that is the default, and for a file, which is known in this session alone. */
  get changed() {
    if (this.#spec.kind === "file") return undefined;
    return this.#spec.hasDefault && JSON.stringify(this.#known) === JSON.stringify(this.#spec.default) ? undefined : this.#known;
  }

  set(value) {
    this.#row.widget.write(value);
    this.#commit();
  }

  reset() {
    this.set(this.#spec.default);
  }

  /** The model's value, from reactor.state; waits while the user is at it. */
  follow(value) {
    this.#known = value;
    if (this.#busy) this.#settleSoon();
    else this.#settle();
  }

  /** A new session: its state holds; only what was typed and not sent yet is kept. */
  restart(value = this.#spec.default) {
    this.#known = value;
    if (!this.#edited) this.#settle();
  }

  /** The button goes once the value is the default; the keyboard's place must not go with it. */
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
    this.#mark(false);
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
    this.#mark(false);
  }

  async #deliver(value, inputAt) {
    try {
      await this.#send(this.#event, { [this.#spec.name]: value }, inputAt);
      this.#row.fail("");
    } catch (error) {
      if (!(error instanceof ConnectionLost)) this.#row.fail(about(error, this.#event, this.#spec.name) || error.message);
    }
    this.#settleSoon();
  }

  #mark(edited) {
    this.#edited = edited;
    this.#reset.classList.toggle("idle", this.isDefault);
    this.root.toggleAttribute("data-edited", edited);
    this.root.dispatchEvent(new Event("controlchange", { bubbles: true }));
  }
}
