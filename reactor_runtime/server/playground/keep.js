/** The button that saves a recording of the session with its last minute, and a card with the path of the file. */

/** @import { Session } from "./client/reactor.js" */

import { byId, el, setText } from "./dom.js";

// The second part is left out on phones.
const LABEL = ["Keep", " the last minute"];

export class KeepPanel {
  #session;
  #button = el("button", { type: "button", class: "quiet", id: "keep", title: "Save a recording of the session" });
  #headline = el("p", { class: "reload-headline" });
  #command = el("pre");
  #message = el("p");
  #hint = el("p", { class: "reload-hint" });
  #card = el("div", { class: "kept over", hidden: true });

  /**
   * @param {Session} session
   * @param {HTMLElement} stage the element around the canvases
   * @param {import("./log.js").Log} log
   */
  constructor(session, stage, log) {
    this.#session = session;
    this.#button.onclick = () => {
      this.#card.hidden = true;
      setText(this.#button, "Keeping");
      session.keep();
    };
    const onclick = () => (this.#card.hidden = true);
    this.#card.append(
      el("button", { type: "button", title: "Hide", "aria-label": "Hide", onclick }, "✕"),
      el("div", { role: "status" }, this.#headline, this.#command, this.#message, this.#hint),
    );
    // The bindings and the tools of the stage would handle these as input.
    for (const name of ["pointerdown", "click", "wheel"])
      this.#card.addEventListener(name, (event) => event.stopPropagation());
    byId("reload").before(this.#button);
    stage.append(this.#card);
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    on("kept", (kept) => {
      this.#show(kept);
      log.add(kept.file ? "note" : "error", [this.#headline.textContent, kept.file ?? kept.message].join(": "), kept);
    });
    on("session", () => this.#restart());
    on("status", () => this.#restart());
    // An error may be the answer to `keep()`.
    on("error", () => this.#label());
    this.#restart();
  }

  #restart() {
    const { role, lastReload } = this.#session;
    this.#button.hidden = !lastReload;
    this.#button.disabled = role !== "controller";
    this.#label();
  }

  #label() {
    const [first, rest] = LABEL;
    if (this.#button.textContent !== first + rest) this.#button.replaceChildren(first, el("span", {}, rest));
  }

  #show({ file, message, hint }) {
    this.#label();
    this.#card.dataset.status = file ? "kept" : "failed";
    const kept = message ? "Kept the recording" : "Kept the last minute";
    setText(this.#headline, file ? kept : "The session can't be kept");
    setText(this.#command, file ? `reactor replay ${quoted(file)}` : "");
    setText(this.#message, message ?? "");
    setText(this.#hint, hint ?? "");
    this.#card.hidden = false;
  }
}

/** Quote a path for a shell. */
const quoted = (path) => (/^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
