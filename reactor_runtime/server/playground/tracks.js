/** What fills the stage: a picture for each video track, or where there is none a scope for each audio track. */

import { Screen } from "./client/screen.js";
import { el, setText } from "./dom.js";
import { Scope } from "./scope.js";

const ALIKE = 0.95;

export class Tracks {
  #root;
  #handlers;
  #tiles = new Map(); // name → {name, root, canvas, caption, shown: Screen or Scope}

  /** `handlers` are those of a Screen. */
  constructor(root, handlers) {
    this.#root = root;
    this.#handlers = { ...handlers, painted: (...frame) => this.#painted(frame, handlers.painted) };
    new ResizeObserver(() => this.#arrange()).observe(root);
  }

  get pictures() {
    return [...this.#tiles.values()].filter(({ shown }) => shown instanceof Screen);
  }

  /** Words to show while nothing has come; "" when something has. */
  get awaited() {
    const tiles = [...this.#tiles.values()];
    if (!tiles.length) return "This model sends neither picture nor sound";
    if (tiles.some(({ canvas }) => !canvas.hasAttribute("data-empty"))) return "";
    return `Waiting for the first ${this.pictures.length ? "picture" : "sound"}`;
  }

  /** A new session; the same tracks as before keep their elements. */
  restart(videoNames, audioNames) {
    const old = this.#tiles;
    for (const { canvas, shown } of old.values()) {
      shown.restart();
      canvas.dataset.stale = "";
    }
    const [names, kind] = videoNames.length ? [videoNames, Screen] : [audioNames, Scope];
    const kept = (name) => (old.get(name)?.shown instanceof kind ? old.get(name) : this.#tile(name, kind));
    this.#tiles = new Map(names.map((name) => [name, kept(name)]));
    if (names.join("\n") === [...old.keys()].join("\n") && names.every((name) => old.get(name) === this.#tiles.get(name))) return;
    this.#root.replaceChildren(...[...this.#tiles.values()].map(({ root }) => root));
    this.#arrange();
  }

  /** The screen of a track, or the first one where there is no name; undefined where there is none. */
  screen(name) {
    return this.pictures.find((tile) => name === undefined || tile.name === name)?.shown;
  }

  hear(sound) {
    const { canvas, caption, shown } = this.#tiles.get(sound.header.track) ?? {};
    if (!(shown instanceof Scope)) return;
    shown.hear(sound);
    mark(canvas);
    setText(caption, `${sound.sampleRate / 1000} kHz ${sound.channels === 2 ? "stereo" : "mono"}`);
  }

  #tile(name, kind) {
    const canvas = el("canvas", { "data-track": name, "data-empty": true, role: "img", "aria-label": name, width: 16, height: 9 });
    const caption = el("span");
    const root = el("figure", { class: kind === Screen ? "track screen" : "track scope" }, canvas, el("figcaption", {}, el("b", {}, name), caption));
    return { name, root, canvas, caption, shown: new kind(name, canvas, this.#handlers) };
  }

  #painted([screen, header, skipped], painted) {
    const { canvas } = screen;
    mark(canvas);
    canvas.dataset.seq = header?.seq ?? "";
    canvas.dataset.applied = header?.applied ?? "";
    this.#arrange();
    painted(screen, header, skipped);
  }

  #arrange() {
    const { clientWidth, clientHeight } = this.#root;
    const shapes = this.pictures.map(({ canvas }) => canvas.width / canvas.height);
    const columns = bestColumns(this.#tiles.size, clientWidth / clientHeight, Math.max(...shapes, 1));
    this.#root.style.setProperty("--columns", columns);
  }
}

function mark(canvas) {
  delete canvas.dataset.empty;
  delete canvas.dataset.stale;
}

/** In how many columns `count` pictures are largest, side by side where it makes no difference; shapes are width by height. */
export function bestColumns(count, stageShape, pictureShape) {
  const widths = Array.from({ length: count }, (_, i) => {
    const [columns, rows] = [i + 1, Math.ceil(count / (i + 1))];
    return Math.min(stageShape / columns, pictureShape / rows); // of one picture, on a stage 1 high
  });
  return 1 + Math.max(0, widths.findLastIndex((width) => width >= ALIKE * Math.max(...widths)));
}
