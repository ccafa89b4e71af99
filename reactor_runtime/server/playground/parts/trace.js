/** The last ten seconds, drawn: a dialog that shows what was when it was asked for, and gives it away as a file. */

import { el, setText } from "../dom.js";
import { sharp } from "./graph.js";
import { save, stamp } from "./save.js";
import { lanesOf, toChromeTrace } from "./spans.js";
import { style } from "./style.js";
import { Timeline } from "./timeline.js";

const KINDS = {
  sent: "Input sent", applied: "Applied", way: "On the way", decode: "Decoding", held: "Held for the screen", painted: "Painted", skipped: "Skipped",
};
const HELP = "Point at something. The wheel, + and − zoom; dragging, ← and → move; 0 shows all.";

/** Show what `Journal.recent` gave. */
export async function openTrace(recent, model) {
  await style("trace.css");
  const lanes = lanesOf(recent);
  const swatches = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, el("i", { class: `trace-${kind}` })]));
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": summary(lanes) });
  const said = el("p", { class: "trace-said" }, HELP);
  const button = (words, title, onclick) => el("button", { type: "button", class: "button", title, onclick }, words);
  const buttons = [
    button("−", "Zoom out", () => timeline.zoom(2)),
    button("+", "Zoom in", () => timeline.zoom(0.5)),
    button("Save", "As a file for ui.perfetto.dev or chrome://tracing", () => saveTrace(toChromeTrace(lanes, model), model)),
    button("Close", null, () => dialog.close()),
  ];
  const dialog = el("dialog", { class: "trace", "aria-label": "Trace of the last 10 s" },
    el("header", {}, el("h2", {}, "The last 10 s"), el("span", { class: "count" }, summary(lanes)), ...buttons),
    canvas, said,
    el("ul", {}, ...Object.entries(KINDS).map(([kind, words]) => el("li", {}, swatches[kind], words))));
  const timeline = new Timeline(canvas, lanes, { from: recent.from, to: recent.now, swatches, sharp, told: (words) => setText(said, words || HELP) });
  const resized = new ResizeObserver(() => timeline.draw());
  document.body.append(dialog);
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // keys that the model has bound are ours here
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    resized.disconnect();
    dialog.remove();
  });
  dialog.showModal();
  resized.observe(canvas);
  canvas.focus({ preventScroll: true }); // the buttons above it stay in sight
}

function summary(lanes) {
  const [inputs, , , , painted, skipped] = lanes.map(({ spans }) => spans);
  const rows = inputs.filter(({ kind }) => kind === "sent").length;
  return `${rows} inputs · ${painted.length} painted · ${skipped.length} skips`;
}

function saveTrace(trace, model) {
  save(new Blob([JSON.stringify(trace)], { type: "application/json" }), `${model}-trace-${stamp()}.json`);
}
