/** The line of figures under the picture, those of each of several pictures, and what they were in the last 30 s. */

import { el, setText } from "./dom.js";

const REFRESH_MS = 500;
const WINDOW_MS = 2000;
const MOST_SAMPLES = 60;
const OF_PICTURES = ["fps", "skipped", "age", "delay", "size"];
const WIDE = ["delay", "size"];
const CELLS = {
  fps: ["fps", "Frames painted a second; of several pictures the slowest and the fastest"],
  skipped: ["Skipped", "Frames left out so that the newest is on screen"],
  age: ["Age", "From the model's hand-over to paint, by the server's clock: the median of half a second"],
  delay: ["Input to picture", "From an input to the first frame that shows it, painted: median of 9, and the last"],
  rtt: ["Round trip", "To the server and back"],
  size: ["Size", "In pixels, each on its picture where they differ; JPEG quality below the best, and why"],
  sound: ["Sound", "How long after its picture sound is heard; minus is before"],
  bits: ["Mbit/s", "Of pictures and sound"],
};

/** Amount a second over the last two seconds. */
class Rate {
  #events = []; // {at, amount}

  add(at, amount = 1) {
    this.#events.push({ at, amount });
    while (at - this.#events[0].at > WINDOW_MS) this.#events.shift();
  }

  /** Counted from the first to the last event; 0 when nothing came for a second. */
  perSecond(now) {
    const [first, ...rest] = this.#events;
    const last = rest.at(-1);
    if (!last || now - last.at > 1000) return 0;
    return (1000 * rest.reduce((sum, { amount }) => sum + amount, 0)) / (last.at - first.at);
  }
}

export class Figures {
  /** Of the last 30 s, two a second: {at, fps, ageMs, delayMs, skipped}, null where nothing was measured. */
  samples = [];
  /** The last input that was seen; null before there is one. */
  lastShown = null;
  /** Called after each sample. */
  sampled = () => {};
  #list;
  #journal;
  #cells = {};
  #pictures = new Map(); // name → {rate, canvas, caption}
  #bits = new Rate();
  #skipped = 0;
  #newlySkipped = 0;
  #ages = []; // of the frames painted since the last sample

  constructor(list, session, journal) {
    this.#list = list;
    this.#journal = journal;
    for (const [key, [label, title]] of Object.entries(CELLS)) {
      this.#cells[key] = el("dd", { "data-figure": key }, "–");
      list.append(el("div", { title, class: WIDE.includes(key) && "wide" }, el("dt", {}, label), this.#cells[key]));
    }
    this.restart([], false);
    session.addEventListener("received", ({ detail }) => this.#bits.add(performance.now(), detail * 8));
    session.addEventListener("painted", ({ detail }) => this.#painted(detail));
    setInterval(() => document.hidden || this.#tick(performance.now(), session), REFRESH_MS);
  }

  /** A new session with these pictures, each {name, canvas, caption}, and with sound or without. */
  restart(pictures, hasSound) {
    this.#pictures = new Map(pictures.map((picture) => [picture.canvas, { ...picture, rate: new Rate() }]));
    this.#skipped = this.#newlySkipped = 0;
    this.#ages = [];
    this.samples = [];
    this.lastShown = null;
    setText(this.#cells.age, "–");
    for (const key of OF_PICTURES) this.#cells[key].parentElement.hidden = hasSound && !pictures.length;
    this.#cells.sound.parentElement.hidden = !hasSound;
    this.#list.toggleAttribute("data-both", hasSound && pictures.length > 0);
  }

  #painted({ canvas, skipped, at, ...frame }) {
    const ageMs = this.#journal.ageMs(frame);
    this.#pictures.get(canvas).rate.add(at);
    this.#skipped += skipped;
    this.#newlySkipped += skipped;
    if (ageMs !== null) this.#ages.push(ageMs);
  }

  #tick(now, session) {
    const fps = this.#refresh(now, session);
    const shown = this.#journal.newlyShown();
    const delays = shown.map((input) => input.shown.paintedAt - input.inputAt);
    const ageMs = this.#ages.sort((a, b) => a - b)[this.#ages.length >> 1] ?? null;
    if (ageMs !== null) setText(this.#cells.age, inMs(ageMs));
    this.lastShown = shown.at(-1) ?? this.lastShown;
    this.samples.push({ at: now, fps, ageMs, delayMs: delays.length ? Math.max(...delays) : null, skipped: this.#newlySkipped });
    if (this.samples.length > MOST_SAMPLES) this.samples.shift();
    this.#newlySkipped = 0;
    this.#ages = [];
    this.sampled();
  }

  /** Gives the frames a second of the slowest picture; null where there is none. */
  #refresh(now, { inputDelayMs, medianInputDelayMs, speaker, rttMs, stats }) {
    const show = (key, words) => setText(this.#cells[key], words);
    const each = [...this.#pictures.values()].map(({ canvas, caption, rate }) => {
      const size = "empty" in canvas.dataset ? "" : `${canvas.width}×${canvas.height}`;
      const fps = rate.perSecond(now);
      setText(caption, `${size} · ${fps.toFixed(1)} fps`);
      return { size, fps };
    });
    show("fps", span(each.map(({ fps }) => fps)));
    const { rung, quality, why } = stats;
    const sizes = [...new Set(each.map(({ size }) => size))].filter(Boolean);
    const size = sizes.length > 1 ? `${sizes.length} sizes` : sizes[0] ?? "–"; // each stands on its picture
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
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(1));
  if (!values.length) return "–";
  return most - least < 1 ? most : `${Math.round(least)}–${Math.round(most)}`;
}
