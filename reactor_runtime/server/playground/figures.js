/** The line of figures under the picture, and those of each of several pictures. */

import { el, setText } from "./dom.js";

const REFRESH_MS = 500;
const WINDOW_MS = 2000;
const OF_PICTURES = ["fps", "skipped", "delay", "size"];
const CELLS = {
  fps: ["fps", "Frames painted a second; of several pictures the slowest and the fastest"],
  skipped: ["Skipped", "Frames left out so that the newest is on screen"],
  delay: ["Input to picture", "From an input to the first frame that shows it, painted: median of 9, and the last"],
  rtt: ["Round trip", "To the server and back"],
  size: ["Size", "In pixels; JPEG quality below the best, and why"],
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
  #list;
  #cells = {};
  #pictures = new Map(); // name → {rate, canvas, caption}
  #bits = new Rate();
  #skipped = 0;

  constructor(list, session) {
    this.#list = list;
    for (const [key, [label, title]] of Object.entries(CELLS)) {
      this.#cells[key] = el("dd", { "data-figure": key }, "–");
      list.append(el("div", { title }, el("dt", {}, label), this.#cells[key]));
    }
    this.restart([], false);
    session.addEventListener("received", ({ detail }) => this.#bits.add(performance.now(), detail * 8));
    session.addEventListener("painted", ({ detail }) => this.#painted(detail));
    setInterval(() => document.hidden || this.#refresh(performance.now(), session), REFRESH_MS);
  }

  /** A new session with these pictures, each {name, canvas, caption}, and with sound or without. */
  restart(pictures, hasSound) {
    this.#pictures = new Map(pictures.map((picture) => [picture.canvas, { ...picture, rate: new Rate() }]));
    this.#skipped = 0;
    for (const key of OF_PICTURES) this.#cells[key].parentElement.hidden = hasSound && !pictures.length;
    this.#cells.sound.parentElement.hidden = !hasSound;
    this.#list.toggleAttribute("data-both", hasSound && pictures.length > 0);
  }

  #painted({ canvas, skipped, at }) {
    this.#pictures.get(canvas).rate.add(at);
    this.#skipped += skipped;
  }

  #refresh(now, { delay: { medianMs, lastMs }, sound, rttMs, stats }) {
    const show = (key, words) => setText(this.#cells[key], words);
    const each = [...this.#pictures.values()].map(({ canvas, caption, rate }) => {
      const size = "empty" in canvas.dataset ? "" : `${canvas.width}×${canvas.height}`;
      const fps = rate.perSecond(now);
      setText(caption, `${size} · ${fps.toFixed(1)} fps`);
      return { size, fps };
    });
    show("fps", span(each.map(({ fps }) => fps)));
    const { rung, quality, why } = stats;
    const sizes = [...new Set(each.map(({ size }) => size))].filter(Boolean).join(" · ") || "–";
    show("size", rung ? `${sizes} q${quality} ${why}` : sizes);
    show("skipped", `${this.#skipped}`);
    show("delay", medianMs === null ? "–" : `${medianMs.toFixed()} ms · last ${lastMs.toFixed()}`);
    show("rtt", rttMs === null ? "–" : `${rttMs.toFixed(rttMs < 10 ? 1 : 0)} ms`);
    show("sound", !sound.on ? "off" : sound.lagMs === null ? "on" : `${signed(sound.lagMs)} ms`);
    show("bits", (this.#bits.perSecond(now) / 1e6).toFixed(1));
  }
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed()}`;

function span(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(1));
  if (!values.length) return "–";
  return most - least < 1 ? most : `${least} – ${most}`;
}
