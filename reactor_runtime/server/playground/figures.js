/** The line of figures under the picture, refreshed twice a second. */

import { el, setText } from "./dom.js";

const REFRESH_MS = 500;
const WINDOW_MS = 2000;
const CELLS = {
  fps: ["fps", "Frames painted each second"],
  skipped: ["Skipped", "Frames left out so that the newest is on screen"],
  delay: ["Input to picture", "From an input to the first frame that shows it, painted: median of 9, and the last"],
  rtt: ["Round trip", "To the server and back"],
  size: ["Size", "Of the picture, in pixels"],
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
  #cells = {};
  #tracks = new Map(); // name → {rate, size}
  #bits = new Rate();
  #skipped = 0;

  /** `delay` is the InputDelay to show; `rttMs()` the connection's round trip or null. */
  constructor(list, delay, rttMs) {
    for (const [key, [label, title]] of Object.entries(CELLS)) {
      this.#cells[key] = el("dd", { "data-figure": key }, "–");
      list.append(el("div", { title }, el("dt", {}, label), this.#cells[key]));
    }
    setInterval(() => document.hidden || this.#refresh(performance.now(), delay, rttMs()), REFRESH_MS);
  }

  restart(names) {
    this.#tracks = new Map(names.map((name) => [name, { rate: new Rate(), size: "" }]));
    this.#skipped = 0;
  }

  received(bytes, at) {
    this.#bits.add(at, bytes * 8);
  }

  painted({ name, canvas }, skipped, at) {
    const track = this.#tracks.get(name);
    track.rate.add(at);
    track.size = `${canvas.width}×${canvas.height}`;
    this.#skipped += skipped;
  }

  #refresh(now, { medianMs, lastMs }, rttMs) {
    const each = (words) => [...this.#tracks.values()].map(words).filter(Boolean).join(" · ") || "–";
    const show = (key, words) => setText(this.#cells[key], words);
    show("fps", each(({ rate }) => rate.perSecond(now).toFixed(1)));
    show("skipped", String(this.#skipped));
    show("delay", medianMs === null ? "–" : `${medianMs.toFixed()} ms · last ${lastMs.toFixed()}`);
    show("rtt", rttMs === null ? "–" : `${rttMs.toFixed(rttMs < 10 ? 1 : 0)} ms`);
    show("size", each(({ size }) => size));
    show("bits", (this.#bits.perSecond(now) / 1e6).toFixed(1));
  }
}
