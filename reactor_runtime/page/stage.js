/** The canvases: one for each video track, or for each audio track of a model without video. */

import { el, setText } from "./dom.js";

const ALIKE = 0.95;
const EDGES_MS = 100;
const SLOW_S = 0.5;

export class Stage {
  #root;
  #session;
  // name → {name, root, canvas, caption, waveform: a promise or null, end}
  #tiles = new Map();
  #edges = new Edges();

  constructor(root, session) {
    this.#root = root;
    root.before(this.#edges.root);
    this.#session = session;
    session.addEventListener("painted", ({ detail }) => this.#painted(detail));
    session.addEventListener("sound", ({ detail }) => this.#showSound(detail));
    new ResizeObserver(() => this.#arrange()).observe(root);
  }

  get videos() {
    return [...this.#tiles.values()].filter(({ waveform }) => !waveform);
  }

  /** Return the text to show before the first frame or sound; "" after it. */
  get awaited() {
    const tiles = [...this.#tiles.values()];
    if (!tiles.length) return "This model sends neither video nor sound";
    if (tiles.some(({ canvas }) => !canvas.hasAttribute("data-empty"))) return "";
    const { stats, tracks } = this.#session;
    // A model with input tracks may wait for them.
    const generates = this.videos.length && tracks.every(({ direction }) => direction === "out");
    if (!generates) return `Waiting for the first ${this.videos.length ? "frame" : "sound"}`;
    const stepS = (stats.step_ms ?? 0) / 1000;
    return stepS < SLOW_S ? "Generating the first frame" : `Generating: a step takes ${stepS.toFixed(1)} s`;
  }

  /** Start a session. */
  restart() {
    for (const { canvas, waveform } of this.#tiles.values()) {
      canvas.dataset.stale = "";
      waveform?.then((wave) => wave.restart());
    }
    this.update();
  }

  /** Show the tracks of the session; the same tracks keep their elements. */
  update() {
    const old = this.#tiles;
    const outputs = this.#session.tracks.filter(({ direction }) => direction === "out");
    const videos = outputs.filter(({ kind }) => kind === "video");
    const shown = videos.length ? videos : outputs;
    const isKept = ({ name }) => old.has(name) && !old.get(name).waveform === videos.length > 0;
    if (shown.length === old.size && shown.every(isKept)) return;
    this.#tiles = new Map(shown.map((track) => [track.name, isKept(track) ? old.get(track.name) : this.#tile(track)]));
    for (const tile of old.values()) if (this.#tiles.get(tile.name) !== tile) tile.end();
    this.#root.replaceChildren(...[...this.#tiles.values()].map(({ root }) => root));
    this.#arrange();
  }

  #showSound(sound) {
    const { canvas, caption, waveform } = this.#tiles.get(sound.track) ?? {};
    if (!waveform) return;
    waveform.then((wave) => wave.push(sound));
    mark(canvas);
    setText(caption, `${sound.sampleRate / 1000} kHz ${sound.channels === 2 ? "stereo" : "mono"}`);
  }

  #tile({ name, kind }) {
    const data = { "data-track": name, "data-empty": true };
    const canvas = el("canvas", { ...data, role: "img", "aria-label": name, width: 16, height: 9 });
    const caption = el("span");
    const style = kind === "video" ? "screen" : "scope";
    const root = el("figure", { class: `track ${style}` }, canvas, el("figcaption", {}, el("b", {}, name), caption));
    const waveform = kind === "audio" ? import("./waveform.js").then(({ Waveform }) => new Waveform(canvas)) : null;
    return { name, root, canvas, caption, waveform, end: waveform ? () => {} : this.#session.attach(name, canvas) };
  }

  #painted({ canvas, seq = "", applied = "" }) {
    mark(canvas);
    Object.assign(canvas.dataset, { seq, applied });
    if (canvas === this.videos[0]?.canvas) this.#edges.paint(canvas, performance.now());
    this.#arrange();
  }

  #arrange() {
    const { clientWidth, clientHeight } = this.#root;
    const shapes = this.videos.map(({ canvas }) => canvas.width / canvas.height);
    const columns = bestColumns(this.#tiles.size, clientWidth / clientHeight, Math.max(...shapes, 1));
    this.#root.style.setProperty("--columns", columns);
    // Of the frame that the narrow page gives its height to.
    const [shape] = shapes;
    document.documentElement.style.setProperty("--shape", shapes.length === 1 ? String(shape) : "");
  }
}

/** What the frame leaves free of the stage: the frame itself, so small that its enlargement is blurred, and darkened. */
class Edges {
  root = el("div", { class: "edges" });
  #context;
  #paintedAt = 0;

  constructor() {
    const canvas = el("canvas", { width: 16, height: 9, part: "canvas" });
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#context.imageSmoothingQuality = "high";
    // In a shadow tree, so that the canvases of the page are those of the tracks.
    this.root.attachShadow({ mode: "closed" }).append(canvas);
  }

  paint(frame, now) {
    if (now - this.#paintedAt < EDGES_MS) return;
    this.#paintedAt = now;
    this.#context.drawImage(frame, 0, 0, 16, 9);
  }
}

function mark(canvas) {
  delete canvas.dataset.empty;
  delete canvas.dataset.stale;
}

/** Return the number of columns with the largest tiles, side by side if equal; shapes are width by height. */
export function bestColumns(count, stageShape, tileShape) {
  const widths = Array.from({ length: count }, (_, i) => {
    const [columns, rows] = [i + 1, Math.ceil(count / (i + 1))];
    // Width of one tile on a stage of height 1.
    return Math.min(stageShape / columns, tileShape / rows);
  });
  const last = widths.findLastIndex((width) => width >= ALIKE * Math.max(...widths));
  return 1 + Math.max(0, last);
}
