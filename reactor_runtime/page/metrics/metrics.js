/** The metrics of the last seconds, the chip on the stage that shows two of them, and the panel that it opens. */

/** @import { Session } from "../client/reactor.js" */

import { el, setText } from "../dom.js";
import { recall, remember } from "../storage.js";
import { saveTrace } from "./trace.js";

const REFRESH_MS = 500;
const WINDOW_MS = 2000;
const MOST_SAMPLES = 60;
const OF_VIDEO = ["fps", "skipped", "age", "delay", "size"];
const WIDE = ["delay", "size"];
const CELLS = {
  fps: ["fps", "Frames painted per second; with several video tracks the slowest and the fastest"],
  skipped: ["Skipped", "Frames left out to show the newest one"],
  age: ["Age", "From the model's output to paint, by the server's clock: median of half a second"],
  delay: ["Input to frame", "From an input to the first painted frame that shows it: median of 9, and the last"],
  rtt: ["Round trip", "To the server and back"],
  size: ["Size", "In pixels; if tracks differ, each on its own; JPEG quality below the best, and why"],
  sound: ["Sound", "Delay of the sound after its frame; negative: before it"],
  bits: ["Mbit/s", "Video and sound received"],
};

/** An amount per second over the last two seconds. */
class Rate {
  // {at, amount}
  #events = [];

  add(at, amount = 1) {
    this.#events.push({ at, amount });
    while (at - this.#events[0].at > WINDOW_MS) this.#events.shift();
  }

  /** Return the rate between the first and the last event; 0 if the last is over a second old. */
  perSecond(now) {
    const [first, ...rest] = this.#events;
    const last = rest.at(-1);
    if (!last || now - last.at > 1000) return 0;
    return (1000 * rest.reduce((sum, { amount }) => sum + amount, 0)) / (last.at - first.at);
  }
}

export class Metrics {
  /** Samples of the last 30 s, two a second: {at, fps, ageMs, delayMs, skipped}, null if not measured. */
  samples = [];
  /** The last input that was painted; null before. */
  lastShown = null;
  /** The frame rate and the delay as text: of an input, or of a frame before the first input; "" without video. */
  summary = "";
  #list;
  #listeners = [];
  #timings;
  #cells = {};
  // name → {rate, canvas, caption}
  #videos = new Map();
  #bits = new Rate();
  #skipped = 0;
  #newlySkipped = 0;
  // Of the frames painted since the last sample.
  #ages = [];

