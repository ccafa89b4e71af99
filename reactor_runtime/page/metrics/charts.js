/** Charts above the line of metrics: the last 30 s as lines, and the stages of the last input's delay. */

import { loadStyle } from "../browser.js";
import { el, setText } from "../dom.js";

const STYLE = new URL("charts.css", import.meta.url);
const SPAN_MS = 30000;
// A larger gap between samples: the page was hidden.
const GAP_MS = 1500;
// With prefers-reduced-motion: draw every so many samples.
const CALM_STEP = 4;
const LINES = [
  { key: "fps", text: "fps", unit: "", least: 10, ticks: "skipped" },
  { key: "ageMs", text: "Age", unit: " ms", least: 20 },
  { key: "delayMs", text: "Input to frame", unit: " ms", least: 50, sparse: true },
];

export async function makeGraph({ metrics }) {
  await loadStyle(STYLE);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const charts = LINES.map((line) => makeChart(line));
  const root = el("section", { class: "graph", "aria-label": "The last 30 s" }, ...charts.map((chart) => chart.root));
  const resized = new ResizeObserver(() => draw());
  let count = 0;
  resized.observe(root);

  const draw = () => charts.forEach((chart) => chart.draw(metrics.samples));
  const update = () => (calm.matches && count++ % CALM_STEP ? undefined : draw());
  return { root, update };
}

function makeChart(line) {
  const canvas = el("canvas", { role: "img" });
  const range = el("span");
  const scale = el("span", { "aria-hidden": true });
  const axis = el("p", { class: "graph-axis", "aria-hidden": true }, el("span", {}, "30 s ago"), el("span", {}, "now"));
  const root = el(
    "figure",
    { "data-line": line.key },
    el("figcaption", {}, line.text, range),
    el("div", { class: "graph-plot" }, canvas, scale),
    axis,
  );
  const draw = (samples) => {
    const text = describe(samples, line);
    setText(range, text);
    setText(scale, `${topOf(samples, line).toFixed()} ${line.unit.trim() || line.text}`);
    canvas.ariaLabel = `${line.text}: ${text}`;
    plot(canvas, samples, line);
  };
  return { root, draw };
}

/** Return the range of a line as text. */
export function describe(samples, { key, unit, ticks }) {
  const values = samples.map((sample) => sample[key]).filter((value) => value !== null);
  if (!values.length) return "nothing yet";
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed());
  const skipped = ticks ? samples.reduce((sum, sample) => sum + sample[ticks], 0) : 0;
  return `${least === most ? most : `${least} – ${most}`}${unit}${skipped ? ` · ${skipped} skipped` : ""}`;
}

/** Return runs of points to join, [x, y] from 0 to 1, y upwards; `least` is the smallest maximum of the scale. */
export function pointsOf(samples, line) {
  const { key, sparse } = line;
  const values = samples.map((sample) => sample[key]);
  const top = topOf(samples, line);
  const end = samples.at(-1)?.at ?? 0;
  const runs = [];
  let last = -Infinity;
  for (const [i, { at }] of samples.entries()) {
    if (values[i] === null) continue;
    if (at - last > (sparse ? SPAN_MS : GAP_MS)) runs.push([]);
    runs.at(-1).push([1 - (end - at) / SPAN_MS, values[i] / top]);
    last = at;
  }
  return runs;
}

const topOf = (samples, { key, least }) => 1.1 * Math.max(least, ...samples.map((sample) => sample[key]));

function plot(canvas, samples, line) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = sharpContext(canvas, width, height);
  const colour = getComputedStyle(canvas);
  const [pen, faint, bad] = [colour.color, colour.borderBottomColor, colour.caretColor];
  const end = samples.at(-1)?.at ?? 0;
  context.fillStyle = faint;
  for (const third of [0, 1, 2]) context.fillRect(Math.round((third * width) / 3), 0, 1, height);
  context.fillRect(0, height - 1, width, 1);
  context.fillStyle = bad;
  for (const sample of line.ticks ? samples : []) {
    if (sample[line.ticks])
      context.fillRect(Math.round((1 - (end - sample.at) / SPAN_MS) * width) - 2, height - 9, 2, 9);
  }
  context.strokeStyle = context.fillStyle = pen;
  context.lineWidth = 1.5;
  for (const run of pointsOf(samples, line)) {
    const places = run.map(([x, y]) => [x * width, (height - 2) * (1 - y) + 1]);
    context.beginPath();
    for (const place of places) context.lineTo(...place);
    context.stroke();
    for (const [x, y] of line.sparse || run.length === 1 ? places : []) context.fillRect(x - 2, y - 2, 4, 4);
  }
}

