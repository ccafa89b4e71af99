/** Charts that open above the line of metrics: the last 30 s as lines, and the stages of the last input's delay. */

import { loadStyle } from "../browser.js";
import { el, setText } from "../dom.js";

const STYLE = new URL("charts.css", import.meta.url);
const SPAN_MS = 30000;
const GAP_MS = 1500; // samples further apart are of a page that was hidden between them
const CALM_STEP = 4; // of samples, for who wants less motion
const LINES = [
  { key: "fps", words: "fps", unit: "", least: 10, ticks: "skipped" },
  { key: "ageMs", words: "Age", unit: " ms", least: 20 },
  { key: "delayMs", words: "Input to picture", unit: " ms", least: 50, sparse: true },
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
    el("figcaption", {}, line.words, range),
    el("div", { class: "graph-plot" }, canvas, scale),
    axis,
  );
  const draw = (samples) => {
    const words = describe(samples, line);
    setText(range, words);
    setText(scale, `${topOf(samples, line).toFixed()} ${line.unit.trim() || line.words}`);
    canvas.ariaLabel = `${line.words}: ${words}`;
    plot(canvas, samples, line);
  };
  return { root, draw };
}

/** From least to most, in words. */
export function describe(samples, { key, unit, ticks }) {
  const values = samples.map((sample) => sample[key]).filter((value) => value !== null);
  if (!values.length) return "nothing yet";
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed());
  const skipped = ticks ? samples.reduce((sum, sample) => sum + sample[ticks], 0) : 0;
  return `${least === most ? most : `${least} – ${most}`}${unit}${skipped ? ` · ${skipped} skipped` : ""}`;
}

/** Runs of points to be joined, [x, y] from 0 to 1, y upwards; `least` is the smallest top of the scale. */
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
  const context = sharp(canvas, width, height);
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

/** A context to draw on in the page's pixels, as sharp as the screen is. */
export function sharp(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const NOTHING = "Change something: the way of your last input to its picture is shown here.";
const WATCHING = "You watch: there is no input of yours to follow.";
const ESTIMATES =
  "Paint and the sum are measured in this page; the stages between them are estimates from the server's metrics and clock.";

export async function makeStages({ session, metrics, timings }) {
  await loadStyle(STYLE);
  const parts = STAGES.map(([key, words, title]) => {
    const amount = el("b");
    return {
      key,
      amount,
      share: el("i", { class: `stage-${key}` }),
      row: el("li", { title }, el("i", { class: `stage-${key}` }), words, amount),
    };
  });
  const head = el("h2", { title: ESTIMATES });
  const said = el("p", { class: "hint" }, NOTHING);
  const bar = el("div", { class: "stages-bar", "aria-hidden": "true" }, ...parts.map(({ share }) => share));
  const list = el("ol", {}, ...parts.map(({ row }) => row));
  let split = null; // the input that is shown: its metrics stay those of its time
  const root = el("section", { class: "stages", "aria-label": "Stages of the delay" }, head, said, bar, list);

  /** Show the last input that was seen. */
  function update() {
    const input = metrics.lastShown;
    const times = input && measured(input, timings.handedAt(input.shown), session);
    for (const part of [bar, list]) part.hidden = !times;
    said.hidden = Boolean(times);
    setText(said, session.role === "viewer" ? WATCHING : NOTHING);
    setText(head, times ? `Last input to picture: ${times.totalMs.toFixed()} ms` : "Last input to picture");
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

/** In the order of the way: [key, words, what it is]. */
const STAGES = [
  ["up", "Network, there", "Half the round trip"],
  [
    "wait",
    "Waiting for the step",
    "What is left: until the step that runs is done and one begins with the input, and for the answer to the input before",
  ],
  ["model", "Model", "The step that made the picture"],
  ["encode", "Encode", "To the server's encoder, waiting for it, encoding, and back"],
  ["hold", "Held until due", "So that pictures are evenly spaced, and how late that was"],
  ["down", "Network, back", "From there to this page, with the wait while too many pictures are on their way"],
  ["paint", "Paint", "Decoding, and waiting for the screen's repaint"],
];

/**
 * Split what was measured, in ms: `totalMs` from input to paint, of which the last `paintMs` went by here, and `backMs` before that
 * between the model's hand-over and the picture's coming. The rest is estimates, `stats` of the server's and half of `rttMs`; where
 * they say more than there was, they share it. Returns {key: ms}: none negative, together `totalMs`.
 */
export function splitDelay({ totalMs, backMs, paintMs, rttMs, stats }) {
  const sum = (...keys) => keys.reduce((so, key) => so + Math.max(0, stats[`${key}_ms`] ?? 0), 0);
  const total = Math.max(0, totalMs);
  const paint = within(paintMs, total);
  const back = within(backMs, total - paint);
  const [up, model, wait] = share([(rttMs ?? 0) / 2, sum("step")], total - paint - back);
  const [encode, hold, down] = share([sum("arrive", "queue", "encode", "back"), sum("hold", "late")], back);
  return { up, wait, model, encode, hold, down, paint };
}

const within = (value, most) => Math.min(Math.max(0, value), most);

/** Both estimates and what is left of `whole`; smaller ones where they are more than that. */
function share(estimates, whole) {
  const together = estimates.reduce((sum, each) => sum + each, 0);
  const scale = together > whole ? whole / together : 1;
  const scaled = estimates.map((each) => each * scale);
  return [...scaled, Math.max(0, whole - together * scale)];
}

/** What `splitDelay` takes, of an input and the frame that showed it, handed over at `handedAt`; null where the server's clock isn't known yet. */
function measured({ inputAt, shown }, handedAt, { rttMs, stats }) {
  if (handedAt === null) return null;
  const { receivedAt, paintedAt } = shown;
  return { totalMs: paintedAt - inputAt, backMs: receivedAt - handedAt, paintMs: paintedAt - receivedAt, rttMs, stats };
}
