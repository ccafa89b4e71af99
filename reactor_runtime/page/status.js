/** Shows the status of the session: in the bar, over the canvases, in the title and the icon. */

import { byId, setText } from "./dom.js";

const VIEWING = "View only";
const SHARED = "Everyone has the controls";
const MARKS = { failed: "✕", offline: "○", ended: "○" };
// By close code, or by the reason of an end.
const CLOSED = {
  1000: ["ended", "Session ended"],
  1001: ["ended", "The server is stopping"],
  1012: ["ended", "The server is restarting"],
  1011: ["failed", "The model failed"],
  1013: ["offline", "The server is full"],
  refused: ["offline", "The server refuses this page"],
  unreachable: ["offline", "The server can't be reached"],
};

// After these the page does not connect by itself.
const AGAIN = ["finished", "turn_over", "idle", "closed", "lost"];

// The headline says the same.
const withoutPrefix = (detail) => detail?.replace(/^the model failed: /, "");

/** Return what to show: `role` is what the user may do; `next` happens at `at`, as performance.now(). */
export const describeStatus = (status) => descriptions[status.reason ? "ended" : status.phase](status);

const descriptions = {
  connecting: ({ detail }) => ({ phase: "connecting", headline: "Connecting", detail }),
  loading: ({ model, detail, progress, elapsedS }) => ({
    phase: "loading",
    headline: `Loading ${model || "the model"}`,
    detail,
    progress,
    since: performance.now() - 1000 * elapsedS,
  }),
  waiting: ({ position, length, detail, role, maySend }) => ({
    phase: "waiting",
    headline: `Waiting: position ${position} of ${length}`,
    detail,
    place: position,
    role: maySend ? SHARED : role ? VIEWING : "",
  }),
  connected: ({ role, maySend }) => ({
    headline: "Connected",
    since: performance.now(),
    ...(role === "viewer"
      ? { phase: "watching", role: maySend ? SHARED : VIEWING }
      : { phase: "connected", role: "You have the controls" }),
  }),
  alone: () => ({
    phase: "watching",
    headline: "Nobody controls the model",
    detail: "To take the controls, open this page without role=viewer.",
  }),
  idle: ({ seconds }) => ({
    phase: "idle",
    headline: "Are you still there?",
    next: "Your turn ends",
    at: performance.now() + 1000 * seconds,
    button: "Yes, go on",
  }),
  ended: ({ reason = "", detail }) => {
    const [phase, headline] = CLOSED[reason] ?? CLOSED[/^(model_|failed)/.test(reason) ? 1011 : 1000];
    // The message is for viewers too.
    const told = reason === "idle" ? "You were idle" : withoutPrefix(detail) || reason;
    return { phase, headline, detail: told, button: AGAIN.includes(reason) && "Play again" };
  },
  reconnecting: ({ code, detail, retryAt }) => {
    const [phase, headline] = CLOSED[code] ?? CLOSED.unreachable;
    return { phase, headline, detail: withoutPrefix(detail), next: "Reconnecting", at: retryAt };
  },
};

export class Status {
  #reason = "";
  #endsAt = 0;
  #roleNote = "";
  #watching = 0;
  now = descriptions.connecting({ detail: "" });

  constructor() {
    setInterval(() => this.#tick(), 250);
  }

  /** The title of reactor.yaml, which the page begins with, has precedence. */
  set model(name) {
    setText(byId("model"), byId("model").dataset.title || name);
  }

  /** `reason` stays visible until there is a session again. */
  show(now, reason = this.#reason) {
    const { phase, headline, place = "", role, detail, progress, at, button } = now;
    const bar = /** @type {HTMLProgressElement} */ (byId("notice-progress"));
    const mark = role ? "●" : (MARKS[phase] ?? "◌");
    const { documentElement } = document;
    this.now = now;
    this.#reason = reason;
    documentElement.dataset.phase = phase;
    documentElement.toggleAttribute("data-live", !!role);
    document.title = `${mark} ${byId("model").textContent} · ${headline}`;
    const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><text y="7" font-size="9" fill="tomato">${mark}</text></svg>`;
    byId("icon").setAttribute("href", `data:image/svg+xml,${icon}`);
    setText(byId("headline"), headline);
    setText(byId("notice-place"), String(place));
    setText(byId("notice-reason"), `Before: ${reason}`);
    byId("notice-reason").hidden = !reason || reason === detail || reason === headline;
    bar.hidden = typeof progress !== "number";
    if (!bar.hidden) bar.value = progress;
    byId("retry").hidden = !at && !button;
    setText(byId("retry"), button || "Try now");
    this.#notice = this.#hasStage ? "" : headline;
    this.#tick();
  }

  /** Set in how many seconds the turn ends; null for never. */
  set turnEnds(seconds) {
    this.#endsAt = seconds === null ? 0 : performance.now() + 1000 * seconds;
    this.#tick();
  }

  /** Replace the text about the role, while the controls are loading. */
  set roleNote(text) {
    this.#roleNote = text;
    this.#tick();
  }

  /** Set how many other clients watch the session. */
  set watching(count) {
    this.#watching = count;
  }

  /** Set what the stage waits for; "" when it shows frames or plays sound. */
  set awaited(text) {
    if (this.#hasStage) this.#notice = text;
  }

  /** Whether the frames are uncovered; a client that waits sees those of others behind its position. */
  get #hasStage() {
    return !!this.now.role && this.now.phase !== "waiting";
  }

  /** Set the text over the canvases; empty removes it. */
  set #notice(text) {
    setText(byId("notice-headline"), text);
    byId("notice").hidden = !text;
  }

  /** Update what changes with time; outside the live region, so that screen readers do not announce it. */
  #tick() {
    const { role = "", detail, since, next, at } = this.now;
    const now = performance.now();
    const left = (end) => Math.max(0, Math.ceil((end - now) / 1000));
    const elapsed = since && `${Math.round((now - since) / 1000)} s`;
    const then = at && (at > now ? `${next} in ${left(at)} s` : `${next}…`);
    setText(byId("notice-detail"), [detail, elapsed, then].filter(Boolean).join("\n"));
    const turnS = role && this.#endsAt && left(this.#endsAt);
    const clock = `${Math.floor(turnS / 60)}:${String(turnS % 60).padStart(2, "0")}`;
    byId("turn").hidden = !turnS;
    setText(byId("turn").lastElementChild, turnS ? clock : "");
    // In the wait queue it is on the stage.
    const watching = role && this.#hasStage && this.#watching && `${this.#watching} watching`;
    const notes = [(role && this.#roleNote) || role, watching].filter(Boolean);
    setText(byId("may"), (turnS ? " · " : "") + notes.join(" · "));
    byId("role").toggleAttribute("data-soon", turnS && turnS <= 60);
  }
}
