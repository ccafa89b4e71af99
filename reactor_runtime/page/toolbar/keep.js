/** The part of the clip's dialog that saves a recording of the session with its last minute, and shows the path of the file. */

/** @import { Session } from "../client/reactor.js" */

import { el, setText } from "../dom.js";

const LABEL = "Keep the last minute";

export class KeepPanel {
  #button = el(
    "button",
    { type: "button", class: "button", id: "keep", title: "Save a recording of the session" },
    LABEL,
  );
  #headline = el("p", { class: "kept-headline" });
  #command = el("pre");
  #message = el("p");
  #hint = el("p", { class: "hint" });
  root = el("div", { class: "kept" }, this.#button);

  /**
   * `onKept(headline, answer)` is called for each answer of the server, until `signal` ends it.
   * @param {Session} session
   * @param {AbortSignal} signal
   * @param {(headline: string, answer: { file: string | null, message: string | null }) => void} onKept
   */
  constructor(session, signal, onKept) {
    this.#button.onclick = () => {
      setText(this.#button, "Keeping");
      session.keep();
    };
    this.root.append(el("div", { role: "status" }, this.#headline, this.#command, this.#message, this.#hint));
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail), { signal });
    on("kept", (kept) => {
      this.#show(kept);
      onKept(this.#headline.textContent, kept);
    });
    const restart = () => {
      this.#button.toggleAttribute("disabled", session.role !== "controller");
      setText(this.#button, LABEL);
    };
    // An error may be the answer to `keep()`.
    for (const name of ["session", "status", "error"]) on(name, restart);
    restart();
  }

  #show({ file, message, hint }) {
    setText(this.#button, LABEL);
    this.root.dataset.status = file ? "kept" : "failed";
    const kept = message ? "Kept the recording" : "Kept the last minute";
    setText(this.#headline, file ? kept : "The session can't be kept");
    setText(this.#command, file ? `reactor replay ${quoted(file)}` : "");
    setText(this.#message, message ?? "");
    setText(this.#hint, hint ?? "");
  }
}

/** Quote a path for a shell. */
const quoted = (path) => (/^[\w./~-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
