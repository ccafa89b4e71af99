/** What opens from the line of figures: the stages of the delay and the graph, which stay open, and the trace. Each comes when it is asked for. */

import { el } from "../dom.js";
import { recall, remember } from "./memory.js";
import { FIELDS } from "./typing.js";

const KEYWORD = "x-reactor-bind";
const VIEWS = {
  stages: ["Input to picture", "Where the time from an input to its picture goes", () => import("./stages.js")],
  graph: ["Graph", "Frames a second, age and delay in the last 30 s", () => import("./graph.js")],
};

/** Put the buttons at the end of the line `list`; `failed(words, why)` tells of a part that can't be loaded. */
export function openers(list, { session, figures, journal, failed }) {
  const kept = recall("figures");
  const shown = new Map(); // view → what it shows, or null while that is loaded
  const place = el("section", { class: "opened", "aria-label": "Figures" });
  const opener = (words, attributes) => el("button", { type: "button", class: "opener", ...attributes }, words);
  const buttons = Object.entries(VIEWS).map(([view, [words, title]]) => (
    opener(words, { title, "aria-expanded": "false", "data-view": view, onclick: () => toggle(view) })
  ));
  const [stages, graph] = buttons;
  const trace = opener("Trace", { title: "The last 10 s, moment by moment (T)", "aria-haspopup": "dialog", onclick: openTrace });
  list.querySelector("[data-figure=delay]").previousSibling.replaceChildren(stages);
  list.append(el("div", { class: "openers" }, el("dt", {}, "Closer"), el("dd", {}, graph, trace)));

  function toggle(view) {
    if (shown.has(view)) shown.delete(view);
    else open(view);
    arrange();
    remember("figures", Object.fromEntries([...shown.keys()].map((each) => [each, true])));
  }

  async function open(view) {
    shown.set(view, null);
    try {
      const { make } = await VIEWS[view][2]();
      const made = await make({ session, figures, journal });
      if (!shown.has(view)) return;
      shown.set(view, made);
      made.update();
    } catch ({ message }) {
      shown.delete(view);
      failed("A part of the page can't be loaded", message);
    }
    arrange();
  }

  function arrange() {
    for (const button of buttons) button.ariaExpanded = String(shown.has(button.dataset.view));
    const roots = Object.keys(VIEWS).map((view) => shown.get(view)?.root).filter(Boolean);
    place.replaceChildren(...roots);
    if (roots.length) list.before(place);
    else place.remove();
    figures.sampled = () => shown.forEach((made) => made?.update());
  }

  async function openTrace() {
    if (document.querySelector("dialog[open]")) return;
    const recent = journal.recent(performance.now()); // of when it was asked for
    try {
      const { openTrace: show } = await import("./trace.js");
      await show(recent, session.model);
    } catch ({ message }) {
      failed("The trace can't be loaded", message);
    }
  }

  window.addEventListener("keydown", (event) => {
    if (!isCall(event, session.schema.events) || "embed" in document.documentElement.dataset) return;
    event.preventDefault();
    openTrace();
  });
  for (const view of Object.keys(VIEWS)) if (kept[view]) open(view);
  arrange();
}

/** Whether a key press asks for the trace: not while somebody types, and not where the model has bound that key. */
function isCall({ key, code, target, repeat, ctrlKey, altKey, metaKey, isComposing }, events) {
  if (key.toLowerCase() !== "t" || repeat || ctrlKey || altKey || metaKey || isComposing) return false;
  return !target.closest?.(`dialog, ${FIELDS}`) && !isBound(code, events);
}

export function isBound(code, events) {
  const found = [];
  JSON.stringify(events, (name, value) => (name === KEYWORD && found.push(JSON.stringify(value)), value));
  return found.some((sources) => sources.includes(JSON.stringify(code)));
}