  /**
   * @param {HTMLElement} list
   * @param {Session} session
   * @param {import("./timings.js").Timings} timings
   */
  constructor(list, session, timings) {
    this.#list = list;
    this.#timings = timings;
    for (const [key, [label, title]] of Object.entries(CELLS)) {
      this.#cells[key] = el("dd", { "data-figure": key }, "–");
      list.append(el("div", { title, class: WIDE.includes(key) && "wide" }, el("dt", {}, label), this.#cells[key]));
    }
    this.restart([], false);
    session.addEventListener("received", ({ detail }) => this.#bits.add(performance.now(), detail * 8));
    session.addEventListener("painted", ({ detail }) => this.#painted(detail));
    setInterval(() => document.hidden || this.#tick(performance.now(), session), REFRESH_MS);
  }

  /** Start a session with these tracks, as for update(). */
  restart(videos, hasSound) {
    this.#videos.clear();
    this.#skipped = this.#newlySkipped = 0;
    this.#ages = [];
    this.samples = [];
    this.lastShown = null;
    this.summary = "";
    setText(this.#cells.age, "–");
    this.update(videos, hasSound);
  }

  /** Measure these video tracks, each {name, canvas, caption}, with or without sound; those that stay continue. */
  update(videos, hasSound) {
    const rateOf = (canvas) => this.#videos.get(canvas)?.rate ?? new Rate();
    this.#videos = new Map(videos.map((video) => [video.canvas, { ...video, rate: rateOf(video.canvas) }]));
    for (const key of OF_VIDEO) this.#cells[key].parentElement.hidden = hasSound && !videos.length;
    this.#cells.sound.parentElement.hidden = !hasSound;
    this.#list.toggleAttribute("data-both", hasSound && videos.length > 0);
  }

  /** Call a function after each sample. */
  onSample(listener) {
    this.#listeners.push(listener);
  }

  #painted({ canvas, skipped, at, ...frame }) {
    const ageMs = this.#timings.ageMs(frame);
    this.#videos.get(canvas).rate.add(at);
    this.#skipped += skipped;
    this.#newlySkipped += skipped;
    if (ageMs !== null) this.#ages.push(ageMs);
  }

  #tick(now, session) {
    const fps = this.#refresh(now, session);
    const shown = this.#timings.newlyShown();
    const delays = shown.map((input) => input.shown.paintedAt - input.inputAt);
    const ageMs = this.#ages.sort((a, b) => a - b)[this.#ages.length >> 1] ?? null;
    if (ageMs !== null) setText(this.#cells.age, inMs(ageMs));
    this.#summarise(fps, session.medianInputDelayMs ?? ageMs);
    this.lastShown = shown.at(-1) ?? this.lastShown;
    this.samples.push({
      at: now,
      fps,
      ageMs,
      delayMs: delays.length ? Math.max(...delays) : null,
      skipped: this.#newlySkipped,
    });
    if (this.samples.length > MOST_SAMPLES) this.samples.shift();
    this.#newlySkipped = 0;
    this.#ages = [];
    for (const listener of this.#listeners) listener();
  }

  #summarise(fps, delayMs) {
    // A line may break only after the dot.
    const parts = [fps !== null && `${Math.round(fps)}\u00a0fps`, delayMs !== null && `${Math.round(delayMs)}\u00a0ms`];
    this.summary = parts.filter(Boolean).join("\u00a0· ");
  }

  /** Return the frame rate of the slowest video track; null without video. */
  #refresh(now, { inputDelayMs, medianInputDelayMs, speaker, rttMs, stats }) {
    const show = (key, text) => setText(this.#cells[key], text);
    const each = [...this.#videos.values()].map(({ canvas, caption, rate }) => {
      const size = "empty" in canvas.dataset ? "" : `${canvas.width}×${canvas.height}`;
      const fps = rate.perSecond(now);
      setText(caption, `${size} · ${fps.toFixed(1)} fps`);
      return { size, fps };
    });
    show("fps", span(each.map(({ fps }) => fps)));
    const { rung, quality, why } = stats;
    const sizes = [...new Set(each.map(({ size }) => size))].filter(Boolean);
    // Each canvas has its own caption.
    const size = sizes.length > 1 ? `${sizes.length} sizes` : (sizes[0] ?? "–");
    show("size", rung ? `${size} q${quality} ${why}` : size);
    show("skipped", `${this.#skipped}`);
    show("delay", inputDelayMs === null ? "–" : `${medianInputDelayMs.toFixed()} ms · last ${inputDelayMs.toFixed()}`);
    show("rtt", rttMs === null ? "–" : inMs(rttMs));
    show("sound", !speaker.on ? "off" : speaker.lagMs === null ? "on" : `${signed(speaker.lagMs)} ms`);
    show("bits", (this.#bits.perSecond(now) / 1e6).toFixed(1));
    return each.length ? Math.min(...each.map(({ fps }) => fps)) : null;
  }
}

const inMs = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed()}`;

function span(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => Number(value.toFixed(1)));
  if (!values.length) return "–";
  return most - least < 1 ? most.toFixed(1) : `${Math.round(least)}–${Math.round(most)}`;
}

const CHIP_TITLE = "Frames a second, and the time from an input to its frame: show all metrics";

/**
 * Add the chip before an element of the bar; it opens `panel` with charts, all metrics and the button that saves a
 * trace. `onError(text, reason)` reports a part that cannot be loaded.
 */
export function addPanel(panel, { before, session, metrics, timings, onError }) {
  const text = el("span");
  const chip = el(
    "button",
    { type: "button", class: "metrics-chip plate", title: CHIP_TITLE, onclick: () => toggle() },
    text,
  );
  const place = el("div", { class: "opened" });
  const trace = el(
    "button",
    {
      type: "button",
      class: "quiet",
      title: "The last 10 s, frame by frame, as a file for ui.perfetto.dev",
      onclick: () => saveTrace(timings.recent(performance.now()), session.model),
    },
    "Save trace",
  );
  const close = el("button", { type: "button", class: "quiet", onclick: () => toggle() }, "Close");
  // Made when the panel is open.
  let charts = [];
  panel.prepend(el("header", { class: "panel-head" }, el("h2", {}, "Metrics"), trace, close), place);
  chip.setAttribute("aria-controls", panel.id);
  before.before(chip);

  function toggle() {
    const shown = show(panel.hidden);
    remember("metrics", { open: !panel.hidden });
    if (panel.hidden) chip.focus();
    // With its graphs, which are loaded first.
    else shown.then(() => panel.scrollIntoView({ block: "nearest" }));
  }

  async function show(open) {
    panel.hidden = !open;
    chip.ariaExpanded = String(open);
    charts = [];
    if (!open) return place.replaceChildren();
    try {
      const { makeGraph, makeStages } = await import("./charts.js");
      const made = [await makeStages({ session, metrics, timings }), await makeGraph({ metrics })];
      if (panel.hidden) return;
      charts = made;
      place.replaceChildren(...charts.map(({ root }) => root));
      for (const chart of charts) chart.update();
    } catch ({ message }) {
      onError("A part of the page can't be loaded", message);
    }
  }

  metrics.onSample(() => {
    setText(text, metrics.summary || "Metrics");
    for (const chart of charts) chart.update();
  });
  setText(text, "Metrics");
  show(recall("metrics").open === true);
}
