/** Lanes of spans on a canvas: zoomed and moved with mouse, fingers and keys. */

const [TOP, NAME, GAP, ROOM] = [22, 16, 8, 40]; // px: the axis, a lane's name, between lanes, and for all rows of a lane together
const MOST_ROW = 16;
const LEAST_MS = 20; // on screen
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
const NEAR = 4; // px around the pointer

export class Timeline {
  #canvas;
  #lanes;
  #whole;
  #view;
  #sharp;
  #colours;
  #told;
  #pointedX = 0;

  /** `swatches` are elements of each kind's colour; `told(words)` of what is pointed at, "" for nothing. */
  constructor(canvas, lanes, { from, to, swatches, sharp, told }) {
    this.#canvas = canvas;
    this.#whole = this.#view = [from, to];
    this.#sharp = sharp;
    this.#colours = swatches;
    this.#told = told;
    this.#lanes = stacked(lanes);
    canvas.style.height = `${this.#lanes.at(-1).bottom + GAP}px`;
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointedX = event.offsetX;
      this.#pointed(event);
    });
    canvas.addEventListener("pointermove", (event) => this.#pointed(event));
    canvas.addEventListener("pointerleave", () => told(""));
    canvas.addEventListener("keydown", (event) => this.#pressed(event));
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const context = this.#sharp(this.#canvas, width, height);
    const colour = getComputedStyle(this.#canvas);
    const hue = Object.fromEntries(Object.entries(this.#colours).map(([kind, swatch]) => [kind, getComputedStyle(swatch).backgroundColor]));
    context.font = "12px system-ui, sans-serif";
    this.#axis(context, height, colour);
    for (const { name, top, row, spans } of this.#lanes) {
      context.fillStyle = colour.color;
      context.fillText(name, 8, top - 4);
      for (const span of spans) {
        const [left, right] = [this.#place(span.start), this.#place(span.end)];
        if (right < 0 || left > width) continue;
        context.fillStyle = hue[span.kind];
        context.fillRect(left, top + span.row * row, Math.max(1, right - left - 0.5), Math.max(1, row - 1));
      }
    }
  }

  #axis(context, height, colour) {
    const [from, to] = this.#view;
    const end = this.#whole[1];
    const step = STEPS.find((each) => (to - from) / each <= this.#canvas.clientWidth / 80) ?? STEPS.at(-1);
    for (let back = Math.ceil((end - to) / step) * step; back <= end - from; back += step) {
      const x = Math.round(this.#place(end - back));
      context.fillStyle = colour.borderBottomColor;
      context.fillRect(x, 0, 1, height);
      context.fillStyle = colour.caretColor;
      context.fillText(back ? `−${step < 1000 ? `${back.toFixed()} ms` : `${(back / 1000).toFixed()} s`}` : "0", x + 4, 13);
    }
  }

  #place(time) {
    const [from, to] = this.#view;
    return ((time - from) / (to - from)) * this.#canvas.clientWidth;
  }

  #timeAt(x) {
    const [from, to] = this.#view;
    return from + (x / this.#canvas.clientWidth) * (to - from);
  }

  /** Show `factor` times as much, with what is at `time` where it was. */
  zoom(factor, time = (this.#view[0] + this.#view[1]) / 2) {
    const [from, to] = this.#view;
    const span = to - from;
    const wanted = Math.min(this.#whole[1] - this.#whole[0], Math.max(LEAST_MS, span * factor));
    this.#show(time - ((time - from) / span) * wanted, wanted);
  }

  #move(byMs) {
    const [from, to] = this.#view;
    this.#show(from + byMs, to - from);
  }

  #show(from, span) {
    const begin = Math.min(Math.max(from, this.#whole[0]), this.#whole[1] - span);
    this.#view = [begin, begin + span];
    this.draw();
  }

  #wheel(event) {
    event.preventDefault();
    const { deltaX, deltaY, offsetX } = event;
    if (Math.abs(deltaX) > Math.abs(deltaY)) this.#move(this.#timeAt(deltaX) - this.#view[0]);
    else this.zoom(1.002 ** deltaY, this.#timeAt(offsetX));
  }

  #pressed(event) {
    const [from, to] = this.#view;
    const acts = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.zoom(Infinity),
      ArrowLeft: () => this.#move((from - to) / 8), ArrowRight: () => this.#move((to - from) / 8),
    };
    if (!Object.hasOwn(acts, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  #pointed({ offsetX, offsetY, buttons }) {
    const movedBy = offsetX - this.#pointedX;
    this.#pointedX = offsetX;
    if (buttons & 1 && movedBy) return this.#move(this.#view[0] - this.#timeAt(movedBy));
    this.#told(this.#at(offsetX, offsetY)?.words ?? "");
  }

  /** The span under a place, or the nearest one by. */
  #at(x, y) {
    const lane = this.#lanes.find(({ top, bottom }) => y >= top - NAME && y < bottom);
    const rows = lane?.spans.filter((span) => lane.row < 6 || Math.floor((y - lane.top) / lane.row) === span.row || y < lane.top) ?? [];
    const off = ({ start, end }) => Math.max(this.#place(start) - x, x - this.#place(end), 0);
    const [nearest] = rows.map((span) => [off(span), span]).filter(([px]) => px <= NEAR).sort(([a], [b]) => a - b);
    return nearest?.[1];
  }
}

/** Give each lane its place: {top, bottom, row}, in px. */
function stacked(lanes) {
  let top = TOP;
  return lanes.map((lane) => {
    const row = Math.max(3, Math.min(MOST_ROW, ROOM / lane.rows));
    const begin = top + NAME;
    top = begin + row * lane.rows + GAP;
    return { ...lane, row, top: begin, bottom: top - GAP };
  });
}
