/** The control of one value: it sends each change, and follows the model's state. */

import { ConnectionLost } from "../client/errors.js";
import { el } from "../dom.js";
import { errorsOf, labelOf, makeRow } from "./rows.js";
import { throttledSender } from "./throttle.js";

// The state message follows the reply closely; until then the user's value stays.
const SETTLE_MS = 250;
const NUMBERS = ["number", "range", "pair"];

export class LiveControl {
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
    this.#row.fail("");
    if (!this.#edited) this.#settle();
  }

  /** Take what the user has typed, and a value that no state has, from the control that this one replaces. */
  adopt(old) {
    if (!(old instanceof LiveControl) || !(old.#edited || !this.#inState)) return;
    this.#row.adopt(old.#row);
    if (old.#edited) this.#update(true);
    else this.#known = this.#row.widget.read();
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
      if (value === undefined) throw new Error(NUMBERS.includes(this.#spec.kind) ? "Enter a number" : "Enter a value");
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