/** Return a context in CSS pixels at the resolution of the screen. */
function sharpContext(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const NOTHING = "Change something: the stages of your last input are shown here.";
const WATCHING = "You are watching and send no input.";
const ESTIMATES =
  "Paint and the sum are measured in this page; the stages between them are estimates from the server's metrics and clock.";

export async function makeStages({ session, metrics, timings }) {
  await loadStyle(STYLE);
  const parts = STAGES.map(([key, text, title]) => {
    const amount = el("b");
    return {
      key,
      amount,
      share: el("i", { class: `stage-${key}` }),
      row: el("li", { title }, el("i", { class: `stage-${key}` }), text, amount),
    };
  });
  const head = el("h2", { title: ESTIMATES });
  const hint = el("p", { class: "hint" }, NOTHING);
  const bar = el("div", { class: "stages-bar", "aria-hidden": "true" }, ...parts.map(({ share }) => share));
  const list = el("ol", {}, ...parts.map(({ row }) => row));
  // The input that is shown, with the metrics of its time.
  let split = null;
  const root = el("section", { class: "stages", "aria-label": "Stages of the delay" }, head, hint, bar, list);

  /** Show the last input that was painted. */
  function update() {
    const input = metrics.lastShown;
    const times = input && measured(input, timings.handedAt(input.shown), session);
    for (const part of [bar, list]) part.hidden = !times;
    hint.hidden = Boolean(times);
    setText(hint, session.role === "viewer" ? WATCHING : NOTHING);
    setText(head, times ? `Last input to frame: ${times.totalMs.toFixed()} ms` : "Last input to frame");
    if (times && input !== split) show(splitDelay(times));
    if (times) split = input;
  }

  function show(ms) {
    for (const { key, amount, share } of parts) {
      share.style.flexGrow = ms[key];
      setText(amount, `${ms[key].toFixed(1)} ms`);
    }
  }

  return { root, update };
}

/** In order: [key, label, explanation]. */
const STAGES = [
  ["up", "Network, there", "Half the round trip"],
  [
    "wait",
    "Waiting for the step",
    "The rest: until the current step ends and one with the input begins, and for the reply to the previous input",
  ],
  ["model", "Model", "The step that made the frame"],
  ["encode", "Encode", "To the server's encoder, waiting for it, encoding, and back"],
  ["hold", "Held until due", "Until the frame is due, so that frames are evenly spaced, and how late it was sent"],
  ["down", "Network, back", "From the server to this page, with the wait for room in the send window"],
  ["paint", "Paint", "Decoding, and waiting for the screen's repaint"],
];

/**
 * Split a measured delay into stages, in ms: `totalMs` from input to paint, with the last `paintMs` in this page, and
 * `backMs` before that between the model's output and the arrival of the frame. The other stages are estimates, from
 * the server's `stats` and half of `rttMs`; if they exceed the measured time, they are scaled down. Return {key: ms}:
 * none negative, with the sum `totalMs`.
 */
export function splitDelay({ totalMs, backMs, paintMs, rttMs, stats }) {
  const sum = (...keys) => keys.reduce((so, key) => so + Math.max(0, stats[`${key}_ms`] ?? 0), 0);
  const total = Math.max(0, totalMs);
  const paint = clamp(paintMs, total);
  const back = clamp(backMs, total - paint);
  const [up, model, wait] = share([(rttMs ?? 0) / 2, sum("step")], total - paint - back);
  const [encode, hold, down] = share([sum("arrive", "queue", "encode", "back"), sum("hold", "late")], back);
  return { up, wait, model, encode, hold, down, paint };
}

const clamp = (value, most) => Math.min(Math.max(0, value), most);

/** Return the estimates and the rest of `whole`; scaled down if their sum is larger. */
function share(estimates, whole) {
  const together = estimates.reduce((sum, each) => sum + each, 0);
  const scale = together > whole ? whole / together : 1;
  const scaled = estimates.map((each) => each * scale);
  return [...scaled, Math.max(0, whole - together * scale)];
}

/**
 * Return the arguments of splitDelay for an input and the frame that shows it; null while the server's clock is
 * unknown.
 */
function measured({ inputAt, shown }, handedAt, { rttMs, stats }) {
  if (handedAt === null) return null;
  const { receivedAt, paintedAt } = shown;
  return { totalMs: paintedAt - inputAt, backMs: receivedAt - handedAt, paintMs: paintedAt - receivedAt, rttMs, stats };
}
