/** The list from which a viewer chooses the session to watch, on a server with several. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { byId, el, setText } from "./dom.js";

/** Add the choice to the bar. @param {Session} session */
export async function attach(session) {
  await loadStyle(new URL("sessions.css", import.meta.url));
  const choice = /** @type {HTMLSelectElement} */ (el("select", { onchange: () => watch(choice.value) }));
  const label = el("label", { class: "sessions", hidden: true }, el("span", {}, "Session"), choice);
  let asked = 0;
  const refresh = async () => {
    const number = ++asked;
    const { engines = [] } = await fetchHealth();
    // An answer may overtake an older one.
    if (number < asked) return;
    const running = engines.filter(({ session: id }) => id);
    label.hidden = engines.length < 2 || !running.length;
    while (choice.options.length > running.length) choice.options[running.length].remove();
    for (const [index, engine] of running.entries()) {
      const option = choice.options[index] ?? choice.appendChild(el("option"));
      option.value = engine.session;
      setText(option, describe(engine));
    }
    choice.value = session.id ?? "";
  };
  // An open select shows no changes, so its list is refreshed just before.
  for (const name of ["pointerenter", "focus"]) choice.addEventListener(name, refresh);
  session.addEventListener("session", refresh);
  byId("role").after(label);
  // The session may have begun before this module was loaded.
  refresh();
}

const describe = ({ session, number, worker, node }) =>
  [session, worker || `model ${number}`, node].filter(Boolean).join(" · ");

async function fetchHealth() {
  try {
    return await (await fetch("health")).json();
  } catch {
    // The status of the page shows that the server can't be reached.
    return {};
  }
}

function watch(id) {
  const url = new URL(location.href);
  url.searchParams.set("session", id);
  location.assign(url);
}
