/** The last 30 s as three lines: frames a second, age and delay, with ticks where frames were skipped. */

import { el, setText } from "../dom.js";
import { style } from "./style.js";

const SPAN_MS = 30000;
const GAP_MS = 1500; // samples further apart are of a page that was hidden between them
const CALM_STEP = 4; // of samples, for who wants less motion
const LINES = [
  { key: "fps", words: "fps", unit: "", least: 10, ticks: "skipped" },
  { key: "ageMs", words: "Age", unit: " ms", least: 20 },
  { key: "delayMs", words: "Input to picture", unit: " ms", least: 50, sparse: true },
];

export async function make({ figures }) {
  await style("graph.css");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const charts = LINES.map((line) => makeChart(line));
  const root = el("section", { class: "graph", "aria-label": "The last 30 s" }, ...charts.map((chart) => chart.root));
  const resized = new ResizeObserver(() => draw());
  let count = 0;
  resized.observe(root);

  const draw = () => charts.forEach((chart) => chart.draw(figures.samples));
  const update = () => (calm.matches && count++ % CALM_STEP ? undefined : draw());
  return { root, update };
}

function makeChart(line) {
  const canvas = el("canvas", { role: "img" });
  const range = el("span");
  const scale = el("span", { "aria-hidden": true });
  const axis = el("p", { class: "graph-axis", "aria-hidden": true }, el("span", {}, "30 s ago"), el("span", {}, "now"));
  const root = el("figure", { "data-line": line.key }, el("figcaption", {}, line.words, range), el("div", { class: "graph-plot" }, canvas, scale), axis);
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
    if (sample[line.ticks]) context.fillRect(Math.round((1 - (end - sample.at) / SPAN_MS) * width) - 2, height - 9, 2, 9);
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
