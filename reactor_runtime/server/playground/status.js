/** Says in words how things stand: in the bar, over the picture, in the title and the icon. */

import { byId, setText } from "./dom.js";
import { CLOSED_FULL } from "./client/connection.js";

const MARKS = { busy: "◌", live: "●", off: "○", failed: "✕" };
const ICONS = { connected: "live", watching: "live", failed: "failed", offline: "off", ended: "off" };

const ENDED = { left: "The controller left.", finished: "The model has finished.", server_stopping: "The server is stopping." };
const CLOSED = {
  1000: ["ended", "Session ended"],
  1001: ["ended", "The server is stopping"],
  1012: ["ended", "The server is restarting"],
  1011: ["failed", "The model failed"],
  [CLOSED_FULL]: ["offline", "The server is full"],
  4401: ["offline", "The server wants a valid token"],
};

/** What each report means: {phase, headline, detail?, since?, retryAt?}; times on performance.now()'s clock. */
export const meaning = {
  opened: { phase: "connecting", headline: "Connecting" },
  loading: ({ detail, elapsed_s: elapsedS = 0 }) => ({
    phase: "loading", headline: "Loading the model", detail, since: performance.now() - 1000 * elapsedS,
  }),
  queue: ({ position, length }) => ({
    phase: "waiting", headline: `Waiting in line: number ${position} of ${length}`, detail: "It starts by itself when it is your turn.",
  }),
  controller: { phase: "connected", headline: "Connected" },
  viewer: { phase: "watching", headline: "Connected, watching" },
  failed: ({ message }) => ({ phase: "failed", headline: "The model failed", detail: message }),
  ended: ({ reason = "", message }) => {
    const [phase, headline] = CLOSED[reason.startsWith("model_") ? 1011 : 1000];
    return { phase, headline, detail: message || ENDED[reason] || reason };
  },
  closed: ({ code, reason, retryAt }) => {
    const [phase, headline] = CLOSED[code] ?? ["offline", "The server can't be reached"];
    return { phase, headline, detail: reason, retryAt };
  },
};

export class Status {
  #model = "Reactor";
  #reason = "";
  #timer = 0;
  now = meaning.opened;

  set model(name) {
    this.#model = name;
    setText(byId("model"), name);
  }

  /** `reason` stays on screen through the next phases until there is a session again. */
  show(now, reason = this.#reason) {
    const { phase, headline, detail, since, retryAt } = now;
    const icon = ICONS[phase] ?? "busy";
    this.now = now;
    this.#reason = reason;
    document.documentElement.dataset.phase = phase;
    document.title = `${MARKS[icon]} ${this.#model} · ${headline}`;
    byId("icon").href = `static/icon-${icon}.svg`;
    setText(byId("headline"), headline);
    setText(byId("notice-reason"), `Before: ${reason}`);
    byId("notice-reason").hidden = !reason || reason === detail || reason === headline;
    byId("retry").hidden = !retryAt;
    this.overPicture = phase === "connected" || phase === "watching" ? "" : headline;
    clearInterval(this.#timer);
    if (retryAt || since) this.#timer = setInterval(() => this.#tick(), 250);
    this.#tick();
  }

  /** Words over the picture; empty takes them away. */
  set overPicture(words) {
    setText(byId("notice-headline"), words);
    byId("notice").hidden = !words;
  }

  /** Only this changes with time, and it is outside the live region: nobody wants a countdown read out. */
  #tick() {
    const { detail, since, retryAt } = this.now;
    const now = performance.now();
    const elapsed = since && `${Math.round((now - since) / 1000)} s`;
    const retry = retryAt && (retryAt > now ? `Reconnecting in ${Math.ceil((retryAt - now) / 1000)} s` : "Reconnecting…");
    setText(byId("notice-detail"), [detail, elapsed, retry].filter(Boolean).join("\n"));
  }
}
