/** The bar of a replay, below the stage: play, step, and a scrubber with the recorded events and the changed frames. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { throttledSender } from "./controls/throttle.js";
import { el, setText } from "./dom.js";

await loadStyle(new URL("timeline.css", import.meta.url));

export const attach = (place, session) => new Timeline(place, session);

class Timeline {
  #session;
  #frames;
  // A viewer that joins after the end of the replay gets none.
  #progress;
  #sender = throttledSender((frame) => this.#session.send("set_frame", { frame }).catch(() => {}));
  #held = false;
  #play = this.#button("play", "Play (space)", () => this.#toggle());
  #back = this.#button("back", "Back a frame (←)", () => this.#step(-1));
  #next = this.#button("next", "On a frame (→)", () => this.#step(1));
  #range;
  #made = el("span", { class: "timeline-made" });
  #differing = el("div", { class: "timeline-differing" });
  #position = el("span", { class: "timeline-position" });
  #result = el("span", { class: "timeline-result", role: "status" });
  #fieldset;

  /**
   * @param {HTMLElement} place its `data-recording` has the number of frames, and marks: [frame, text]
   * @param {Session} session
   */
  constructor(place, session) {
    const { frames, marks } = JSON.parse(place.dataset.recording);
    this.#session = session;
    this.#frames = frames;
    this.#progress = { made: frames, differing: [], result: "" };
    this.#range = el("input", { type: "range", min: 0, max: frames - 1, value: 0, "aria-label": "Frame" });
    this.#range.addEventListener("input", () => this.#seek(Number(this.#range.value)));
    this.#range.addEventListener("pointerdown", () => (this.#held = true));
    for (const name of ["pointerup", "pointercancel"]) this.#range.addEventListener(name, () => (this.#held = false));
    const buttons = marks.map(([frame, title]) => {
      const labels = { title, "aria-label": `Go to ${title}` };
      const onclick = () => {
        this.#seek(frame);
        this.#range.focus();
      };
      const mark = el("button", { type: "button", class: "timeline-mark", tabindex: -1, ...labels, onclick });
      mark.style.setProperty("--at", this.#part(frame));
      return mark;
    });
    const scrubber = el(
      "div",
      { class: "timeline-scrubber" },
      el("div", { class: "timeline-rail" }, this.#made, this.#differing),
      this.#range,
      el("div", { class: "timeline-marks", role: "group", "aria-label": "Recorded events" }, ...buttons),
    );
    this.#fieldset = el(
      "fieldset",
      { disabled: true, "aria-label": "Replay" },
      el("div", { class: "timeline-row" }, this.#back, this.#play, this.#next, scrubber),
      el("p", { class: "timeline-text" }, this.#position, this.#result),
    );
    place.append(this.#fieldset);
    session.addEventListener("session", () => this.#show());
    session.addEventListener("state", () => this.#show());
    session.addEventListener("status", ({ detail }) => (this.#fieldset.disabled = detail.role !== "controller"));
    session.addEventListener("message", (event) => {
      if (event.detail.type !== "replay.progress") return;
      // The log would list it.
      event.stopImmediatePropagation();
      this.#progress = event.detail.data;
      this.#showProgress();
    });
    document.addEventListener("keydown", (event) => this.#pressed(event));
    this.#showProgress();
  }

  #button(icon, title, onclick) {
    const labels = { title, "aria-label": title };
    return el("button", { type: "button", class: "timeline-button", "data-icon": icon, ...labels, onclick });
  }

  /** Return where a frame is on the rail, from 0 to 1. */
  #part(frame) {
    return String(frame / Math.max(1, this.#frames - 1));
  }

  #toggle() {
    this.#session.notify("set_playing", { playing: !this.#session.state.playing });
  }

  #step(by) {
    if (this.#session.state.playing) this.#toggle();
    this.#seek(Math.min(this.#frames - 1, Math.max(0, Number(this.#range.value) + by)));
  }

  #seek(frame) {
    this.#range.value = String(frame);
    this.#showFrame();
    this.#sender.push(frame);
  }

  #pressed(event) {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || this.#fieldset.disabled) return;
    // Other parts of the page have these keys for themselves, and so have a slider and a button.
    if (target !== document.body && !this.#fieldset.contains(target)) return;
    if (target.matches(key === " " ? "button" : "input")) return;
    const act = { " ": () => this.#toggle(), ArrowLeft: () => this.#step(-1), ArrowRight: () => this.#step(1) }[key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  #show() {
    const { frame = 0, playing = false } = this.#session.state;
    if (!this.#held && !this.#sender.busy) this.#range.value = String(frame);
    this.#play.dataset.icon = playing ? "pause" : "play";
    this.#play.title = this.#play.ariaLabel = playing ? "Pause (space)" : "Play (space)";
    this.#showFrame();
  }

  #showFrame() {
    const frame = Number(this.#range.value);
    const { made, differing } = this.#progress;
    const differs = differing.some(([first, last]) => first <= frame && frame <= last);
    const what = frame >= made ? "not computed yet" : differs ? "differs from the recording" : "";
    this.#position.toggleAttribute("data-differs", differs);
    setText(this.#position, [`frame ${frame} / ${this.#frames - 1}`, what].filter(Boolean).join(" · "));
  }

  #showProgress() {
    const { made, differing, result } = this.#progress;
    this.#made.style.setProperty("--to", String(made / this.#frames));
    this.#differing.replaceChildren(
      ...differing.map(([first, last]) => {
        const run = el("span");
        run.style.setProperty("--at", this.#part(first));
        run.style.setProperty("--to", this.#part(last));
        return run;
      }),
    );
    const computing = made < this.#frames ? `computing, ${Math.floor((100 * made) / this.#frames)} %` : "";
    setText(this.#result, result || computing);
    this.#showFrame();
  }
}
