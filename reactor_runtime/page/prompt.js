/** The prompt bar below the stage: the control of the model's main text. */

/** @import { Session } from "./client/reactor.js" */

import { ConnectionLost } from "./client/reactor.js";
import { thumbnailOf } from "./controls/thumbnails.js";
import { el, humanise, newId, setText } from "./dom.js";
import { recall, remember } from "./storage.js";

const MOST_KEPT = 50;
// Safari reports the key that ends a composition after its end.
const COMPOSED = 229;

/** Return the event of the model's main text: a prominent one, or the first live one named `prompt`. */
export function findMainText(events) {
  const texts = events.filter(({ style, specs }) => style === "live" && specs[0].kind === "text");
  return texts.find(({ specs }) => specs[0].ui.prominent) ?? texts.find(({ specs }) => specs[0].name === "prompt");
}

/** A control like those of the panel: with `field`, `changed`, `isDefault`, set(), reset(), follow() and restart(). */
export class PromptBar {
  field = "";
  #session;
  #place;
  #send;
  #event = "";
  // Its schema.
  #text = "";
  #spec = null;
  #area;
  #fieldset;
  #presets = el("div", { class: "prompt-presets" });
  #mark;
  #error;
  #known;
  #edited = false;
  // The number of the newest event that was sent, until a frame shows it.
  #awaited = null;
  #sendings = 0;
  #history = new History();

