/** What the page shows in the wait queue below the position: the estimated time, who watches, and a notification of the turn. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { byId, el, setText } from "./dom.js";

const TITLE = "Your turn";

/**
 * Add them to the card of the status.
 * @param {Session} session
 */
export async function attach(session) {
  await loadStyle(new URL("waiting.css", import.meta.url));
  const time = el("p", { class: "wait-time" });
  const watching = el("p", { class: "wait-watching" });
  const notify = el("button", { type: "button", class: "button" }, "Notify me");
  const note = el("p", { class: "hint", role: "status" });
  const root = el("div", { class: "wait" }, time, watching, notify, note);
  let wanted = false;
  // {position, waitS, at}
  let place = {};

  const show = () => {
    const status = session.status;
    const { phase, role } = status;
    const { position, waitS } = status.phase === "waiting" ? status : {};
    root.hidden = phase !== "waiting" || !position;
    if (phase !== "waiting" && role === "controller" && wanted) call();
    if (phase !== "waiting") wanted = false;
    if (place.position !== position || place.waitS !== waitS) place = { position, waitS, at: performance.now() };
    notify.hidden = wanted;
    if (!wanted) setText(note, "");
    tick();
  };
  const tick = () => {
    const leftS = place.waitS - (performance.now() - place.at) / 1000;
    setText(time, place.waitS === undefined ? "" : `About ${describeTime(leftS)}`);
    // Without this client.
    const others = (session.stats.watching ?? 1) - 1;
    setText(watching, others ? `${others} watching` : "");
  };
  const call = () => {
    const model = byId("model").textContent;
    try {
      new Notification(TITLE, { body: model }).onclick = () => window.focus();
    } catch {
      // Without permission, and in Chrome on Android; the title is left.
    }
    if (!document.hidden) return;
    const before = document.title;
    document.title = `▶ ${TITLE} · ${model}`;
    document.addEventListener("visibilitychange", () => (document.title = before), { once: true });
  };
  notify.onclick = async () => {
    wanted = true;
    const permission = await globalThis.Notification?.requestPermission().catch(() => "denied");
    if (!wanted) return;
    show();
    setText(note, permission === "granted" ? "You will be notified" : "The title of this tab will show your turn");
  };
  session.addEventListener("status", show);
  session.addEventListener("stats", tick);
  setInterval(tick, 1000);
  byId("notice-detail").after(root);
  show();
}

/** Return a time for people: rounded, because it is an estimate. */
export function describeTime(seconds) {
  if (seconds > 90) return `${Math.round(seconds / 60)} min`;
  if (seconds > 10) return `${10 * Math.ceil(seconds / 10)} s`;
  return "10 s";
}
