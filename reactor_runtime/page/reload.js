/** Shows reloads of the project's files: over the video, as a button, and in the texts of reactor.yaml. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { byId, el, setText } from "./dom.js";

const CONFIRMED_MS = 1500;
const HEADLINES = {
  loading: "Loading the model again",
  restarting: "Restarting the model",
  failed: "The new code fails; the code before it continues",
  // In the log only.
  applied: "Reloaded",
};
const LABELS = { applied: "Reloaded", loading: "Reloading", restarting: "Reloading" };

export class ReloadPanel {
  #session;
  #log;
  // What is shown, as JSON without what changes during a reload.
  #shown = "";
  #timer = 0;
  #button = el("button", { type: "button", class: "quiet plate", id: "reload", title: "Load the model's code again" });
  #headline = el("p", { class: "reload-headline" });
  #place = el("code");
  #text = el("pre");
  #message = el("p");
  #hint = el("p", { class: "reload-hint" });
  #progress = el("progress", { "aria-label": "Loading", max: 1 });
  #card = el("div", { class: "reload over" });

  /**
   * @param {Session} session
   * @param {HTMLElement} stage the element around the canvases
   * @param {import("./log.js").Log} log
   */
  constructor(session, stage, log) {
    this.#session = session;
    this.#log = log;
    this.#button.onclick = () => {
      session.reload();
      this.#label("Reloading");
    };
    const onclick = () => (this.#card.hidden = true);
    const parts = [this.#headline, this.#place, this.#text, this.#message, this.#hint];
    this.#card.append(
      el("button", { type: "button", title: "Hide", "aria-label": "Hide", onclick }, "✕"),
      el("div", { role: "status" }, ...parts),
      this.#progress,
    );
    // The bindings and the tools of the stage would take these for input.
    for (const name of ["pointerdown", "click", "wheel"])
      this.#card.addEventListener(name, (event) => event.stopPropagation());
    byId("drawer").before(this.#button);
    stage.append(this.#card);
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    on("session", () => this.show());
    on("reload", ({ status }) => {
      this.show();
      this.#label(LABELS[status] ?? "Reload");
      // The button may have faded while the user was in the editor.
      this.#button.dispatchEvent(new Event("activity"));
    });
    on("status", ({ role, phase, opened }) => {
      this.#button.disabled = role !== "controller";
      // The server has gone, and the model with it.
      if (phase === "reconnecting" && !opened) this.#card.hidden = true;
    });
    this.show();
  }

  /** Load the style sheet, then make the panel. */
  static async make(session, stage, log) {
    await loadStyle(new URL("reload.css", import.meta.url));
    return new ReloadPanel(session, stage, log);
  }

  /** Show the session's last reload. */
  show() {
    const { role, lastReload } = this.#session;
    this.#button.hidden = !lastReload;
    this.#button.disabled = role !== "controller";
    this.#label("Reload");
    const { status = "applied", reason, detail, progress, error } = lastReload ?? {};
    const { hint, file, line, text } = error ?? {};
    // The headline says the same.
    const message = error?.message.replace(/^the model failed: /, "");
    const place = [file, line].filter(Boolean).join(":");
    const shown = JSON.stringify([status, reason, error]);
    const isNew = shown !== this.#shown;
    this.#shown = shown;
    if (status === "applied") this.#card.hidden = true;
    // A progress does not show again what the user has hidden.
    else if (isNew || error) this.#card.hidden = false;
    this.#card.dataset.status = status;
    this.#progress.hidden = typeof progress !== "number";
    this.#progress.value = progress ?? 0;
    setText(this.#headline, HEADLINES[status] ?? "");
    setText(this.#place, place);
    setText(this.#text, text?.trim() ?? "");
    setText(this.#message, message ?? [reason, detail].filter(Boolean).join("\n"));
    setText(this.#hint, hint ?? "");
    if (isNew && error) this.#log.add("note", [place, message].filter(Boolean).join(": "), error);
    if (isNew && reason) this.#log.add("note", `${HEADLINES[status]}: ${reason}`);
  }

  /** Set the label of the button; "Reloaded" for a moment only. */
  #label(text) {
    clearTimeout(this.#timer);
    setText(this.#button, text);
    if (text === LABELS.applied) this.#timer = setTimeout(() => this.#label("Reload"), CONFIRMED_MS);
  }
}

/**
 * Show the title, the texts and the presets of reactor.yaml as they are now in the HTML of the page.
 * @param {Session} session
 * @param {import("./controls/controls.js").Controls} controls
 */
export async function followAuthorsTexts(session, controls) {
  const response = await fetch(location.href);
  if (!response.ok) return;
  const html = new DOMParser().parseFromString(await response.text(), "text/html");
  const find = (id) => html.getElementById(id);
  document.documentElement.style.setProperty("--authors", html.documentElement.dataset.accent ?? "");
  const heading = byId("model");
  const before = heading.textContent;
  heading.dataset.title = find("model").dataset.title ?? "";
  setText(heading, heading.dataset.title || session.model);
  document.title = document.title.replace(before, heading.textContent);
  const about = find("about");
  if (about?.innerHTML !== byId("about")?.innerHTML) {
    byId("about")?.remove();
    if (about) byId("side").prepend(about);
    if (about) about.hidden = false;
  }
  const { presets = "{}", thumbnails = "[]" } = find("controls").dataset;
  const shown = byId("controls").dataset;
  if (!session.role || (presets === (shown.presets ?? "{}") && thumbnails === (shown.thumbnails ?? "[]"))) return;
  Object.assign(shown, { presets, thumbnails });
  controls.readPresets();
  controls.update(session.schema.events ?? {}, session.state, session.tracks);
}
