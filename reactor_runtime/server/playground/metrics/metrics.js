/** The line of metrics below the stage, samples of the last 30 s, and the buttons that open charts and the trace. */

/** @import { Session } from "../client/reactor.js" */

import { recall, remember, TEXT_FIELDS } from "../browser.js";
import { el, setText } from "../dom.js";

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

  /** Start a session with these video tracks, each {name, canvas, caption}, with or without sound. */
  restart(videos, hasSound) {
    this.#videos = new Map(videos.map((video) => [video.canvas, { ...video, rate: new Rate() }]));
    this.#skipped = this.#newlySkipped = 0;
    this.#ages = [];
    this.samples = [];
    this.lastShown = null;
    setText(this.#cells.age, "–");
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

const KEYWORD = "x-reactor-bind";
const VIEWS = {
  stages: ["Input to frame", "The stages from an input to its frame", (charts, parts) => charts.makeStages(parts)],
  graph: ["Graph", "Frames a second, age and delay in the last 30 s", (charts, parts) => charts.makeGraph(parts)],
};

/** Add the buttons to the line `list`; `onError(text, reason)` reports a part that cannot be loaded. */
export function addOpeners(list, { session, metrics, timings, onError }) {
  const kept = recall("figures");
  // view → its chart, null while that is loading
  const shown = new Map();
  const place = el("section", { class: "opened", "aria-label": "Metrics" });
  const opener = (text, attributes) => el("button", { type: "button", class: "opener", ...attributes }, text);
  const buttons = Object.entries(VIEWS).map(([view, [text, title]]) =>
    opener(text, { title, "aria-expanded": "false", "data-view": view, onclick: () => toggle(view) }),
  );
  const [stages, graph] = buttons;
  const trace = opener("Trace", {
    title: "The last 10 s, frame by frame (T)",
    "aria-haspopup": "dialog",
    onclick: openTrace,
  });
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
      const [, , make] = VIEWS[view];
      const made = await make(await import("./charts.js"), { session, metrics, timings });
      if (!shown.has(view)) return;
      shown.set(view, made);
      made.update();
    } catch ({ message }) {
      shown.delete(view);
      onError("A part of the page can't be loaded", message);
    }
    arrange();
  }

  function arrange() {
    for (const button of buttons) button.ariaExpanded = String(shown.has(button.dataset.view));
    const roots = Object.keys(VIEWS)
      .map((view) => shown.get(view)?.root)
      .filter(Boolean);
    place.replaceChildren(...roots);
    if (roots.length) list.before(place);
    else place.remove();
  }

  async function openTrace() {
    if (document.querySelector("dialog[open]")) return;
    // At the time of the click.
    const recent = timings.recent(performance.now());
    try {
      const { openTrace: show } = await import("./trace.js");
      await show(recent, session.model);
    } catch ({ message }) {
      onError("The trace can't be loaded", message);
    }
  }

  window.addEventListener("keydown", (event) => {
    if (!isCall(event, session.schema.events) || "embed" in document.documentElement.dataset) return;
    event.preventDefault();
    openTrace();
  });
  metrics.onSample(() => shown.forEach((made) => made?.update()));
  for (const view of Object.keys(VIEWS)) if (kept[view]) open(view);
  arrange();
}

/** Return whether a key press opens the trace: not while the user types, and not if the model has bound that key. */
function isCall({ key, code, target, repeat, ctrlKey, altKey, metaKey, isComposing }, events) {
  if (key.toLowerCase() !== "t" || repeat || ctrlKey || altKey || metaKey || isComposing) return false;
  return !target.closest?.(`dialog, ${TEXT_FIELDS}`) && !isBound(code, events);
}

function isBound(code, events) {
  const found = [];
  JSON.stringify(events, (name, value) => {
    if (name === KEYWORD) found.push(JSON.stringify(value));
    return value;
  });
  return found.some((sources) => sources.includes(JSON.stringify(code)));
}