  /**
   * `send(event, data, inputAt)` resolves to the reply and rejects as Session.send does.
   * @param {HTMLElement} place
   * @param {Session} session
   * @param {(event: string, data: object, inputAt: number) => Promise<{ n?: number }>} send
   */
  constructor(place, session, send) {
    this.#place = place;
    this.#session = session;
    this.#send = send;
    session.addEventListener("painted", ({ detail }) => {
      if (this.#awaited !== null && detail.applied >= this.#awaited) this.#show("applied");
    });
  }

  /**
   * Show the control of an event, as findMainText returns it, below the `presets`; nothing without one. A typed text
   * stays.
   */
  begin(event, presets) {
    const text = JSON.stringify(event?.event);
    // A card that has the focus would lose it.
    if (this.#presets.firstChild !== presets[0]) this.#presets.replaceChildren(...presets);
    if (this.#event === event?.name && this.#text === text) return;
    const typed = event && this.#spec && this.#edited ? this.#area.value : null;
    this.field = event?.field ?? "";
    this.#event = event?.name ?? "";
    this.#text = text;
    this.#spec = event?.specs[0] ?? null;
    this.#edited = false;
    this.#place.replaceChildren(...(event ? [this.#layOut(event)] : []));
    if (event) this.restart(this.#session.state[this.field]);
    if (typed !== null) {
      this.#area.value = typed;
      this.#edit();
    }
  }

  set enabled(enabled) {
    if (this.#spec) this.#fieldset.disabled = !enabled;
  }

  get isDefault() {
    return !this.#spec.hasDefault || this.#read() === this.#spec.default;
  }

  /** Return the model's value. */
  get known() {
    return this.#known;
  }

  /** Return the model's value; undefined for the default. */
  get changed() {
    return this.#known === this.#spec.default ? undefined : this.#known;
  }

  set(value) {
    this.#write(value);
    this.#submit();
  }

  reset() {
    this.set(this.#spec.default);
  }

  /** Take the model's value, from reactor.state; show it when the user is not editing. */
  follow(value) {
    this.#known = value;
    if (!this.#edited && !this.#sendings) this.#write(value);
    this.#changed();
  }

  /** Start a session with its state; only a text that was typed and not sent is kept. */
  restart(value = this.#spec.default) {
    this.#history.open(this.#session.model);
    this.#awaited = null;
    this.#show("");
    setText(this.#error, "");
    this.#known = value;
    if (!this.#edited) this.#write(value);
  }

  #layOut({ name, event: { description } }) {
    const { ui, examples } = this.#spec;
    const [id, errorId] = [newId(), newId()];
    const label = ui.label || humanise(this.field || this.#spec.name);
    this.#area = el("textarea", {
      id,
      name: this.#spec.name,
      rows: 1,
      placeholder: ui.placeholder || this.#spec.description || description || label,
      "aria-label": label,
      "aria-describedby": errorId,
      enterkeyhint: "send",
      oninput: () => this.#edit(),
      onkeydown: (event) => this.#pressed(event),
    });
    this.#mark = el("span", { class: "prompt-mark", "aria-live": "polite" });
    this.#error = el("p", { class: "error", id: errorId, "aria-live": "polite", "data-error-for": name });
    const send = el(
      "button",
      { class: "prompt-send", title: "Send (Enter); Shift+Enter starts a new line", "aria-label": `Send ${label}` },
      "↑",
    );
    const chip = (text, title, onclick, image = null) =>
      el("button", { type: "button", class: "chip-button plate", title, onclick }, image, text);
    const chips = (examples ?? []).map((text) =>
      chip(text, text, () => this.set(text), thumbnailOf({ [this.field]: text })),
    );
    if (chips.length > 1) {
      chips.unshift(chip("Surprise me", "Send one of the examples", () => this.#surprise()));
      chips[0].classList.add("surprise");
    }
    this.#fieldset = el(
      "fieldset",
      { class: "prompt-fields", "aria-label": label, disabled: true },
      this.#presets,
      chips.length ? el("div", { class: "chips", role: "group", "aria-label": "Examples" }, ...chips) : null,
      el("div", { class: "prompt-row plate" }, this.#area, this.#mark, send),
      this.#error,
    );
    const onsubmit = (event) => {
      event.preventDefault();
      this.#submit();
    };
    return el("form", { class: "prompt", "data-event": name, onsubmit }, this.#fieldset);
  }

  /** Send an example other than the present text. */
  #surprise() {
    const others = this.#spec.examples.filter((text) => text !== this.#area.value);
    this.set(others[Math.floor(Math.random() * others.length)]);
  }

  #read() {
    return this.#spec.optional && !this.#area.value ? null : this.#area.value;
  }

  #write(value) {
    this.#area.value = value ?? "";
    this.#edited = false;
  }

  #edit() {
    this.#edited = true;
    this.#show("");
    this.#changed();
  }

  #pressed(event) {
    const { key, shiftKey, isComposing, keyCode } = event;
    if (key === "Escape") {
      this.#write(this.#known);
      setText(this.#error, "");
      return;
    }
    if (key === "Enter" && !shiftKey && !isComposing && keyCode !== COMPOSED) {
      event.preventDefault();
      this.#submit();
    }
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (!step || shiftKey || isComposing || !this.#isAtEdge(step)) return;
    const text = this.#history.move(step, this.#area.value);
    if (text === null) return;
    event.preventDefault();
    this.#area.value = text;
    this.#edit();
  }

  /** Whether the caret is where the arrow could not move it to another line. */
  #isAtEdge(step) {
    const { value, selectionStart, scrollHeight } = this.#area;
    const lineHeight = Number.parseFloat(getComputedStyle(this.#area).lineHeight);
    if (scrollHeight < 2.5 * lineHeight && !value.includes("\n")) return true;
    return selectionStart === (step < 0 ? 0 : value.length);
  }

  async #submit() {
    const value = this.#read();
    const sending = ++this.#sendings;
    const isNewest = () => sending === this.#sendings;
    this.#edited = false;
    this.#awaited = null;
    this.#history.add(this.#area.value);
    this.#show("sending");
    this.#changed();
    try {
      const { n } = await this.#send(this.#event, { [this.#spec.name]: value }, performance.now());
      if (!isNewest()) return;
      setText(this.#error, "");
      this.#awaited = n ?? null;
      this.#known = value;
    } catch (error) {
      if (!isNewest()) return;
      this.#show("");
      if (!(error instanceof ConnectionLost)) this.#fail(error);
    } finally {
      if (isNewest()) this.#sendings = 0;
    }
  }

  #fail({ fields = [], message }) {
    const path = `${this.#event}.${this.#spec.name}`;
    const own = fields.filter((field) => field.path === path).map((field) => field.message);
    setText(this.#error, own.join("; ") || message);
    this.#edited = true;
  }

  /** `state` is sending, applied or "". */
  #show(state) {
    if (state !== "sending") this.#awaited = null;
    this.#area.form.dataset.state = state;
    setText(this.#mark, { sending: "Sending", applied: "Applied" }[state] ?? "");
  }

  #changed() {
    this.#place.dispatchEvent(new Event("controlchange", { bubbles: true }));
  }
}

/** The texts that were sent, of each model, newest last; kept in this browser. */
class History {
  #name = "";
  #texts = [];
  #at = 0;
  // What was typed before the first step back.
  #draft = "";

  open(model) {
    const name = `prompts.${model}`;
    if (name === this.#name) return;
    this.#name = name;
    const { texts } = recall(name);
    this.#texts = Array.isArray(texts) ? texts.filter((text) => typeof text === "string") : [];
    this.#at = this.#texts.length;
  }

  add(text) {
    if (text.trim()) this.#texts = [...this.#texts.filter((each) => each !== text), text].slice(-MOST_KEPT);
    this.#at = this.#texts.length;
    remember(this.#name, { texts: this.#texts });
  }

  /** Return the text one step back or forward; null at the end. */
  move(step, current) {
    const at = this.#at + step;
    if (at < 0 || at > this.#texts.length) return null;
    if (this.#at === this.#texts.length) this.#draft = current;
    this.#at = at;
    // The newest text is what the bar shows already.
    if (this.#texts[at] === current && step < 0) return this.move(step, current) ?? current;
    return this.#texts[at] ?? this.#draft;
  }
}
